"""Checks produced batches, sets their offsets and times, and names what a producer did wrong."""
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
)
from libc.stdint cimport (
    INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cimport cython

from fastprod._core.bytes.crc32c cimport crc32c_update
from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED, FP_CLOSED, FP_CORRUPT, FP_NOMEM, FP_OK, FP_UNSUPPORTED, FpStatus, check
)
from fastprod._core.bytes.kafka_errors cimport (
    CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from fastprod._core.bytes.wire cimport (
    fp_get_u16, fp_get_u64, fp_put_u16, fp_put_u32, fp_put_u64
)
from fastprod._core.codec.compressor cimport CODEC_COUNT
from fastprod._core.records.record_reader cimport (
    FAULT_CODEC, FAULT_COUNT_NEGATIVE, FAULT_CRC, FAULT_MAGIC, FAULT_NONE, FAULT_TOO_LARGE,
    RecordView, reader_close, reader_fault_text, reader_next, reader_open,
    reader_peek,
)

VALIDATE_NONE = 0
VALIDATE_CRC = 1
VALIDATE_FULL = 2

cdef enum:
    _NONE = 0
    _CRC = 1
    _FULL = 2
    _GIL_FREE_BYTES = 4096      # from here on the walk takes longer than the GIL's way back
    _EPOCH_AT = 12
    _CRC_AT = 17
    _ATTRIBUTES_AT = 21
    _MAX_TIMESTAMP_AT = 35
    _CODEC_MASK = 0x07
    _LOG_APPEND_TIME = 0x08
    _TRANSACTIONAL = 0x10
    _CONTROL = 0x20

ctypedef struct _Request:
    # One validation.  OWNER the caller's stack.
    int mode
    int64_t max_message_bytes
    size_t codec_limit


class InvalidBatch(Exception):
    """See the .pyi."""

    def __init__(self, error_code, message, record_errors=()):
        super().__init__(error_code, message, tuple(record_errors))
        self.error_code = error_code
        self.message = message
        self.record_errors = tuple(record_errors)

    def __str__(self):
        return self.message


@cython.final
@cython.freelist(64)
@cython.no_gc
cdef class BatchInfo:
    """See the .pyi."""
    cdef readonly int64_t base_offset
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly Py_ssize_t size_bytes
    cdef readonly int32_t partition_leader_epoch
    cdef readonly int32_t record_count
    cdef readonly int32_t last_offset_delta
    cdef readonly int32_t max_timestamp_delta
    cdef readonly int32_t base_sequence
    cdef readonly int16_t producer_epoch
    cdef readonly int16_t attributes

    def __init__(self, *args, **kwargs):
        raise TypeError("a BatchInfo comes from validate(batch, ...)")

    @property
    def last_offset(self):
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self):
        cdef int64_t last = <int64_t>self.base_sequence + self.last_offset_delta
        if self.base_sequence < 0:
            return -1
        return last if last <= INT32_MAX else last - INT32_MAX - 1

    @property
    def codec(self):
        return self.attributes & _CODEC_MASK

    @property
    def is_transactional(self):
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self):
        return bool(self.attributes & _CONTROL)

    @property
    def is_log_append_time(self):
        return bool(self.attributes & _LOG_APPEND_TIME)

    def __repr__(self):
        return (
            f"<BatchInfo offset {self.base_offset}, {self.record_count} records, "
            f"{self.size_bytes} bytes, codec {self.codec}>"
        )


cdef BatchInfo _info(Walk* walk):
    cdef BatchInfo info = BatchInfo.__new__(BatchInfo)
    info.base_offset = walk.view.base_offset
    info.partition_leader_epoch = walk.view.partition_leader_epoch
    info.base_timestamp = walk.view.base_timestamp
    info.max_timestamp = walk.max_timestamp
    info.max_timestamp_delta = walk.max_timestamp_delta
    info.producer_id = walk.view.producer_id
    info.producer_epoch = walk.view.producer_epoch
    info.base_sequence = walk.view.base_sequence
    info.record_count = walk.view.record_count
    info.last_offset_delta = walk.view.last_offset_delta
    info.attributes = walk.view.attributes
    info.size_bytes = <Py_ssize_t>walk.view.size
    return info


cdef FpStatus _keep(Walk* walk, int32_t index, RecordWrong wrong, int64_t value) noexcept nogil:
    if walk.wrongs == NULL:
        walk.wrongs = <WrongRecord*>malloc(WRONGS_KEPT * sizeof(WrongRecord))
        if walk.wrongs == NULL:
            return FP_NOMEM
    if walk.wrong_count < WRONGS_KEPT:
        walk.wrongs[walk.wrong_count].index = index
        walk.wrongs[walk.wrong_count].wrong = wrong
        walk.wrongs[walk.wrong_count].value = value
    walk.wrong_count += 1
    if wrong == WRONG_EARLY or wrong == WRONG_LATE:
        walk.timestamp_wrong_count += 1
    return FP_OK


