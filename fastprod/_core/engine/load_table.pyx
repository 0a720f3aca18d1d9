"""Tells the partitioner how long the queues of each topic's partitions are."""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc, realloc

from fastprod._core.bytes.sync cimport fp_load_i32_acq, fp_load_i64, fp_load_ptr
from fastprod._core.engine.accumulator cimport Partition, Topic
from fastprod._core.engine.sender_state cimport IoThread, Node
from fastprod._core.engine.sticky_partitioner cimport sticky_set_load

cdef enum:
    LOAD_PERIOD_NS = 1000000


cdef void mark_busy(IoThread* io, Topic* topic) noexcept nogil:
    cdef Topic** grown
    if topic.is_in_load_list or not io.accumulator.use_sticky_table:
        return
    if fp_load_i64(&topic.sticky.total_bytes) == topic.load_bytes:
        return      # all since the last table had a key, or were placed by hand
    if io.busy_count == io.busy_capacity:
        grown = <Topic**>realloc(io.busy, (io.busy_capacity + 16) * sizeof(Topic*))
        if grown == NULL:
            return
        io.busy = grown
        io.busy_capacity += 16
    io.busy[io.busy_count] = topic
    io.busy_count += 1
    topic.is_in_load_list = True


cdef bint _is_slow(IoThread* io, Node* node) noexcept nogil:
    """P-C.5.7: it has had data for longer than it last took any."""
    return (
        io.availability_timeout_ns > 0
        and node.last_ready_ns - node.last_drain_ns > io.availability_timeout_ns
    )


cdef bint _reserve(IoThread* io, int32_t count) noexcept nogil:
    if count > io.load_capacity:
        free(io.load)
        io.load = <int32_t*>malloc(2 * count * sizeof(int32_t))
        io.load_capacity = count if io.load != NULL else 0
    return io.load != NULL


cdef bint _make_table(IoThread* io, Topic* topic, int32_t count) noexcept nogil:
    """Of the first `count` partitions. True: every queue of the topic is empty."""
    cdef int32_t i, slot, used = 0, waiting = 0, known = 0, length
    cdef Partition** partitions = <Partition**>fp_load_ptr(<void**>&topic.partitions)
    for i in range(count):
        slot = fp_load_i32_acq(&partitions[i].leader_slot)
        if not 0 <= slot < io.node_count or io.nodes[slot] == NULL:
            continue
        known += 1
        if _is_slow(io, io.nodes[slot]):
            continue
        length = fp_load_i32_acq(&partitions[i].queue_count)
        io.load[used] = i
        io.load[io.load_capacity + used] = length
        waiting += length
        used += 1
    sticky_set_load(
        &topic.sticky, io.load, io.load + io.load_capacity, used, used == known)
    return waiting == 0 and used == known


cdef bint _update(IoThread* io, Topic* topic) noexcept nogil:
    """False: until it is marked again there is nothing to do for it."""
    cdef int64_t total_bytes = fp_load_i64(&topic.sticky.total_bytes)
    # Once: the control thread may raise it meanwhile. The array that is read after it has as many.
    cdef int32_t count = fp_load_i32_acq(&topic.partition_count)
    if total_bytes == topic.load_bytes or count < 2 or not _reserve(io, count):
        return False
    topic.load_bytes = total_bytes
    return not _make_table(io, topic, count)


cdef void update_load(IoThread* io) noexcept nogil:
    cdef int32_t i = 0
    if io.busy_count == 0 or io.now_ns - io.load_at_ns < LOAD_PERIOD_NS:
        return
    io.load_at_ns = io.now_ns
    while i < io.busy_count:
        if _update(io, io.busy[i]):
            i += 1
            continue
        io.busy[i].is_in_load_list = False
        io.busy_count -= 1
        io.busy[i] = io.busy[io.busy_count]
