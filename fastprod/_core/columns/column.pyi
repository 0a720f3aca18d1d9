"""What Python sees of `column`: nothing but the class; see column.pxd."""

class Column:
    """Cells of many rows, kept by Arrow, by numpy or in memory of our own. Native only."""

    def __init__(self, name: str, type_name: str) -> None: ...
    def __len__(self) -> int: ...
    @property
    def name(self) -> str:
        """What errors call it."""
    @property
    def type_name(self) -> str:
        """What its maker calls its type."""
