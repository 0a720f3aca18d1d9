"""What Python sees of `arrow_output`; see arrow_output.pxd."""

class BinaryColumn:
    """Bytes of many rows, made by an encoder such as `rows.JsonRows`.

    It exports itself by Arrow's PyCapsule interface, as large_binary: `pyarrow.array(column)` and
    `KafkaProducer.append_columns(values=column)` read it without a copy.

    Threads: any; it never changes.
    """

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
    def to_pylist(self) -> list[bytes | None]:
        """Copy the rows."""
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The capsules of the type, always large_binary, and of the rows."""
