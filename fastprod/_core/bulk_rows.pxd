"""Rows of a bulk: in which batch each one is, and where the batches came to lie."""
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastprod._core.delivery cimport Result

cdef enum:
    UNKNOWN_SIZE = -2           # a row that was refused before anybody looked at it

cdef extern from *:
    const uint32_t REFUSED "UINT32_MAX"     # Row.segment: it never got a batch

cdef struct Row:
    # One record of the bulk.
    uint32_t segment            # or REFUSED
    uint32_t index              # in the segment's batch; of a refused row: its refusal
    int32_t key_size            # -1: null
    int32_t value_size

cdef struct Segment:
    # A batch that holds records of this bulk.
    Result* result              # one reference
    uint32_t lane               # its topic

# (records, bytes, OffsetRanges) of the rows that were delivered. Requires: all are done.
cdef tuple collect_ranges(
    Row* rows, int64_t row_count, Segment* segments, uint32_t segment_count, list topics)
