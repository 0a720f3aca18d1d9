"""What Python sees of `header_columns`: nothing but the class; see header_columns.pxd."""

class HeaderColumns:
    """The headers of many rows, out of columns. Native only."""

    def __init__(self) -> None: ...
