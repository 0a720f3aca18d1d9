"""Rows of Arrow columns as JSON; see rows.pyx."""

from fastprod._core.json.arrow_output import BinaryColumn
from fastprod._core.json.layout import JsonFormat

class JsonRows:
    """Encodes rows as JSON objects, as Spark's to_json does.

    Args:
        form: how dates, times and nulls are written.

    Threads: any.
    """

    __slots__ = ("_format",)

    def __init__(self, form: JsonFormat) -> None: ...
    def encode(self, rows: object) -> BinaryColumn:
        """One JSON text a row, in UTF-8; a row that is null as a whole stays null.

        Integers, decimals and finite floating-point numbers are JSON numbers, the others "NaN",
        "Infinity" and "-Infinity"; bytes are base64; dates and times are strings; keys of maps are
        the texts of what they are, those of dates and times numbers, as in Spark.

        Args:
            rows: what exports a struct by Arrow's PyCapsule interface: a record batch, a table.

        Raises:
            TypeError: a column's type has no form in JSON; it says which.
            ValueError: an array is damaged, or the time zone of a column is unknown.
            MemoryError: there is not enough memory for the texts.

        Blocks: for the work, without the GIL; some 0.1 us a row of six fields.
        """
