"""Encodes Produce requests and takes apart their answers (layouts: P-J.4)."""
from libc.stdint cimport (
    int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy, memset

from fastprod._core.bytes.fp_status cimport FP_CLOSED, FP_NOMEM, FP_OK, FP_PROTOCOL, FpStatus
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.varint cimport uvarint_get, uvarint_put
from fastprod._core.bytes.wire cimport fp_get_u16, fp_get_u32, fp_get_u64, fp_put_u16, fp_put_u32
from fastprod._core.engine.accumulator cimport Partition, Topic
from fastprod._core.engine.in_flight cimport (
    Request, RequestPlace, request_reserve_iov, request_reserve_scratch,
)
from fastprod._core.records.record_batch cimport (
    BATCH_HEADER_BYTES, ProducerBatch, batch_write_header,
)

cdef enum:
    API_PRODUCE = 0
    LEADER_TAGS_VERSION = 10    # KIP-951; before it the tags mean nothing
    NODE_ENDPOINTS_TAG = 0
    CURRENT_LEADER_TAG = 0


cdef inline Topic* _topic(ProducerBatch* batch) noexcept nogil:
    return (<Partition*>batch.partition).topic


cdef inline int _order_names(
    const void* a, int32_t a_size, const void* b, int32_t b_size
) noexcept nogil:
    return memcmp(a, b, a_size) if a_size == b_size else a_size - b_size


cdef inline int _order_indexes(int32_t a, int32_t b) noexcept nogil:
    return (a > b) - (a < b)


cdef int _by_name(const void* a, const void* b) noexcept nogil:
    cdef Partition* p = <Partition*>(<ProducerBatch**>a)[0].partition
    cdef Partition* q = <Partition*>(<ProducerBatch**>b)[0].partition
    if p.topic == q.topic:
        return _order_indexes(p.index, q.index)
    return _order_names(p.topic.name, p.topic.name_size, q.topic.name, q.topic.name_size)


cdef int _by_id(const void* a, const void* b) noexcept nogil:
    cdef Partition* p = <Partition*>(<ProducerBatch**>a)[0].partition
    cdef Partition* q = <Partition*>(<ProducerBatch**>b)[0].partition
    if p.topic == q.topic:
        return _order_indexes(p.index, q.index)
    return memcmp(p.topic.id, q.topic.id, 16)


cdef void _sort(Request* request) noexcept nogil:
    """Batches of a topic together, all in the order of `_find`; note their places."""
    cdef int32_t i
    if request.batch_count == 1:
        pass
    elif request.version >= PRODUCE_TOPIC_ID_VERSION:
        qsort(request.batches, request.batch_count, sizeof(ProducerBatch*), _by_id)
    else:
        qsort(request.batches, request.batch_count, sizeof(ProducerBatch*), _by_name)
    for i in range(request.batch_count):
        request.places[i].topic = _topic(request.batches[i])
        request.places[i].index = (<Partition*>request.batches[i].partition).index
        request.places[i].answer_at = 0
        memcpy(request.places[i].topic_id, request.places[i].topic.id, 16)


cdef inline int _order_answer(
    const Request* request, int32_t at, const ProducePartition* answer
) noexcept nogil:
    """Whether the place `at` is before (< 0), at or behind (> 0) the partition."""
    cdef const RequestPlace* place = &request.places[at]
    cdef int order
    if request.version >= PRODUCE_TOPIC_ID_VERSION:
        order = memcmp(place.topic_id, answer.topic, 16)
    else:
        order = _order_names(
            place.topic.name, place.topic.name_size, answer.topic, answer.topic_size)
    return order if order != 0 else _order_indexes(place.index, answer.index)


cdef inline int32_t _guess(
    const Request* request, int32_t low, int32_t high, int32_t index
) noexcept nogil:
    """Where the index is if those of a topic are evenly apart; close to it if they nearly are."""
    cdef const RequestPlace* first = &request.places[low]
    cdef const RequestPlace* last = &request.places[high - 1]
    if first.topic == last.topic and first.index < index < last.index:
        return low + <int32_t>(
            <int64_t>(index - first.index) * (high - 1 - low) // (last.index - first.index))
    return low + (high - low) // 2


cdef int32_t _find(
    const Request* request, const ProducePartition* answer, int32_t first, int64_t* compared
) noexcept nogil:
    """The place of the batch that the answer is for; -1: nobody asked.

    `first` is looked at first: the next place for answers in the request's order. Then guesses
    and halves in turn, as guesses alone could take a look for each place.
    """
    cdef int32_t low = 0, high = request.batch_count, at = first
    cdef bint guesses = True
    cdef int order
    while low < high:
        if not low <= at < high:
            at = low + (high - low) // 2
        compared[0] += 1
        order = _order_answer(request, at, answer)
        if order == 0:
            return at
        if order < 0:
            low = at + 1
        else:
            high = at
        if guesses and low < high:
            at = _guess(request, low, high, answer.index)
        else:
            at = low + (high - low) // 2
        guesses = not guesses
    return -1


cdef size_t _scratch_bound(Request* request, const ProduceHeader* header) noexcept nogil:
    """Most bytes the request takes outside the slabs."""
    cdef size_t bound = 64 + header.client_id_size + header.transactional_id_size
    cdef int32_t i
    for i in range(request.batch_count):
        bound += BATCH_HEADER_BYTES + 64 + _topic(request.batches[i]).name_size
    return bound


cdef int32_t _iov_bound(Request* request) noexcept nogil:
    cdef int32_t bound = 2
    cdef int32_t i
    cdef Slab* slab
    for i in range(request.batch_count):
        bound += 1
        slab = request.batches[i].first
        while slab != NULL:
            bound += 1
            slab = slab.next
    return bound


cdef uint8_t* _put_count(uint8_t* p, int32_t count, bint flexible) noexcept nogil:
    if flexible:
        return uvarint_put(p, <uint64_t>count + 1)
    fp_put_u32(p, <uint32_t>count)
    return p + 4


cdef uint8_t* _put_transactional_id(
    uint8_t* p, const ProduceHeader* header, bint flexible
) noexcept nogil:
    cdef bint is_null = header.transactional_id == NULL
    if flexible:
        p = uvarint_put(p, 0 if is_null else <uint64_t>header.transactional_id_size + 1)
    else:
        fp_put_u16(p, 0xFFFF if is_null else <uint16_t>header.transactional_id_size)
        p += 2
    if not is_null:
        memcpy(p, header.transactional_id, header.transactional_id_size)
        p += header.transactional_id_size
    return p


cdef uint8_t* _put_head(
    uint8_t* p, Request* request, const ProduceHeader* header, bint flexible
) noexcept nogil:
    """The request header and the fields before the topics; produce_encode puts the size last."""
    fp_put_u16(p + 4, API_PRODUCE)
    fp_put_u16(p + 6, <uint16_t>request.version)
    fp_put_u32(p + 8, <uint32_t>request.correlation_id)
    fp_put_u16(p + 12, <uint16_t>header.client_id_size)
    p += 14
    memcpy(p, header.client_id, header.client_id_size)
    p += header.client_id_size
    if flexible:
        p[0] = 0                # request header: no tagged fields
        p += 1
    p = _put_transactional_id(p, header, flexible)
    fp_put_u16(p, <uint16_t>header.acks)
    fp_put_u32(p + 2, <uint32_t>header.timeout_ms)
    return p + 6


cdef uint8_t* _put_topic(
    uint8_t* p, Request* request, int32_t at, int32_t partitions, bint flexible
) noexcept nogil:
    cdef Topic* topic = _topic(request.batches[at])
    if request.version >= PRODUCE_TOPIC_ID_VERSION:
        memcpy(p, request.places[at].topic_id, 16)
        p += 16
    elif flexible:
        p = uvarint_put(p, <uint64_t>topic.name_size + 1)
        memcpy(p, topic.name, topic.name_size)
        p += topic.name_size
    else:
        fp_put_u16(p, <uint16_t>topic.name_size)
        memcpy(p + 2, topic.name, topic.name_size)
        p += 2 + topic.name_size
    return _put_count(p, partitions, flexible)


cdef int32_t _run_of_topic(Request* request, int32_t at) noexcept nogil:
    """Batches from `at` on that are of one topic."""
    cdef int32_t end = at + 1
    while (end < request.batch_count
           and _topic(request.batches[end]) == _topic(request.batches[at])):
        end += 1
    return end - at


cdef void _add_iov(Request* request, void* base, size_t size) noexcept nogil:
    if size > 0:
        request.iov[request.iov_count].iov_base = base
        request.iov[request.iov_count].iov_len = size
        request.iov_count += 1
        request.wire_bytes += <int64_t>size


cdef uint8_t* _put_partition(
    Request* request, const ProduceHeader* header, ProducerBatch* batch, uint8_t** cut, uint8_t* p,
    bint flexible
) noexcept nogil:
    """Index, records size and batch header into the scratch, then the slabs as they are."""
    cdef uint32_t size = BATCH_HEADER_BYTES + batch.wire_bytes
    cdef Slab* slab = batch.first
    fp_put_u32(p, <uint32_t>(<Partition*>batch.partition).index)
    p += 4
    if flexible:
        p = uvarint_put(p, <uint64_t>size + 1)
    else:
        fp_put_u32(p, size)
        p += 4
    batch_write_header(batch, p, header.transactional_id != NULL)
    p += BATCH_HEADER_BYTES
    _add_iov(request, cut[0], p - cut[0])
    cut[0] = p
    while slab != NULL:
        _add_iov(request, slab.base, slab.used)
        slab = slab.next
    if flexible:
        p[0] = 0                # partition: no tagged fields
        p += 1
    return p


cdef FpStatus produce_encode(Request* request, const ProduceHeader* header) noexcept nogil:
    cdef bint flexible = request.version >= PRODUCE_FLEXIBLE_VERSION
    cdef int32_t i, at = 0, run, topics = 0
    cdef uint8_t* p
    cdef uint8_t* cut
    _sort(request)
    if not request_reserve_scratch(request, _scratch_bound(request, header)):
        return FP_NOMEM
    if not request_reserve_iov(request, _iov_bound(request)):
        return FP_NOMEM
    request.iov_count = 0
    request.wire_bytes = 0
    while at < request.batch_count:
        at += _run_of_topic(request, at)
        topics += 1
    cut = request.scratch
    p = _put_head(request.scratch, request, header, flexible)
    p = _put_count(p, topics, flexible)
    at = 0
    while at < request.batch_count:
        run = _run_of_topic(request, at)
        p = _put_topic(p, request, at, run, flexible)
        for i in range(at, at + run):
            p = _put_partition(request, header, request.batches[i], &cut, p, flexible)
        if flexible:
            p[0] = 0            # topic: no tagged fields
            p += 1
        at += run
    if flexible:
        p[0] = 0                # request: no tagged fields
        p += 1
    _add_iov(request, cut, p - cut)
    fp_put_u32(request.scratch, <uint32_t>(request.wire_bytes - 4))
    request.scratch_used = p - request.scratch
    return FP_OK


cdef bint _get_count(ProduceReader* r, bint flexible, int32_t* count) noexcept nogil:
    """An array's length; null is not allowed, nor more entries than bytes left."""
    cdef uint64_t raw
    cdef int64_t found
    if flexible:
        r.p = uvarint_get(r.p, r.end, 5, &raw)
        if r.p == NULL:
            return False
        found = <int64_t>raw - 1
    else:
        if r.end - r.p < 4:
            return False
        found = <int32_t>fp_get_u32(r.p)
        r.p += 4
    if found < 0 or found > r.end - r.p:
        return False
    count[0] = <int32_t>found
    return True


cdef bint _get_string(
    ProduceReader* r, bint flexible, bint nullable, const uint8_t** text, int32_t* size
) noexcept nogil:
    cdef uint64_t raw
    cdef int64_t found
    if flexible:
        r.p = uvarint_get(r.p, r.end, 5, &raw)
        if r.p == NULL:
            return False
        found = <int64_t>raw - 1
    else:
        if r.end - r.p < 2:
            return False
        found = <int16_t>fp_get_u16(r.p)
        r.p += 2
    if found < (-1 if nullable else 0) or found > r.end - r.p:
        return False
    text[0] = r.p if found >= 0 else NULL
    size[0] = <int32_t>found
    if found > 0:
        r.p += found
    return True


cdef bint _get_tag(ProduceReader* r, uint64_t* tag, uint64_t* size) noexcept nogil:
    r.p = uvarint_get(r.p, r.end, 5, tag)
    if r.p != NULL:
        r.p = uvarint_get(r.p, r.end, 5, size)
    return r.p != NULL and <int64_t>size[0] <= r.end - r.p


cdef bint _skip_tags(ProduceReader* r) noexcept nogil:
    cdef uint64_t count, tag, size
    r.p = uvarint_get(r.p, r.end, 5, &count)
    if r.p == NULL:
        return False
    while count > 0:
        if not _get_tag(r, &tag, &size):
            return False
        r.p += size
        count -= 1
    return True


cdef bint _get_partition_tags(ProduceReader* r, ProducePartition* out) noexcept nogil:
    cdef uint64_t count, tag, size
    r.p = uvarint_get(r.p, r.end, 5, &count)
    if r.p == NULL:
        return False
    while count > 0:
        if not _get_tag(r, &tag, &size):
            return False
        if tag == CURRENT_LEADER_TAG and size >= 8 and r.version >= LEADER_TAGS_VERSION:
            out.leader_id = <int32_t>fp_get_u32(r.p)
            out.leader_epoch = <int32_t>fp_get_u32(r.p + 4)
        r.p += size
        count -= 1
    return True


cdef bint _get_response_tags(ProduceReader* r) noexcept nogil:
    cdef uint64_t count, tag, size, entries
    cdef const uint8_t* inside
    r.p = uvarint_get(r.p, r.end, 5, &count)
    if r.p == NULL:
        return False
    while count > 0:
        if not _get_tag(r, &tag, &size):
            return False
        if tag == NODE_ENDPOINTS_TAG and r.version >= LEADER_TAGS_VERSION:
            inside = uvarint_get(r.p, r.p + size, 5, &entries)
            if inside == NULL or entries > size:
                return False
            r.endpoints = inside
            r.endpoint_count = <int32_t>entries - 1
        r.p += size
        count -= 1
    return True


cdef FpStatus produce_open(
    ProduceReader* reader, const uint8_t* p, size_t size, int16_t version
) noexcept nogil:
    memset(reader, 0, sizeof(ProduceReader))
    reader.p = p
    reader.end = p + size
    reader.version = version
    if version >= PRODUCE_FLEXIBLE_VERSION and not _skip_tags(reader):
        return FP_PROTOCOL
    if not _get_count(reader, version >= PRODUCE_FLEXIBLE_VERSION, &reader.topics_left):
        return FP_PROTOCOL
    reader.topics_left += 1     # produce_next closes the topic before: there is none at first
    return FP_OK


cdef FpStatus _next_topic(ProduceReader* r) noexcept nogil:
    cdef bint flexible = r.version >= PRODUCE_FLEXIBLE_VERSION
    if r.topic != NULL and flexible and not _skip_tags(r):
        return FP_PROTOCOL
    r.topics_left -= 1
    if r.topics_left == 0:
        return _close(r)
    if r.version >= PRODUCE_TOPIC_ID_VERSION:
        if r.end - r.p < 16:
            return FP_PROTOCOL
        r.topic = r.p
        r.topic_size = 16
        r.p += 16
    elif not _get_string(r, flexible, False, &r.topic, &r.topic_size):
        return FP_PROTOCOL
    if not _get_count(r, flexible, &r.partitions_left):
        return FP_PROTOCOL
    return FP_OK


cdef FpStatus _close(ProduceReader* r) noexcept nogil:
    if r.end - r.p < 4:
        return FP_PROTOCOL
    r.throttle_ms = <int32_t>fp_get_u32(r.p)
    r.p += 4
    if r.version >= PRODUCE_FLEXIBLE_VERSION and not _get_response_tags(r):
        return FP_PROTOCOL
    return FP_CLOSED


cdef FpStatus produce_next(ProduceReader* reader, ProducePartition* out) noexcept nogil:
    cdef FpStatus status
    while reader.partitions_left == 0:
        status = _next_topic(reader)
        if status != FP_OK:
            return status
    reader.partitions_left -= 1
    return _get_partition(reader, out)


cdef void produce_read(
    ProduceReader* reader, const uint8_t* at, ProducePartition* out
) noexcept nogil:
    reader.p = at
    _get_partition(reader, out)


cdef FpStatus _get_partition(ProduceReader* reader, ProducePartition* out) noexcept nogil:
    cdef bint flexible = reader.version >= PRODUCE_FLEXIBLE_VERSION
    memset(out, 0, sizeof(ProducePartition))
    out.begin = reader.p
    out.topic = reader.topic
    out.topic_size = reader.topic_size
    out.log_start_offset = -1
    out.message_size = -1
    out.leader_id = -1
    out.leader_epoch = -1
    if reader.end - reader.p < 22:
        return FP_PROTOCOL
    out.index = <int32_t>fp_get_u32(reader.p)
    out.error_code = <int16_t>fp_get_u16(reader.p + 4)
    out.base_offset = <int64_t>fp_get_u64(reader.p + 6)
    out.log_append_ms = <int64_t>fp_get_u64(reader.p + 14)
    reader.p += 22
    if reader.version >= 5:
        if reader.end - reader.p < 8:
            return FP_PROTOCOL
        out.log_start_offset = <int64_t>fp_get_u64(reader.p)
        reader.p += 8
    if reader.version >= 8 and not _get_errors(reader, out, flexible):
        return FP_PROTOCOL
    if flexible and not _get_partition_tags(reader, out):
        return FP_PROTOCOL
    return FP_OK


cdef bint _get_errors(ProduceReader* r, ProducePartition* out, bint flexible) noexcept nogil:
    cdef int32_t _i, index, size
    cdef const uint8_t* text
    if not _get_count(r, flexible, &out.record_error_count):
        return False
    out.record_errors = r.p
    for _i in range(out.record_error_count):
        r.p = produce_record_error(r.p, r.end, r.version, &index, &text, &size)
        if r.p == NULL:
            return False
    return _get_string(r, flexible, True, &out.message, &out.message_size)


cdef const uint8_t* produce_record_error(
    const uint8_t* p, const uint8_t* end, int16_t version, int32_t* index,
    const uint8_t** message, int32_t* message_size
) noexcept nogil:
    cdef ProduceReader r
    cdef bint flexible = version >= PRODUCE_FLEXIBLE_VERSION
    if end - p < 4:
        return NULL
    index[0] = <int32_t>fp_get_u32(p)
    r.p = p + 4
    r.end = end
    if not _get_string(&r, flexible, True, message, message_size):
        return NULL
    if flexible and not _skip_tags(&r):
        return NULL
    return r.p


cdef bint produce_endpoint(
    const ProduceReader* reader, int32_t node_id, const uint8_t** host, int32_t* host_size,
    int32_t* port
) noexcept nogil:
    cdef ProduceReader r
    cdef int32_t _i, found, rack_size
    cdef const uint8_t* rack
    if reader.endpoints == NULL:
        return False
    r.p = reader.endpoints
    r.end = reader.end
    for _i in range(reader.endpoint_count):
        if r.end - r.p < 4:
            return False
        found = <int32_t>fp_get_u32(r.p)
        r.p += 4
        if not _get_string(&r, True, False, host, host_size) or r.end - r.p < 4:
            return False
        port[0] = <int32_t>fp_get_u32(r.p)
        r.p += 4
        if not _get_string(&r, True, True, &rack, &rack_size) or not _skip_tags(&r):
            return False
        if found == node_id:
            return True
    return False


cdef FpStatus produce_match(
    Request* request, const uint8_t* p, size_t size, ProduceReader* after, int64_t* compared
) noexcept nogil:
    cdef ProducePartition answer
    cdef int32_t at, following = 0
    cdef FpStatus status = produce_open(after, p, size, request.version)
    while status == FP_OK:
        status = produce_next(after, &answer)
        if status == FP_OK:
            at = _find(request, &answer, following, compared)
            if at >= 0:
                following = at + 1
                if request.places[at].answer_at == 0:
                    request.places[at].answer_at = <uint32_t>(answer.begin - p)
    return FP_OK if status == FP_CLOSED else status
