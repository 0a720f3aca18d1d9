"""What Python sees of `column_rows`: nothing but the class; see column_rows.pxd."""

class ColumnRows:
    """The rows of a bulk whose parts are columns. Native only."""

    def __init__(self) -> None: ...
