"""From what a caller of `append_columns` gave to ColumnRows."""
from libc.stdint cimport int64_t

from fastprod._core.producer.row_reader cimport ColumnRows

# Raises TypeError or ValueError that name the column, its type and what is accepted. Reads streams
# to their end.
cdef ColumnRows read_columns(
    object columns, object topic, object values, object keys, object headers,
    object header_columns, object partitions, object timestamps_ms, int64_t now_ms)
