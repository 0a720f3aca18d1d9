"""Chooses partitions for records without a key."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from fastprod._core.bytes.sync cimport (
    fp_load_i32_acq, fp_mutex_destroy, fp_mutex_init, fp_mutex_lock, fp_mutex_unlock,
    fp_store_i32_rel, fp_store_i64,
)


cdef int sticky_init(StickyPartitioner* sticky, int64_t limit_bytes, uint64_t seed) noexcept nogil:
    memset(sticky, 0, sizeof(StickyPartitioner))
    fp_mutex_init(&sticky.lock)
    sticky.partition = -1
    sticky.limit_bytes = max(<int64_t>1, limit_bytes)
    sticky.random_state = seed | 1
    sticky.scripted = -1
    return 0


cdef void sticky_destroy(StickyPartitioner* sticky) noexcept nogil:
    free(sticky.available)
    free(sticky.table_partition)
    free(sticky.table_cumulative)
    fp_mutex_destroy(&sticky.lock)


cdef uint64_t _random(StickyPartitioner* sticky) noexcept nogil:
    """xorshift64*: the choice of a partition needs speed and spread, not secrecy."""
    cdef uint64_t x = sticky.random_state
    if sticky.scripted >= 0:
        x = <uint64_t>sticky.scripted
        sticky.scripted = -1
        return x
    x ^= x >> 12
    x ^= x << 25
    x ^= x >> 27
    sticky.random_state = x
    return (x * 0x2545F4914F6CDD1DULL) >> 33


cdef int sticky_set_partitions(
    StickyPartitioner* sticky, const int32_t* has_leader, int32_t count
) noexcept nogil:
    cdef int32_t i
    cdef int32_t* available
    cdef int32_t* table_partition
    cdef int32_t* table_cumulative
    fp_mutex_lock(&sticky.lock)
    if count > sticky.capacity:
        available = <int32_t*>realloc(sticky.available, count * sizeof(int32_t))
        if available != NULL:
            sticky.available = available
        table_partition = <int32_t*>realloc(sticky.table_partition, count * sizeof(int32_t))
        if table_partition != NULL:
            sticky.table_partition = table_partition
        table_cumulative = <int32_t*>realloc(sticky.table_cumulative, count * sizeof(int32_t))
        if table_cumulative != NULL:
            sticky.table_cumulative = table_cumulative
        if available == NULL or table_partition == NULL or table_cumulative == NULL:
            fp_mutex_unlock(&sticky.lock)
            return -1
        sticky.capacity = count
    sticky.partition_count = count
    if sticky.partition >= count:       # the topic was made anew with fewer
        fp_store_i32_rel(&sticky.partition, -1)
    sticky.available_count = 0
    for i in range(count):
        if has_leader[i]:
            sticky.available[sticky.available_count] = i
            sticky.available_count += 1
    sticky.table_count = 0
    fp_mutex_unlock(&sticky.lock)
    return 0


cdef void sticky_set_load(
    StickyPartitioner* sticky, const int32_t* partitions, const int32_t* queue_lengths,
    int32_t count, bint nothing_excluded
) noexcept nogil:
    cdef int32_t i, longest = 0, total = 0
    cdef bint all_equal = True
    for i in range(count):
        if queue_lengths[i] > longest:
            longest = queue_lengths[i]
        if queue_lengths[i] != queue_lengths[0]:
            all_equal = False
    fp_mutex_lock(&sticky.lock)
    if count < 1 or count > sticky.capacity or (nothing_excluded and (count < 2 or all_equal)):
        sticky.table_count = 0
        fp_mutex_unlock(&sticky.lock)
        return
    for i in range(count):
        if partitions[i] < sticky.partition_count:      # else it went while we counted
            total += longest + 1 - queue_lengths[i]
        sticky.table_partition[i] = partitions[i]
        sticky.table_cumulative[i] = total
    sticky.table_count = count if total > 0 else 0
    fp_mutex_unlock(&sticky.lock)


cdef int32_t _choose(StickyPartitioner* sticky) noexcept nogil:
    """P-C.5.5, P-C.5.6: by weight, else uniform among the available, else uniform among all."""
    cdef uint64_t r
    cdef int32_t low, high, middle
    if sticky.partition_count == 0:
        return -1
    r = _random(sticky)
    if sticky.table_count > 0:
        r %= <uint64_t>sticky.table_cumulative[sticky.table_count - 1]
        low = 0
        high = sticky.table_count - 1
        while low < high:
            middle = (low + high) // 2
            if <uint64_t>sticky.table_cumulative[middle] > r:
                high = middle
            else:
                low = middle + 1
        return sticky.table_partition[low]
    if sticky.available_count > 0:
        return sticky.available[r % <uint64_t>sticky.available_count]
    return <int32_t>(r % <uint64_t>sticky.partition_count)


cdef int32_t sticky_current(StickyPartitioner* sticky) noexcept nogil:
    cdef int32_t current = fp_load_i32_acq(&sticky.partition)
    if current >= 0:
        return current
    fp_mutex_lock(&sticky.lock)
    current = sticky.partition
    if current < 0:
        current = _choose(sticky)
        sticky.produced_bytes = 0
        fp_store_i32_rel(&sticky.partition, current)
    fp_mutex_unlock(&sticky.lock)
    return current


cdef void sticky_produced(
    StickyPartitioner* sticky, int32_t current, int64_t bytes, bint may_switch
) noexcept nogil:
    sticky.produced_bytes += bytes
    fp_store_i64(&sticky.total_bytes, sticky.total_bytes + bytes)
    if sticky.produced_bytes < sticky.limit_bytes:
        return
    if not may_switch and sticky.produced_bytes < 2 * sticky.limit_bytes:
        return
    fp_mutex_lock(&sticky.lock)
    sticky.produced_bytes = 0
    fp_store_i32_rel(&sticky.partition, _choose(sticky))
    fp_mutex_unlock(&sticky.lock)