cdef FpStatus walk_records(Walk* walk) noexcept nogil:
    cdef RecordView record
    cdef FpStatus status
    cdef int32_t index = 0
    cdef int64_t delta
    walk.max_timestamp = -1
    walk.max_timestamp_delta = -1
    while True:
        status = reader_next(&walk.view, &record)
        if status != FP_OK:
            break
        delta = <int64_t>(<uint64_t>record.offset - <uint64_t>walk.view.base_offset)
        if delta != index:
            status = _keep(walk, index, WRONG_OFFSET, delta)
        elif walk.key_required and record.key_size < 0:
            status = _keep(walk, index, WRONG_KEY, 0)
        elif walk.is_timestamp_checked and record.timestamp != -1:
            if record.timestamp < walk.earliest_ms:
                status = _keep(walk, index, WRONG_EARLY, record.timestamp)
            elif record.timestamp > walk.latest_ms:
                status = _keep(walk, index, WRONG_LATE, record.timestamp)
        if status != FP_OK:
            break
        if record.timestamp > walk.max_timestamp:
            walk.max_timestamp = record.timestamp
            walk.max_timestamp_delta = index
        index += 1
    return FP_OK if status == FP_CLOSED else status


cdef void walk_end(Walk* walk) noexcept nogil:
    reader_close(&walk.view)
    free(walk.wrongs)
    walk.wrongs = NULL


cdef void stamp_batch(
    uint8_t* p, size_t size, int64_t base_offset, int32_t leader_epoch, int64_t max_timestamp,
    bint log_append_time
) noexcept nogil:
    cdef uint16_t attributes = fp_get_u16(p + _ATTRIBUTES_AT)
    cdef bint was_append_time = (attributes & _LOG_APPEND_TIME) != 0
    fp_put_u64(p, <uint64_t>base_offset)
    fp_put_u32(p + _EPOCH_AT, <uint32_t>leader_epoch)
    if (
        was_append_time == log_append_time
        and <int64_t>fp_get_u64(p + _MAX_TIMESTAMP_AT) == max_timestamp
    ):
        return
    attributes = attributes & ~<uint16_t>_LOG_APPEND_TIME
    if log_append_time:
        attributes = attributes | _LOG_APPEND_TIME
    fp_put_u16(p + _ATTRIBUTES_AT, attributes)
    fp_put_u64(p + _MAX_TIMESTAMP_AT, <uint64_t>max_timestamp)
    fp_put_u32(p + _CRC_AT, crc32c_update(0, p + _ATTRIBUTES_AT, size - _ATTRIBUTES_AT))


cdef FpStatus _look(
    Walk* walk, _Request* request, const uint8_t* p, size_t n
) noexcept nogil:
    """Everything but the fields of the header, which `_refuse_header` reads afterwards."""
    cdef size_t limit = request.codec_limit if request.codec_limit > n else n
    cdef FpStatus status
    cdef uint32_t computed
    if request.mode == _FULL:
        status = reader_open(&walk.view, p, n, limit)
        if status != FP_OK:
            return status
        return walk_records(walk)
    walk.max_timestamp = walk.view.max_timestamp
    if request.mode == _CRC:
        computed = crc32c_update(0, p + _ATTRIBUTES_AT, walk.view.size - _ATTRIBUTES_AT)
        if computed != walk.view.crc:
            walk.view.fault = FAULT_CRC
            walk.view.fault_value = computed
            walk.view.fault_limit = walk.view.crc
    return FP_OK


def validate(
    batch, int mode, int64_t max_message_bytes, size_t codec_limit, *, bint key_required=False,
    bint log_append_time=False, int64_t now_ms=0, int64_t before_max_ms=INT64_MAX,
    int64_t after_max_ms=INT64_MAX,
):
    cdef Py_buffer buffer
    cdef Walk walk
    cdef _Request request
    memset(&walk, 0, sizeof(Walk))
    walk.max_timestamp_delta = -1
    walk.key_required = key_required
    walk.is_timestamp_checked = not log_append_time
    walk.earliest_ms = now_ms - before_max_ms
    walk.latest_ms = INT64_MAX if after_max_ms > INT64_MAX - now_ms else now_ms + after_max_ms
    if not _NONE <= mode <= _FULL or now_ms < 0 or before_max_ms < 0 or after_max_ms < 0:
        raise ValueError(
            f"validate(mode={mode}, now_ms={now_ms}, before_max_ms={before_max_ms}, "
            f"after_max_ms={after_max_ms}): mode is 0, 1 or 2, and times are from 0"
        )
    request.mode = mode
    request.max_message_bytes = max_message_bytes
    request.codec_limit = codec_limit
    PyObject_GetBuffer(batch, &buffer, PyBUF_SIMPLE)
    try:
        _validate(&walk, &request, <const uint8_t*>buffer.buf, <size_t>buffer.len)
        return _info(&walk)
    finally:
        walk_end(&walk)
        PyBuffer_Release(&buffer)


