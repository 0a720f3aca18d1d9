"""What Python sees of `record_chunk`: nothing but the class; see record_chunk.pxd."""

class RecordChunk:
    """Up to 2,048 records of a `send_many` with the owners of their bytes. Native only."""

    def __init__(self) -> None: ...
