"""Walks batches and records bounds-checked, and shows them to Python."""
from typing import NamedTuple

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from fastprod._core.bytes.crc32c cimport crc32c_update
from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED, FP_CLOSED, FP_CORRUPT, FP_OK, FP_TOO_LARGE, FP_UNSUPPORTED, FpStatus, check
)
from fastprod._core.bytes.varint cimport unzigzag, varint_get
from fastprod._core.bytes.wire cimport fp_get_u16, fp_get_u32, fp_get_u64
from fastprod._core.codec.compressor cimport CODEC_COUNT, CODEC_NONE, codec_decompress

from fastprod.errors import (
    CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError
)

cdef enum:
    _MAGIC = 2
    _MAGIC_AT = 16
    _CRC_AT = 17
    _ATTRIBUTES_AT = 21
    _RECORD_BYTES_MIN = 14      # what Kafka's input stream asks of any batch or old message
    _CODEC_MASK = 0x07
    _LOG_APPEND_TIME = 0x08
    _TRANSACTIONAL = 0x10
    _CONTROL = 0x20


cdef inline const uint8_t* _varint(
    const uint8_t* p, const uint8_t* end, int max_bytes, int64_t* out
) noexcept nogil:
    """`varint_get` for what nearly always takes one or two bytes."""
    if end - p >= 2:
        if p[0] < 0x80:
            out[0] = unzigzag(p[0])
            return p + 1
        if p[1] < 0x80:
            out[0] = unzigzag((p[0] & 0x7F) | (<uint64_t>p[1] << 7))
            return p + 2
    return varint_get(p, end, max_bytes, out)


cdef FpStatus _refuse(
    BatchView* view, ReaderFault fault, int64_t value, int64_t limit
) noexcept nogil:
    view.fault = fault
    view.fault_value = value
    view.fault_limit = limit
    return FP_TOO_LARGE if fault == FAULT_TOO_LARGE else FP_CORRUPT


