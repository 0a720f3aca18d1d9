"""Appends records to the batches of partitions, opens new batches when they are full, and takes
back records that have not left.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from fastprod._core.bytes.buffer_pool cimport (
    MOST_IN_SMALL, pool_destroy, pool_give, pool_init, pool_take,
)
from fastprod._core.bytes.fp_status cimport FP_CLOSED, FP_NOMEM, FP_OK, FpStatus
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport (
    fp_add_i32, fp_add_i64, fp_cas_ptr, fp_load_i32, fp_load_i32_acq, fp_load_ptr, fp_mutex_destroy,
    fp_mutex_init, fp_mutex_lock, fp_mutex_unlock, fp_now_ns, fp_store_i32, fp_store_i32_rel,
    fp_store_i64, fp_store_ptr, fp_xchg_i32,
)
from fastprod._core.delivery.index_set cimport index_set_add
from fastprod._core.delivery.result cimport (
    ERR_CANCELLED, Result, incomplete_destroy, incomplete_init, result_attach, result_complete,
    result_live_count, result_new, result_retain,
)
from fastprod._core.engine.sticky_partitioner cimport (
    StickyPartitioner, sticky_current, sticky_destroy, sticky_init, sticky_produced,
)
from fastprod._core.records.record_batch cimport (
    BATCH_HEADER_BYTES, ProducerBatch, Record, batch_add_slabs, batch_append, batch_append_lent,
    batch_append_run, batch_free, batch_new, batch_room, record_size,
)

cdef enum:
    RUN_BYTES = 16384           # of records that are appended under one lock


cdef FpStatus accumulator_init(Accumulator* a, size_t buffer_bytes) noexcept nogil:
    memset(a, 0, sizeof(Accumulator))
    fp_mutex_init(&a.topics_lock)
    incomplete_init(&a.incomplete)
    a.incomplete.urge = _urge
    a.incomplete.take_back = _take_back
    a.incomplete.argument = a
    a.incomplete.pool = &a.pool
    return pool_init(&a.pool, buffer_bytes)


cdef void _urge(void* argument, void* partition) noexcept nogil:
    cdef Accumulator* a = <Accumulator*>argument
    accumulator_announce(a, <Partition*>partition)
    if fp_load_i32(&a.gathering) <= 0:      # else the I/O thread wakes by itself
        accumulator_kick(a)


cdef void accumulator_destroy(Accumulator* a) noexcept nogil:
    cdef Topic* topic = a.topics
    cdef Topic* next_topic
    while topic != NULL:
        next_topic = topic.next
        _topic_free(topic, a)
        topic = next_topic
    pool_destroy(&a.pool)
    incomplete_destroy(&a.incomplete)
    fp_mutex_destroy(&a.topics_lock)


cdef void _topic_free(Topic* topic, Accumulator* a) noexcept nogil:
    cdef int32_t i
    cdef Partition* partition
    cdef ProducerBatch* batch
    for i in range(topic.made_count):
        partition = topic.partitions[i]
        while partition.head != NULL:
            batch = partition.head
            partition.head = batch.next
            fp_store_ptr(&batch.result.batch, NULL)
            batch_free(batch, &a.pool)
        fp_mutex_destroy(&partition.lock)
        free(partition)
    for i in range(topic.retired_count):
        free(topic.retired[i])
    free(topic.retired)
    free(topic.partitions)
    sticky_destroy(&topic.sticky)
    fp_mutex_destroy(&topic.lock)
    free(topic.name)
    free(topic)


cdef Topic* accumulator_add_topic(Accumulator* a, const char* name, int32_t size) noexcept nogil:
    cdef Topic* topic = <Topic*>calloc(1, sizeof(Topic))
    if topic == NULL:
        return NULL
    topic.name = <char*>malloc(size + 1)
    if topic.name == NULL:
        free(topic)
        return NULL
    memcpy(topic.name, name, size)
    topic.name[size] = 0
    topic.name_size = size
    topic.ratio_milli = 1000
    fp_mutex_init(&topic.lock)
    fp_mutex_lock(&a.topics_lock)
    a.seed = a.seed * 6364136223846793005ULL + 1442695040888963407ULL
    sticky_init(&topic.sticky, a.sticky_bytes, a.seed)
    topic.next = a.topics
    a.topics = topic
    fp_mutex_unlock(&a.topics_lock)
    return topic


cdef int topic_set_partition_count(Topic* topic, int32_t count) noexcept nogil:
    cdef Partition** grown
    cdef Partition*** retired
    cdef int result = 0
    fp_mutex_lock(&topic.lock)
    if count > topic.made_count:
        grown = <Partition**>calloc(count, sizeof(Partition*))
        retired = <Partition***>realloc(
            topic.retired, (topic.retired_count + 1) * sizeof(Partition**))
        if retired != NULL:
            topic.retired = retired
        if grown == NULL or retired == NULL:
            free(grown)
            result = -1
        else:
            result = _grow(topic, grown, count)
    if result == 0:
        fp_store_i32_rel(&topic.partition_count, count)
    fp_mutex_unlock(&topic.lock)
    return result


cdef int _grow(Topic* topic, Partition** grown, int32_t count) noexcept nogil:
    cdef int32_t i
    cdef Partition* partition
    if topic.made_count > 0:
        memcpy(grown, topic.partitions, topic.made_count * sizeof(Partition*))
    for i in range(topic.made_count, count):
        partition = <Partition*>calloc(1, sizeof(Partition))
        if partition == NULL:
            return -1
        partition.topic = topic
        partition.index = i
        partition.leader_slot = NO_SLOT
        partition.leader_epoch = -1
        partition.home_slot = NO_SLOT
        partition.wait.owner = partition
        partition.expiry.owner = partition
        partition.producer_id = -1
        partition.producer_epoch = -1
        partition.last_acked_sequence = -1
        partition.last_acked_offset = -1
        fp_mutex_init(&partition.lock)
        grown[i] = partition
    if topic.partitions != NULL:
        topic.retired[topic.retired_count] = topic.partitions
        topic.retired_count += 1
    fp_store_ptr(<void**>&topic.partitions, grown)
    topic.made_count = count
    return 0


cdef int64_t batch_estimate(Accumulator* a, ProducerBatch* batch) noexcept nogil:
    """P-E.7.2: exact without a codec or once sealed, else by the topic's ratio and 5 %."""
    cdef int64_t ratio_milli
    if batch.is_sealed:
        return BATCH_HEADER_BYTES + <int64_t>batch.wire_bytes
    if batch.codec == 0:
        return BATCH_HEADER_BYTES + <int64_t>batch.record_bytes
    ratio_milli = fp_load_i32_acq(&(<Partition*>batch.partition).topic.ratio_milli)
    return BATCH_HEADER_BYTES + <int64_t>batch.record_bytes * ratio_milli * 105 // 100000