cdef int _validate(Walk* walk, _Request* request, const uint8_t* p, size_t n) except -1:
    cdef FpStatus status = reader_peek(&walk.view, p, n, n)
    _refuse_shape(walk, status, n)
    if walk.view.base_offset != 0:
        raise InvalidBatch(INVALID_RECORD, (
            f"the base offset of a batch from a client is 0, this one says {walk.view.base_offset}"
        ))
    if request.max_message_bytes >= 0 and <int64_t>n > request.max_message_bytes:
        raise InvalidBatch(MESSAGE_TOO_LARGE, (
            f"the batch takes {n} bytes, more than max.message.bytes = "
            f"{request.max_message_bytes}: send smaller batches, or raise it"
        ))
    if n < _GIL_FREE_BYTES:
        status = _look(walk, request, p, n)
    else:
        with nogil:
            status = _look(walk, request, p, n)
    _refuse_bytes(walk, status, request)
    _refuse_header(walk)
    if walk.view.fault != FAULT_NONE:
        raise InvalidBatch(
            INVALID_RECORD, f"the batch is damaged: {reader_fault_text(&walk.view)}"
        )
    if walk.wrong_count > 0:
        raise _wrong_records(walk)
    return 0


cdef int _refuse_shape(Walk* walk, FpStatus status, size_t n) except -1:
    """One whole batch v2 and nothing else (ProduceRequest.validateRecords)."""
    if status == FP_BLOCKED:
        raise InvalidBatch(INVALID_RECORD, (
            f"{n} bytes are not one record batch: a request of version 3 or later holds exactly "
            f"one for each partition"
        ))
    if walk.view.fault == FAULT_TOO_LARGE:
        raise InvalidBatch(INVALID_RECORD, (
            f"{n} bytes are not one record batch: its batchLength is {walk.view.fault_value}"
        ))
    if walk.view.fault == FAULT_MAGIC and walk.view.fault_value < 2:
        raise InvalidBatch(INVALID_RECORD, (
            f"magic is {walk.view.fault_value}: a request of version 3 or later holds batches of "
            f"magic 2"
        ))
    if walk.view.fault != FAULT_NONE:
        raise InvalidBatch(
            CORRUPT_MESSAGE, f"the batch is damaged: {reader_fault_text(&walk.view)}"
        )
    if walk.view.size != n:
        raise InvalidBatch(INVALID_RECORD, (
            f"{n - walk.view.size} bytes follow after a batch of {walk.view.size}: a request of "
            f"version 3 or later holds exactly one for each partition"
        ))
    return 0


cdef int _refuse_bytes(Walk* walk, FpStatus status, _Request* request) except -1:
    """CRC and compression: what says that the bytes are not what was sent."""
    cdef int codec = walk.view.attributes & _CODEC_MASK
    cdef int fault = walk.view.fault
    if status == FP_NOMEM:
        check(status)
    if status == FP_UNSUPPORTED:
        raise InvalidBatch(
            UNSUPPORTED_COMPRESSION_TYPE, f"no library for codec {codec} was found here"
        )
    if fault == FAULT_CODEC or fault == FAULT_NONE and codec >= CODEC_COUNT:
        raise InvalidBatch(UNSUPPORTED_COMPRESSION_TYPE, (
            f"codec {codec} is not known, the highest is {CODEC_COUNT - 1}"
        ))
    if fault == FAULT_TOO_LARGE:
        raise InvalidBatch(MESSAGE_TOO_LARGE, (
            f"the records of the batch of {walk.view.size} bytes decompress to more than the "
            f"limit of {request.codec_limit} bytes"
        ))
    if fault != FAULT_NONE and fault < FAULT_COUNT_NEGATIVE:
        raise InvalidBatch(
            CORRUPT_MESSAGE, f"the batch is damaged: {reader_fault_text(&walk.view)}"
        )
    return 0


