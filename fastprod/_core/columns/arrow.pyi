"""What Python sees of `arrow`: nothing but the classes; see arrow.pxd."""

class SchemaOwner:
    """Releases an ArrowSchema when it goes. Native only."""

    def __init__(self) -> None: ...

class ArrayOwner:
    """Releases an ArrowArray when it goes. Native only."""

    def __init__(self) -> None: ...

class StreamOwner:
    """Releases an ArrowArrayStream when it goes. Native only."""

    def __init__(self) -> None: ...

class ArrowData:
    """What an object exports by the Arrow PyCapsule interface. Native only."""

    def __init__(self) -> None: ...
