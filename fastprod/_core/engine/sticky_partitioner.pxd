"""The built-in sticky partitioner, adaptive to queue lengths (contract P-C.5; KIP-480, KIP-794)."""
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastprod._core.bytes.sync cimport fp_mutex

cdef struct StickyPartitioner:
    # One topic's choice for records without a key.
    #
    # OWNER    its Topic.   FREED BY sticky_destroy.
    # THREADS  `partition` atomic. `produced_bytes`, `total_bytes`: guarded by the lock of the
    #          partition that is sticky now. The rest: guarded by `lock`.
    int32_t partition           # sticky now, -1: none chosen yet
    int64_t produced_bytes      # since it became sticky
    int64_t total_bytes         # relaxed atomic: since ever, so that it tells who uses the tables
    int64_t limit_bytes         # switch after so many
    fp_mutex lock
    int32_t partition_count
    int32_t* available          # owned; partitions with a leader
    int32_t available_count
    int32_t* table_partition    # owned; load table: partition and cumulative weight
    int32_t* table_cumulative   # owned
    int32_t table_count         # 0: no usable load statistics, choose uniformly
    int32_t capacity            # entries of the three arrays
    uint64_t random_state
    int64_t scripted            # tests: the next random number, -1: none

cdef int sticky_init(StickyPartitioner* sticky, int64_t limit_bytes, uint64_t seed) noexcept nogil
cdef void sticky_destroy(StickyPartitioner* sticky) noexcept nogil

# New metadata: `has_leader[i]` for each of `count` partitions. -1: out of memory.
cdef int sticky_set_partitions(
    StickyPartitioner* sticky, const int32_t* has_leader, int32_t count) noexcept nogil

# Queue lengths (batches) of `count` partitions, in `partitions`; weights as in P-C.5.6.
cdef void sticky_set_load(
    StickyPartitioner* sticky, const int32_t* partitions, const int32_t* queue_lengths,
    int32_t count, bint nothing_excluded) noexcept nogil

# The sticky partition, chosen now if there is none; -1 without partitions.
cdef int32_t sticky_current(StickyPartitioner* sticky) noexcept nogil

# Under the lock of partition `current`: `bytes` were produced to it; switch when it is due.
# `may_switch` is P-C.5.3: its last batch is full, or its queue is empty.
cdef void sticky_produced(
    StickyPartitioner* sticky, int32_t current, int64_t bytes, bint may_switch) noexcept nogil