cdef int _refuse_header(Walk* walk) except -1:
    """What a client may not say, or not so (LogValidator.validateBatch)."""
    cdef BatchView* view = &walk.view
    if view.record_count <= 0:
        raise InvalidBatch(INVALID_RECORD, (
            f"recordsCount is {view.record_count}: a batch holds at least one record"
        ))
    if view.record_count != <int64_t>view.last_offset_delta + 1:
        raise InvalidBatch(INVALID_RECORD, (
            f"recordsCount is {view.record_count}, but lastOffsetDelta is "
            f"{view.last_offset_delta}: a client's offsets are 0, 1, 2, ..."
        ))
    if view.attributes & _CONTROL:
        raise InvalidBatch(INVALID_RECORD, "a client may not write control records")
    if view.producer_id >= 0 and (view.producer_epoch < 0 or view.base_sequence < 0):
        raise InvalidBatch(INVALID_RECORD, (
            f"producer id {view.producer_id} comes with epoch {view.producer_epoch} and base "
            f"sequence {view.base_sequence}: both are from 0"
        ))
    if view.attributes & _LOG_APPEND_TIME:
        raise InvalidBatch(INVALID_TIMESTAMP, (
            "the batch says LogAppendTime: only a broker may set this timestamp type"
        ), [(0, "timestamp type LogAppendTime")])
    return 0


cdef object _wrong_records(Walk* walk):
    cdef int32_t kept = min(walk.wrong_count, <int32_t>WRONGS_KEPT)
    cdef int32_t i
    cdef list errors = []
    for i in range(kept):
        errors.append((walk.wrongs[i].index, _wrong_text(walk, &walk.wrongs[i])))
    code = INVALID_TIMESTAMP if walk.timestamp_wrong_count > 0 else INVALID_RECORD
    return InvalidBatch(code, (
        f"{walk.wrong_count} of {walk.view.record_count} records are refused, the first is record "
        f"{errors[0][0]}: {errors[0][1]}"
    ), errors)


cdef str _wrong_text(Walk* walk, WrongRecord* record):
    if record.wrong == WRONG_KEY:
        return "no key, and the topic is compacted"
    if record.wrong == WRONG_OFFSET:
        return f"offset delta {record.value}, expected {record.index}"
    if record.wrong == WRONG_EARLY:
        return (
            f"timestamp {record.value} is before {walk.earliest_ms}, see "
            f"message.timestamp.before.max.ms"
        )
    return (
        f"timestamp {record.value} is after {walk.latest_ms}, see message.timestamp.after.max.ms"
    )


def stamp(
    batch, int64_t base_offset, int32_t leader_epoch, int64_t max_timestamp,
    bint log_append_time=False,
):
    cdef Py_buffer buffer
    cdef uint8_t* p
    PyObject_GetBuffer(batch, &buffer, PyBUF_WRITABLE)
    p = <uint8_t*>buffer.buf
    try:
        _check_size(p, buffer.len)
        if buffer.len < _GIL_FREE_BYTES:
            stamp_batch(
                p, buffer.len, base_offset, leader_epoch, max_timestamp, log_append_time
            )
        else:
            with nogil:
                stamp_batch(
                    p, buffer.len, base_offset, leader_epoch, max_timestamp, log_append_time
                )
    finally:
        PyBuffer_Release(&buffer)


cdef int _check_size(const uint8_t* p, Py_ssize_t n) except -1:
    cdef BatchView view
    if reader_peek(&view, p, n, n) != FP_OK or <Py_ssize_t>view.size != n:
        raise ValueError(f"{n} bytes are not one record batch: validate it first")
    return 0


def inspect(log, Py_ssize_t at, bint check_crc=True):
    cdef Py_buffer buffer
    cdef Walk walk
    cdef const uint8_t* p
    cdef FpStatus status = FP_BLOCKED
    memset(&walk, 0, sizeof(Walk))
    PyObject_GetBuffer(log, &buffer, PyBUF_SIMPLE)
    if 0 <= at <= buffer.len:
        p = <const uint8_t*>buffer.buf + at
        status = reader_peek(&walk.view, p, buffer.len - at, buffer.len - at)
        if status == FP_OK and check_crc and walk.view.size < _GIL_FREE_BYTES:
            status = _check_crc(&walk.view, p)
        elif status == FP_OK and check_crc:
            with nogil:
                status = _check_crc(&walk.view, p)
    PyBuffer_Release(&buffer)
    if status != FP_OK or walk.view.last_offset_delta < 0 or walk.view.base_offset < 0:
        return None
    walk.max_timestamp = walk.view.max_timestamp
    walk.max_timestamp_delta = -1
    return _info(&walk)


cdef FpStatus _check_crc(BatchView* view, const uint8_t* p) noexcept nogil:
    if crc32c_update(0, p + _ATTRIBUTES_AT, view.size - _ATTRIBUTES_AT) != view.crc:
        return FP_CORRUPT
    return FP_OK
