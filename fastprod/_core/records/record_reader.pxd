"""Reads record batches v2 (contract P-E) from memory that nobody vouches for."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.bytes.fp_status cimport FpStatus

cdef enum:
    READER_HEADER_BYTES = 61        # of a batch, length prefix included
    READER_LOG_OVERHEAD = 12        # base offset and batchLength

cdef enum ReaderFault:
    # Why bytes were refused. The first group makes a corrupt batch, the second invalid records.
    FAULT_NONE = 0
    FAULT_TOO_SMALL = 1             # batchLength `fault_value` below `fault_limit`
    FAULT_TOO_LARGE = 2             # batchLength or records above `fault_limit`
    FAULT_MAGIC = 3                 # magic `fault_value`
    FAULT_CRC = 4                   # computed `fault_value`, the header says `fault_limit`
    FAULT_CODEC = 5                 # codec number `fault_value`
    FAULT_COMPRESSION = 6           # the blob of `fault_value` bytes does not decompress
    FAULT_COUNT_NEGATIVE = 10       # recordsCount `fault_value`
    FAULT_COUNT_HIGH = 11           # no bytes left after `fault_value` of `fault_limit` records
    FAULT_COUNT_LOW = 12            # `fault_value` bytes left after all `fault_limit` records
    FAULT_LENGTH = 13               # record length `fault_value`, `fault_limit` bytes left
    FAULT_VARINT = 14               # a varint is cut short or too long
    FAULT_KEY = 15                  # key length `fault_value`, `fault_limit` bytes left
    FAULT_VALUE = 16
    FAULT_HEADER_COUNT = 17
    FAULT_HEADER_KEY = 18           # -1 included: a header's key is never null
    FAULT_HEADER_VALUE = 19
    FAULT_TAIL = 20                 # `fault_value` bytes left in a record of `fault_limit`

cdef struct BatchView:
    # One batch and the place in it.
    #
    # OWNER    who called reader_open.   FREED BY reader_close (the decompressed records).
    # THREADS  one at a time.
    # BORROWS  the bytes given to reader_open, until reader_close.
    int64_t base_offset
    int32_t batch_length            # bytes after the length field
    int32_t partition_leader_epoch
    uint32_t crc
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t record_count
    size_t size                     # bytes of the whole batch in the input
    const uint8_t* at               # the next record
    const uint8_t* end              # one past the last
    uint8_t* owned                  # decompressed records, or NULL
    int32_t index                   # records read so far
    int32_t fault                   # ReaderFault
    int64_t fault_value
    int64_t fault_limit

cdef struct RecordView:
    # BORROWS  everything from the BatchView, until reader_close.
    int64_t offset
    int64_t timestamp               # the batch's maximum where its type is log-append time
    int32_t key_size                # -1: null
    int32_t value_size              # -1: null
    int32_t header_count
    const uint8_t* key              # NULL when null
    const uint8_t* value            # NULL when null
    const uint8_t* headers          # walk with reader_header

cdef struct HeaderView:
    # BORROWS  as RecordView.
    const uint8_t* key
    const uint8_t* value            # NULL when null
    int32_t key_size
    int32_t value_size              # -1: null

# Only the 61 bytes of the header, without CRC and codec. FP_BLOCKED: `n` bytes are not a whole
# batch yet. FP_CORRUPT, FP_TOO_LARGE: see `fault`. Nothing to close.
cdef FpStatus reader_peek(BatchView* view, const uint8_t* p, size_t n, size_t limit) noexcept nogil

# The header, the CRC, and the records decompressed into at most `limit` bytes; a batch larger
# than `limit` is refused from its length alone. As reader_peek, and FP_UNSUPPORTED for a codec
# that was not found, FP_NOMEM. After anything but FP_OK there is nothing to close.
cdef FpStatus reader_open(BatchView* view, const uint8_t* p, size_t n, size_t limit) noexcept nogil

# The next record; FP_CLOSED after the last one. FP_CORRUPT: see `fault`; it stays that way.
cdef FpStatus reader_next(BatchView* view, RecordView* record) noexcept nogil

# The header at `p`, and one past it. Only for `headers` of a RecordView, `header_count` times.
cdef const uint8_t* reader_header(const uint8_t* p, HeaderView* header) noexcept nogil

cdef void reader_close(BatchView* view) noexcept nogil

# What `fault` says, with its numbers but without the batch's place; for FAULT_TOO_LARGE without
# the limit. With the GIL; `fault` must be set.
cdef str reader_fault_text(BatchView* view)