cdef int64_t _plus(int64_t a, int64_t b) noexcept nogil:
    """Wraps, as Java's longs do: both come from the wire."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef FpStatus reader_peek(BatchView* view, const uint8_t* p, size_t n, size_t limit) noexcept nogil:
    memset(view, 0, sizeof(BatchView))
    if n < READER_LOG_OVERHEAD:
        return FP_BLOCKED
    view.base_offset = <int64_t>fp_get_u64(p)
    view.batch_length = <int32_t>fp_get_u32(p + 8)
    if view.batch_length < _RECORD_BYTES_MIN:
        return _refuse(view, FAULT_TOO_SMALL, view.batch_length, _RECORD_BYTES_MIN)
    if <size_t>view.batch_length > limit:
        return _refuse(view, FAULT_TOO_LARGE, view.batch_length, _clamp(limit))
    if n <= _MAGIC_AT:
        return FP_BLOCKED
    if p[_MAGIC_AT] != _MAGIC:
        return _refuse(view, FAULT_MAGIC, p[_MAGIC_AT], _MAGIC)
    if view.batch_length < READER_HEADER_BYTES - READER_LOG_OVERHEAD:
        return _refuse(
            view, FAULT_TOO_SMALL, view.batch_length, READER_HEADER_BYTES - READER_LOG_OVERHEAD
        )
    view.size = READER_LOG_OVERHEAD + <size_t>view.batch_length
    if n < view.size:
        return FP_BLOCKED
    view.partition_leader_epoch = <int32_t>fp_get_u32(p + 12)
    view.crc = fp_get_u32(p + _CRC_AT)
    view.attributes = <int16_t>fp_get_u16(p + _ATTRIBUTES_AT)
    view.last_offset_delta = <int32_t>fp_get_u32(p + 23)
    view.base_timestamp = <int64_t>fp_get_u64(p + 27)
    view.max_timestamp = <int64_t>fp_get_u64(p + 35)
    view.producer_id = <int64_t>fp_get_u64(p + 43)
    view.producer_epoch = <int16_t>fp_get_u16(p + 51)
    view.base_sequence = <int32_t>fp_get_u32(p + 53)
    view.record_count = <int32_t>fp_get_u32(p + 57)
    view.at = p + READER_HEADER_BYTES
    view.end = p + view.size
    return FP_OK


cdef int64_t _clamp(size_t limit) noexcept nogil:
    return <int64_t>min(limit, <size_t>INT64_MAX)


cdef FpStatus reader_open(BatchView* view, const uint8_t* p, size_t n, size_t limit) noexcept nogil:
    cdef FpStatus status = reader_peek(view, p, n, limit)
    cdef uint32_t computed
    if status != FP_OK:
        return status
    computed = crc32c_update(0, p + _ATTRIBUTES_AT, view.size - _ATTRIBUTES_AT)
    if computed != view.crc:
        return _refuse(view, FAULT_CRC, computed, view.crc)
    status = _decompress(view, limit)
    if status != FP_OK:
        return status
    if view.record_count < 0:
        status = _refuse(view, FAULT_COUNT_NEGATIVE, view.record_count, 0)
    elif view.record_count == 0 and view.at != view.end:
        status = _refuse(view, FAULT_COUNT_LOW, view.end - view.at, 0)
    if status != FP_OK:
        reader_close(view)
    return status


cdef FpStatus _decompress(BatchView* view, size_t limit) noexcept nogil:
    cdef int codec = view.attributes & _CODEC_MASK
    cdef size_t blob = view.end - view.at
    cdef size_t size = 0
    cdef FpStatus status
    if codec == CODEC_NONE:
        return FP_OK
    if codec >= CODEC_COUNT:
        return _refuse(view, FAULT_CODEC, codec, CODEC_COUNT - 1)
    status = codec_decompress(codec, view.at, blob, limit, &view.owned, &size)
    if status == FP_OK:
        view.at = view.owned
        view.end = view.owned + size
    elif status == FP_CORRUPT:
        return _refuse(view, FAULT_COMPRESSION, blob, 0)
    elif status == FP_TOO_LARGE:
        return _refuse(view, FAULT_TOO_LARGE, 0, _clamp(limit))
    return status


cdef void reader_close(BatchView* view) noexcept nogil:
    free(view.owned)
    view.owned = NULL
    view.at = NULL
    view.end = NULL
    view.index = view.record_count


cdef FpStatus reader_next(BatchView* view, RecordView* record) noexcept nogil:
    cdef int64_t length = 0
    cdef const uint8_t* p
    cdef FpStatus status
    if view.fault != FAULT_NONE:
        return FP_CORRUPT
    if view.index >= view.record_count:
        return FP_CLOSED
    if view.at == view.end:
        return _refuse(view, FAULT_COUNT_HIGH, view.index, view.record_count)
    p = _varint(view.at, view.end, 5, &length)
    if p == NULL:
        return _refuse(view, FAULT_VARINT, 0, 0)
    if length < 1 or length > view.end - p:
        return _refuse(view, FAULT_LENGTH, length, view.end - p)
    status = _read_record(view, p, p + length, record)
    if status != FP_OK:
        return status
    view.at = p + length
    view.index += 1
    if view.index == view.record_count and view.at != view.end:
        return _refuse(view, FAULT_COUNT_LOW, view.end - view.at, view.record_count)
    return FP_OK


cdef FpStatus _read_record(
    BatchView* view, const uint8_t* p, const uint8_t* end, RecordView* record
) noexcept nogil:
    cdef const uint8_t* start = p
    cdef int64_t timestamp_delta = 0
    cdef int64_t offset_delta = 0
    cdef FpStatus status
    p = _varint(p + 1, end, 10, &timestamp_delta)
    if p != NULL:
        p = _varint(p, end, 5, &offset_delta)
    if p == NULL:
        return _refuse(view, FAULT_VARINT, 0, 0)
    record.offset = _plus(view.base_offset, offset_delta)
    record.timestamp = _plus(view.base_timestamp, timestamp_delta)
    if view.attributes & _LOG_APPEND_TIME:
        record.timestamp = view.max_timestamp
    status = _read_bytes(view, FAULT_KEY, &p, end, &record.key, &record.key_size)
    if status == FP_OK:
        status = _read_bytes(view, FAULT_VALUE, &p, end, &record.value, &record.value_size)
    if status == FP_OK:
        status = _read_headers(view, &p, end, record)
    if status == FP_OK and p != end:
        return _refuse(view, FAULT_TAIL, end - p, end - start)
    return status


cdef FpStatus _read_bytes(
    BatchView* view, ReaderFault fault, const uint8_t** at, const uint8_t* end,
    const uint8_t** data, int32_t* size
) noexcept nogil:
    """A length and that many bytes; -1 is null, which `FAULT_HEADER_KEY` does not allow."""
    cdef int64_t length = 0
    cdef const uint8_t* p = _varint(at[0], end, 5, &length)
    cdef int64_t least = 0 if fault == FAULT_HEADER_KEY else -1
    if p == NULL:
        return _refuse(view, FAULT_VARINT, 0, 0)
    if length < least or length > end - p:
        return _refuse(view, fault, length, end - p)
    size[0] = <int32_t>length
    data[0] = p if length >= 0 else NULL
    at[0] = p + length if length > 0 else p
    return FP_OK


cdef FpStatus _read_headers(
    BatchView* view, const uint8_t** at, const uint8_t* end, RecordView* record
) noexcept nogil:
    cdef int64_t count = 0
    cdef const uint8_t* p = _varint(at[0], end, 5, &count)
    cdef HeaderView header
    cdef FpStatus status
    cdef int64_t _i
    if p == NULL:
        return _refuse(view, FAULT_VARINT, 0, 0)
    if count < 0 or count > end - p:
        return _refuse(view, FAULT_HEADER_COUNT, count, end - p)
    record.headers = p
    record.header_count = <int32_t>count
    for _i in range(count):
        status = _read_bytes(view, FAULT_HEADER_KEY, &p, end, &header.key, &header.key_size)
        if status == FP_OK:
            status = _read_bytes(
                view, FAULT_HEADER_VALUE, &p, end, &header.value, &header.value_size
            )
        if status != FP_OK:
            return status
    at[0] = p
    return FP_OK


cdef const uint8_t* reader_header(const uint8_t* p, HeaderView* header) noexcept nogil:
    # reader_next walked over it with bounds: the end is not known here and not needed.
    cdef int64_t size = 0
    p = varint_get(p, p + 5, 5, &size)
    header.key = p
    header.key_size = <int32_t>size
    p = varint_get(p + size, p + size + 5, 5, &size)
    header.value = p if size >= 0 else NULL
    header.value_size = <int32_t>size
    return p + size if size > 0 else p


class ReadRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class EndTransactionMarker(NamedTuple):
    version: int
    kind: int
    coordinator_epoch: int


cdef class RecordBatch:
    cdef BatchView view         # header fields only: never open
    cdef bytes data
    cdef size_t position
    cdef size_t limit_bytes

    def __init__(self, *args, **kwargs):
        raise TypeError("a RecordBatch comes from read_batches(data)")

    @property
    def base_offset(self):
        return self.view.base_offset

    @property
    def batch_length(self):
        return self.view.batch_length

    @property
    def partition_leader_epoch(self):
        return self.view.partition_leader_epoch

    @property
    def crc(self):
        return self.view.crc

    @property
    def attributes(self):
        return self.view.attributes

    @property
    def codec(self):
        return self.view.attributes & _CODEC_MASK

    @property
    def is_log_append_time(self):
        return bool(self.view.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self):
        return bool(self.view.attributes & _TRANSACTIONAL)

    @property
    def is_control(self):
        return bool(self.view.attributes & _CONTROL)

    @property
    def last_offset_delta(self):
        return self.view.last_offset_delta

    @property
    def next_offset(self):
        return self.view.base_offset + self.view.last_offset_delta + 1

    @property
    def base_timestamp(self):
        return self.view.base_timestamp

    @property
    def max_timestamp(self):
        return self.view.max_timestamp

    @property
    def producer_id(self):
        return self.view.producer_id

    @property
    def producer_epoch(self):
        return self.view.producer_epoch

    @property
    def base_sequence(self):
        return self.view.base_sequence

    @property
    def record_count(self):
        return self.view.record_count

    @property
    def position(self):
        return self.position

    @property
    def size_bytes(self):
        return self.view.size

    def raw(self):
        return self.data[self.position:self.position + self.view.size]

    def records(self):
        cdef const uint8_t* p = <const uint8_t*><const char*>self.data + self.position
        cdef BatchView view
        cdef RecordView record
        cdef FpStatus status
        cdef list records = []
        with nogil:
            status = reader_open(&view, p, self.view.size, self.limit_bytes)
        if status != FP_OK:
            raise _error(status, &view, self.position)
        try:
            while True:
                status = reader_next(&view, &record)
                if status == FP_CLOSED:
                    return records
                if status != FP_OK:
                    raise _error(status, &view, self.position)
                records.append(_record(&record))
        finally:
            reader_close(&view)

    def body(self):
        cdef const uint8_t* p = <const uint8_t*><const char*>self.data + self.position
        cdef BatchView view
        cdef FpStatus status
        with nogil:
            status = reader_open(&view, p, self.view.size, self.limit_bytes)
        if status != FP_OK:
            raise _error(status, &view, self.position)
        try:
            return (<const char*>view.at)[:view.end - view.at]
        finally:
            reader_close(&view)

    def end_marker(self):
        if not self.is_control or not self.view.record_count:
            return None
        records = self.records()
        if len(records) > 1:
            raise InvalidRecordError(
                f"the control batch at offset {self.base_offset} has {len(records)} records: it "
                f"must have one",
                offset=self.base_offset,
            )
        return _end_marker(records[0])

    def __repr__(self):
        return (
            f"<RecordBatch offset {self.base_offset}, {self.record_count} records, "
            f"{self.size_bytes} bytes, codec {self.codec}>"
        )


cdef object _record(RecordView* record):
    return ReadRecord(
        record.offset, record.timestamp, _optional(record.key, record.key_size),
        _optional(record.value, record.value_size), _headers(record),
    )


cdef bytes _optional(const uint8_t* p, int32_t size):
    return None if size < 0 else (<const char*>p)[:size]


cdef tuple _headers(RecordView* record):
    cdef const uint8_t* p = record.headers
    cdef HeaderView header
    cdef list pairs
    cdef int32_t _i
    if record.header_count == 0:
        return ()
    pairs = []
    for _i in range(record.header_count):
        p = reader_header(p, &header)
        # Kafka's reader replaces what is not UTF-8, too: a stranger's record must stay readable.
        name = (<const char*>header.key)[:header.key_size].decode("utf-8", "replace")
        pairs.append((name, _optional(header.value, header.value_size)))
    return tuple(pairs)


def _end_marker(record):
    """P-E.4. Newer versions may append bytes: what follows is ignored."""
    key = record.key or b""
    value = record.value or b""
    version = int.from_bytes(key[:2], "big", signed=True)
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if len(key) < 4 or version < 0:
        raise InvalidRecordError(
            f"the key of the control record at offset {record.offset} is {key!r}: it must be a "
            f"16-bit version from 0 and a 16-bit type",
            offset=record.offset,
        )
    if kind not in (0, 1):
        return None
    if len(value) < 6:
        raise InvalidRecordError(
            f"the end marker at offset {record.offset} has {len(value)} bytes; a version and the "
            f"coordinator's epoch take 6",
            offset=record.offset, size_bytes=len(value),
        )
    return EndTransactionMarker(version, kind, int.from_bytes(value[2:6], "big", signed=True))


def read_batches(data, *, limit_bytes=100 * 1024 * 1024, verify=False):
    second_opinion = _second_opinion() if verify else None
    cdef bytes raw = data if type(data) is bytes else bytes(data)
    cdef const uint8_t* p = <const uint8_t*><const char*>raw
    cdef size_t n = len(raw)
    cdef size_t limit = limit_bytes
    cdef size_t at = 0
    cdef FpStatus status
    cdef RecordBatch batch
    cdef list batches = []
    while True:
        batch = RecordBatch.__new__(RecordBatch)
        status = reader_peek(&batch.view, p + at, n - at, limit)
        if status == FP_BLOCKED:
            return batches
        if status == FP_OK:
            status = _check_crc(&batch.view, p + at)
            if second_opinion is not None:
                _compare(second_opinion, &batch.view, raw, at)
        if status != FP_OK:
            raise _error(status, &batch.view, at)
        batch.data = raw
        batch.position = at
        batch.limit_bytes = limit
        batches.append(batch)
        at += batch.view.size


cdef FpStatus _check_crc(BatchView* view, const uint8_t* p) noexcept nogil:
    cdef uint32_t computed = crc32c_update(0, p + _ATTRIBUTES_AT, view.size - _ATTRIBUTES_AT)
    if computed != view.crc:
        return _refuse(view, FAULT_CRC, computed, view.crc)
    return FP_OK


def _second_opinion():
    """The CRC-32C of the package crc32c, which has no code in common with ours."""
    from crc32c import crc32c
    return crc32c


cdef int _compare(object second_opinion, BatchView* view, bytes raw, size_t at) except -1:
    """Refuse a batch on which it does not agree with us, be its CRC right to us or wrong."""
    checked = memoryview(raw)[at + _ATTRIBUTES_AT:at + view.size]
    cdef uint32_t ours = view.crc if view.fault == FAULT_NONE else <uint32_t>view.fault_value
    theirs = second_opinion(checked)
    if theirs != ours:
        raise CorruptRecordError(
            f"the batch with base offset {view.base_offset} at byte {at}: the CRC-32C of its "
            f"bytes is {ours:08x} to fastprod and {theirs:08x} to the package crc32c, its header "
            f"says {view.crc:08x}: `fastprod doctor` compares the two",
            base_offset=view.base_offset, position=at, value=ours, limit=theirs,
        )
    return 0


# What each fault says; the numbers are value = fault_value, limit = fault_limit.
_TEXT = {
    FAULT_TOO_SMALL: "batchLength is {value}, the least is {limit}",
    FAULT_MAGIC: "magic is {value}; only magic {limit} (record batch v2) is read here",
    FAULT_CRC: "the CRC-32C of its bytes is {value:08x}, its header says {limit:08x}",
    FAULT_CODEC: "codec {value} is not known, the highest is {limit}",
    FAULT_COMPRESSION: "its {value} compressed bytes do not decompress",
    FAULT_COUNT_NEGATIVE: "recordsCount is {value}",
    FAULT_COUNT_HIGH: "recordsCount is {limit}, its bytes end after {value} records",
    FAULT_COUNT_LOW: "recordsCount is {limit}, {value} bytes follow after the last record",
    FAULT_LENGTH: "record {index} claims {value} bytes, {limit} are left",
    FAULT_VARINT: "record {index} has a varint that is cut short or too long",
    FAULT_KEY: "record {index} has a key of {value} bytes, {limit} are left",
    FAULT_VALUE: "record {index} has a value of {value} bytes, {limit} are left",
    FAULT_HEADER_COUNT: "record {index} has {value} headers in {limit} bytes",
    FAULT_HEADER_KEY: "record {index} has a header key of {value} bytes, {limit} are left",
    FAULT_HEADER_VALUE: "record {index} has a header value of {value} bytes, {limit} are left",
    FAULT_TAIL: "record {index} has {value} of its {limit} bytes left after its headers",
}


cdef object _error(FpStatus status, BatchView* view, size_t position):
    where = f"the batch with base offset {view.base_offset} at byte {position}: "
    fields = {
        "base_offset": view.base_offset,
        "position": position,
        "record_index": view.index,
        "value": view.fault_value,
        "limit": view.fault_limit,
    }
    if status == FP_UNSUPPORTED:
        codec = view.attributes & _CODEC_MASK
        return UnsupportedCompressionTypeError(
            f"{where}no library for codec {codec} was found here: `fastprod doctor` tells where "
            f"it was looked for", codec=codec, **fields,
        )
    if view.fault == FAULT_NONE:
        check(status)
    if view.fault == FAULT_TOO_LARGE:
        return CorruptRecordError(
            f"{where}{reader_fault_text(view)}, above limit_bytes = {view.fault_limit}: raise "
            f"limit_bytes if the sender is trusted", **fields,
        )
    kind = CorruptRecordError if view.fault < FAULT_COUNT_NEGATIVE else InvalidRecordError
    return kind(where + reader_fault_text(view), **fields)


cdef str reader_fault_text(BatchView* view):
    if view.fault == FAULT_TOO_LARGE:
        return f"batchLength is {view.fault_value}" if view.fault_value else "its records grow"
    return _TEXT[view.fault].format(
        value=view.fault_value, limit=view.fault_limit, index=view.index
    )
