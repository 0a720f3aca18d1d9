"""What Python sees of `row_reader`: nothing but the class; see row_reader.pxd."""

class ColumnRows:
    """The rows of a bulk whose parts are columns. Native only."""

    def __init__(self) -> None: ...