cdef bint batch_is_full(Accumulator* a, ProducerBatch* batch) noexcept nogil:
    return batch.is_closed or (
        batch.count > 0
        and (batch_estimate(a, batch) >= a.batch_bytes
             or (batch.codec != 0 and batch.record_bytes >= a.record_bytes_cap))
    )


cdef void topic_observe_ratio(Topic* topic, int64_t compressed, int64_t plain) noexcept nogil:
    cdef int32_t observed
    cdef int32_t current = topic.ratio_milli
    if plain <= 0:
        return
    observed = <int32_t>(compressed * 1000 // plain)
    if observed > current:
        observed = max(current + 50, observed)
    else:
        observed = max(current - 5, observed)
    fp_store_i32_rel(&topic.ratio_milli, observed)


cdef inline bint _has_room(Accumulator* a, ProducerBatch* batch, uint32_t size) noexcept nogil:
    if batch.is_closed:
        return False
    if batch.codec == 0:
        return <int64_t>batch.record_bytes + BATCH_HEADER_BYTES + size <= a.batch_bytes
    return (
        batch_estimate(a, batch) + size <= a.batch_bytes
        and <int64_t>batch.record_bytes + size <= a.record_bytes_cap
    )


cdef inline int64_t _run_bytes(Accumulator* a, ProducerBatch* batch) noexcept nogil:
    """How much may surely be appended before `_has_room` is to be asked again."""
    cdef int64_t left = <int64_t>a.batch_bytes - batch_estimate(a, batch)
    cdef int64_t ratio_milli
    if batch.codec == 0:
        return left
    # An estimate may grow by more than what is appended.
    ratio_milli = fp_load_i32_acq(&(<Partition*>batch.partition).topic.ratio_milli)
    left = left * 100000 // max(<int64_t>100000, ratio_milli * 105)
    return min(left, <int64_t>a.record_bytes_cap - batch.record_bytes)


cdef FpStatus _get_memory(
    Accumulator* a, ProducerBatch* batch, uint32_t size, Slab** extra, Appended* out
) noexcept nogil:
    """Give `batch` room for `size` bytes, out of `extra` first."""
    cdef FpStatus status
    cdef Slab* chain = NULL
    cdef uint32_t room = batch_room(batch)
    if room >= size:
        return FP_OK
    if extra[0] != NULL:
        batch_add_slabs(batch, extra[0])
        extra[0] = NULL
        room = batch_room(batch)
        if room >= size:
            return FP_OK
    status = pool_take(&a.pool, size - room, batch.record_bytes + room >= MOST_IN_SMALL, &chain)
    if status == FP_OK:
        batch_add_slabs(batch, chain)
    else:
        out.need_bytes = size - room
    return status


cdef FpStatus _new_batch(
    Accumulator* a, Partition* partition, const Record* record, Slab** extra, Appended* out
) noexcept nogil:
    """Open a batch with room for `record` at the tail of the queue."""
    cdef uint32_t body
    cdef uint32_t size = record_size(record, 0, 0, &body)
    cdef ProducerBatch* batch
    cdef FpStatus status
    cdef Result* result
    cdef int64_t now_ns = fp_now_ns()
    batch = batch_new(partition, NULL, a.codec, now_ns)
    if batch == NULL:
        return FP_NOMEM
    status = _get_memory(a, batch, size, extra, out)
    if status == FP_OK:
        result = result_new(&a.incomplete, partition.index, partition)
        batch.result = result
        if result == NULL:
            status = FP_NOMEM
    if status != FP_OK:
        batch_free(batch, &a.pool)
        out.need_bytes = size       # all of it: what was there has gone back
        return status
    fp_store_i64(&partition.topic.last_used_ns, now_ns)
    fp_store_ptr(&result.batch, batch)
    if partition.tail == NULL:
        partition.head = batch
    else:
        partition.tail.next = batch
    partition.tail = batch
    fp_store_i32_rel(&partition.queue_count, partition.queue_count + 1)
    return FP_OK


cdef void accumulator_announce(Accumulator* a, Partition* partition) noexcept nogil:
    # 1. We change the partition, then set `is_announced` (a full fence).
    # 2. The I/O thread takes the whole stack (so that there is no ABA), clears `is_announced` (a
    #    full fence), then looks at the partition.
    # If we find it set, 2 is still to come and sees our change; else we push.
    cdef void* top
    if fp_xchg_i32(&partition.is_announced, 1) != 0:
        return
    while True:
        top = fp_load_ptr(&a.announced)
        partition.next_announced = <Partition*>top
        if fp_cas_ptr(&a.announced, top, partition):
            return


cdef FpStatus _append_locked(
    Accumulator* a, Partition* partition, const Record* record, Slab** extra, void* future,
    Appended* out, bint* wake
) noexcept nogil:
    cdef ProducerBatch* batch = partition.tail
    cdef uint32_t size = 0, body = 0
    cdef FpStatus status
    wake[0] = False
    if fp_load_i32_acq(&a.closed):
        return FP_CLOSED
    if batch != NULL and not batch.is_closed:
        size = record_size(
            record, record.timestamp_ms - batch.base_timestamp_ms, batch.count, &body)
        if not _has_room(a, batch, size):
            batch.is_closed = True
    if batch == NULL or batch.is_closed:
        # Also behind a batch under way: it may go now, or its linger is to be waited for
        # (P-A.3.11).
        wake[0] = True
        status = _new_batch(a, partition, record, extra, out)
        if status != FP_OK:
            return status
        batch = partition.tail
        size = record_size(record, 0, 0, &body)
    elif batch_room(batch) < size:
        status = _get_memory(a, batch, size, extra, out)
        if status != FP_OK:
            return status
    out.index = batch.count
    out.count = 1
    out.grew_bytes = size + (BATCH_HEADER_BYTES if batch.count == 0 else 0)
    if (out.owner != NULL and batch.codec == 0
            and batch_append_lent(batch, record, size, body, out.owner, &a.pool)):
        out.owner = NULL
    else:
        batch_append(batch, record, size, body)
    out.result = batch.result
    out.partition = partition.index
    if batch.result != out.known:
        result_retain(batch.result)
    if future != NULL:
        out.future_result[0] = out.result   # who runs callbacks may be faster than our caller
        out.future_index[0] = out.index
        result_attach(batch.result, future, out.index)
    return FP_OK


cdef void _append_more(
    Accumulator* a, ProducerBatch* batch, const Record* records, uint32_t count,
    int64_t most_bytes, Appended* out
) noexcept nogil:
    """Those behind the first for which `batch` has room, and memory."""
    cdef const Record* record
    cdef uint32_t size
    cdef uint32_t body = 0
    cdef uint32_t before = batch.record_bytes - out.grew_bytes
    while out.count < count and out.grew_bytes < most_bytes:
        out.count += batch_append_run(
            batch, &records[out.count], count - out.count,
            min(most_bytes - out.grew_bytes, _run_bytes(a, batch)))
        out.grew_bytes = batch.record_bytes - before
        if out.count == count:
            return
        # At a border: exactly.
        record = &records[out.count]
        size = record_size(
            record, record.timestamp_ms - batch.base_timestamp_ms, batch.count, &body)
        if batch_room(batch) < size or not _has_room(a, batch, size):
            return
        batch_append(batch, record, size, body)
        out.count += 1
        out.grew_bytes += size


cdef inline bint _is_still_sticky(
    Accumulator* a, Partition* partition, int32_t chosen
) noexcept nogil:
    """Under the lock: a switch put off until its batch is complete is due now (P-C.5.4)."""
    cdef StickyPartitioner* sticky = &partition.topic.sticky
    if fp_load_i32_acq(&sticky.partition) != chosen:
        return False
    if sticky.produced_bytes < sticky.limit_bytes:
        return True
    if partition.tail == NULL or batch_is_full(a, partition.tail):
        sticky_produced(sticky, chosen, 0, True)
    return fp_load_i32_acq(&sticky.partition) == chosen


cdef FpStatus accumulator_append(
    Accumulator* a, Topic* topic, int32_t partition, const Record* records, uint32_t count,
    Slab* extra, void* future, Appended* out
) noexcept nogil:
    cdef Partition* target
    cdef FpStatus status
    cdef int64_t most_bytes = RUN_BYTES
    cdef int32_t chosen
    cdef bint wake = False      # a new batch, or a full one (P-A.3.11)
    cdef bint is_full
    while True:
        chosen = partition if partition >= 0 else sticky_current(&topic.sticky)
        target = (<Partition**>fp_load_ptr(<void**>&topic.partitions))[chosen]
        fp_mutex_lock(&target.lock)
        if partition >= 0 or _is_still_sticky(a, target, chosen):
            break
        fp_mutex_unlock(&target.lock)   # it switched between the look and the lock (P-C.5.4)
    status = _append_locked(a, target, records, &extra, future, out, &wake)
    if status == FP_OK and count > 1:
        if partition < 0:   # no further than to where a switch is not put off any more (P-C.5.4)
            most_bytes = min(
                most_bytes, 2 * topic.sticky.limit_bytes - topic.sticky.produced_bytes)
        _append_more(a, target.tail, records, count, most_bytes, out)
    if status == FP_OK:
        is_full = batch_is_full(a, target.tail)
        wake = wake or is_full
        if partition < 0:
            sticky_produced(&topic.sticky, chosen, out.grew_bytes, is_full)
    if wake:
        accumulator_announce(a, target)     # under the lock, for accumulator_close
    fp_mutex_unlock(&target.lock)
    if extra != NULL:
        pool_give(&a.pool, extra)
    if status == FP_OK and fp_load_i32(&a.gathering) > 0:
        if fp_add_i32(&a.gathering, -1) > 0:
            return FP_OK        # the I/O thread wakes by itself
        wake = True
    if wake:
        if out.waits == 0 or a.send_now == NULL or not a.send_now(a.io, target, out.waits):
            accumulator_kick(a)
    return status


cdef void _unlink(Partition* p, ProducerBatch* batch) noexcept nogil:
    cdef ProducerBatch* before = NULL
    cdef ProducerBatch* at = p.head
    while at != batch:
        before = at
        at = at.next
    if before == NULL:
        p.head = batch.next
    else:
        before.next = batch.next
    if p.tail == batch:
        p.tail = before
    batch.next = NULL
    fp_store_ptr(&batch.result.batch, NULL)
    fp_store_i32_rel(&p.queue_count, p.queue_count - 1)


cdef bint _take_back(
    void* argument, Result* result, const uint32_t* indexes, uint32_t count
) noexcept nogil:
    cdef Accumulator* a = <Accumulator*>argument
    cdef Partition* p = <Partition*>result.origin
    cdef ProducerBatch* emptied = NULL
    cdef bint is_taken
    fp_mutex_lock(&p.lock)
    is_taken = result.batch != NULL and index_set_add(&result.removed, indexes, count)
    if is_taken and result_live_count(result) == 0:
        emptied = <ProducerBatch*>result.batch
        _unlink(p, emptied)
        accumulator_announce(a, p)      # the partition may have nothing left, or another head
    fp_mutex_unlock(&p.lock)
    if is_taken:
        fp_add_i64(&a.cancelled_total, count)
    if emptied != NULL:
        result.error_code = ERR_CANCELLED
        result_complete(result)
        batch_free(emptied, &a.pool)
        accumulator_kick(a)
    return is_taken


cdef void accumulator_open(Accumulator* a) noexcept nogil:
    fp_mutex_lock(&a.topics_lock)
    if a.closed >= BETWEEN_TRANSACTIONS:
        fp_store_i32(&a.incomplete.has_missed, 0)
        fp_store_i32(&a.closed, 0)
    fp_mutex_unlock(&a.topics_lock)


cdef void accumulator_close(Accumulator* a, int32_t how) noexcept nogil:
    # 1. An append sees that we are open. 2. We close. 3. The I/O thread finds nothing and ends.
    # 4. The append queues its record: nobody would ever complete it. So 3 waits for 4, by the lock.
    cdef Topic* topic
    cdef Partition* partition
    cdef int32_t i
    fp_mutex_lock(&a.topics_lock)
    if (how < BETWEEN_TRANSACTIONS or a.closed == 0
            or (how == ABORTING and a.closed == BETWEEN_TRANSACTIONS)):
        fp_store_i32(&a.closed, how)
    topic = a.topics
    fp_mutex_unlock(&a.topics_lock)
    while topic != NULL:
        fp_mutex_lock(&topic.lock)
        for i in range(topic.made_count):
            partition = topic.partitions[i]
            fp_mutex_lock(&partition.lock)
            fp_mutex_unlock(&partition.lock)
        fp_mutex_unlock(&topic.lock)
        topic = topic.next


cdef void accumulator_kick(Accumulator* a) noexcept nogil:
    # 1. We publish work, then count a kick (a full fence), then look at `parked`.
    # 2. The I/O thread sets `parked` (a full fence), then looks at `kicks` again.
    # Whichever comes second sees the other: no wake-up is lost, and none is paid while it works.
    fp_add_i32(&a.kicks, 1)
    if a.wake_up != NULL:
        a.wake_up(a.wake_argument)
