"""What a log asks of a batch before it takes it, and what it writes into it (B-C2, B-D1)."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.records.record_reader cimport BatchView

cdef enum:
    WRONGS_KEPT = 100       # records named in one error

cdef enum RecordWrong:
    # Why one record is refused.
    WRONG_KEY = 1           # none, and the topic is compacted
    WRONG_EARLY = 2         # timestamp `value`
    WRONG_LATE = 3
    WRONG_OFFSET = 4        # offset delta `value`

cdef struct WrongRecord:
    int64_t value
    int32_t index
    int32_t wrong           # RecordWrong

cdef struct Walk:
    # What a walk over the records looks for, and what it found.
    #
    # OWNER the caller's stack.   FREED BY walk_end.   THREADS one.
    # BORROWS the batch, as `view` does.
    BatchView view
    bint key_required
    bint is_timestamp_checked
    int64_t earliest_ms
    int64_t latest_ms
    int64_t max_timestamp       # of the records; -1 without any
    int32_t max_timestamp_delta     # offset delta of the first record that has it
    int32_t wrong_count         # all of them; WRONGS_KEPT at most are in `wrongs`
    int32_t timestamp_wrong_count
    WrongRecord* wrongs         # owned, or NULL

# All records of the open `view`. FP_CORRUPT: see view.fault; FP_NOMEM.
cdef FpStatus walk_records(Walk* walk) noexcept nogil

cdef void walk_end(Walk* walk) noexcept nogil

# Patches the batch of `size` bytes at `p`: 12 bytes, and where the timestamps' type or maximum
# differ those and the CRC (B-C2.1, B-C2.2).
cdef void stamp_batch(
    uint8_t* p, size_t size, int64_t base_offset, int32_t leader_epoch, int64_t max_timestamp,
    bint log_append_time
) noexcept nogil
