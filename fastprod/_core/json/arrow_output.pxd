"""BinaryColumn: bytes of many rows, as any Arrow library takes them without a copy."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprod._core.json.text_buffer cimport TextBuffer

cdef struct BinaryBlock:
    # A column's memory.
    # OWNER its `reference_count` holders: columns and exported arrays.  FREED BY the last of them.
    # THREADS any: nothing but the count changes once rows are in.
    int32_t reference_count
    int64_t length
    int64_t null_count
    uint8_t* validity       # a bit a row, 0: null
    int64_t* offsets        # length + 1
    TextBuffer text

cdef class BinaryColumn:
    # Whoever makes one fills `block` before anybody else sees it.
    cdef BinaryBlock* block

cdef BinaryColumn new_binary_column(int64_t length)
