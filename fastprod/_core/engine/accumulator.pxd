"""RecordAccumulator: per-partition queues of batches, filled by callers (contract P-D.1, P-D.2)."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from fastprod._core.bytes.buffer_pool cimport BufferPool
from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport WakeUp, fp_mutex
from fastprod._core.delivery.result cimport Incomplete, Result
from fastprod._core.engine.histogram cimport Histogram
from fastprod._core.engine.sticky_partitioner cimport StickyPartitioner
from fastprod._core.engine.timer_heap cimport Timer
from fastprod._core.records.record_batch cimport ProducerBatch, Record

cdef enum:
    NO_SLOT = -1            # no leader known
    ANY_PARTITION = -1      # the built-in partitioner decides

cdef enum:
    CLOSED = 1              # takes nothing more, what it has is to go
    CLOSED_AND_DISCARDS = 2     # takes nothing more, what it has is thrown away
    BETWEEN_TRANSACTIONS = 3    # takes nothing until the next one begins, what it has is to go
    ABORTING = 4            # takes nothing until the next one begins, what it has is thrown away

cdef struct PartitionList:
    # First come, first served. Through the partitions: nothing here can run out of memory.
    # OWNER a Node.   BORROWS the partitions.   THREADS the I/O thread.
    Partition* first
    Partition* last
    int32_t count

cdef struct Partition:
    # OWNER    its Topic.   FREED BY topic_free, with the accumulator.
    Topic* topic
    int32_t index
    int32_t leader_slot             # atomic: node slot of the leader, or NO_SLOT
    int32_t leader_epoch            # I/O thread
    # guarded by `lock`
    fp_mutex lock
    ProducerBatch* head
    ProducerBatch* tail
    int32_t queue_count             # batches in the queue; read without the lock as a hint
    # announcements (see docs/design/engine.md, What wakes the I/O thread)
    int32_t is_announced            # atomic: on the stack of those that changed
    Partition* next_announced       # stack link
    # I/O thread only
    PartitionList* place            # the list of its node that it is on; NULL: nothing to do
    Partition* place_prev
    Partition* place_next
    int32_t home_slot               # the node's
    bint is_touched                 # to be looked at: on the I/O thread's list of those
    Partition* next_touched
    Timer wait                      # linger or backoff of its first batch
    Timer expiry                    # none of its batches expires before
    bint muted                      # guarantee-order: a request is under way (P-F.3.5)
    int32_t outstanding             # requests under way with a batch of this partition
    int64_t producer_id
    int16_t producer_epoch
    int32_t next_sequence
    int64_t next_number             # of batches that got a sequence
    int64_t last_acked_sequence     # -1: none
    int64_t last_acked_offset       # -1: none
    ProducerBatch* flight_first     # drained and not complete, in sequence order
    ProducerBatch* flight_last
    int32_t flight_count
    int64_t transaction             # the one that it is part of, or is to be (P-I.2.1); 0: none yet
    int64_t sent_transaction        # the latest that a batch of it has left in
    bint is_added                   # it is: its records may go (P-I.2.3)
    Partition* next_joining         # to be told of
    bint has_unresolved             # P-F.5.7
    bint needs_bump                 # P-F.5.9, done when nothing is outstanding

cdef struct Topic:
    # OWNER    the Accumulator.
    # THREADS  `name`, `limit` constants; `partitions`: grown under `lock`, published atomically,
    #          old arrays kept until the end; the rest as said.
    char* name                      # owned, NUL-terminated
    int32_t name_size
    uint8_t id[16]                  # I/O thread; zero: unknown
    bint has_id
    fp_mutex lock
    Partition** partitions          # atomic pointer
    int32_t partition_count         # atomic; what metadata says, 0: unknown
    int32_t made_count              # of `partitions`; more if the topic was made anew with fewer
    Partition*** retired            # owned; arrays that readers may still look at
    int32_t retired_count
    StickyPartitioner sticky
    int64_t last_used_ns            # relaxed atomic: last batch made
    int32_t ratio_milli             # compression estimate times 1000 (P-E.7.5)
    int64_t load_at_ns              # I/O thread: when the load table was last made
    bint is_in_load_list            # I/O thread: on the list of topics to look at
    int64_t load_bytes              # I/O thread: sticky.total_bytes when the table was made
    int64_t asked_turn              # I/O thread: its turn that last asked for the metadata
    int64_t record_total            # counters: I/O thread writes
    int64_t byte_total
    int64_t error_total
    int64_t retry_total
    int64_t batch_total
    int64_t ratio_millionths        # sum over the batches of their compression ratio
    Histogram ack_time              # of records: their batch's creation-to-acknowledgement
    Topic* next

# Send what `partition` has ready, if the I/O thread sleeps, for a caller that has waited for its
# last `waits` records; False: nothing was done. Never blocks.
ctypedef bint (*SendNow)(void* io, Partition* partition, int32_t waits) noexcept nogil

cdef struct Accumulator:
    # OWNER the engine.
    BufferPool pool
    Incomplete incomplete
    SendNow send_now                # or NULL
    void* io                        # borrowed; its argument
    WakeUp wake_up                  # wakes the I/O thread if it sleeps
    void* wake_argument
    uint32_t batch_bytes            # batch.size
    uint32_t record_bytes_cap       # uncompressed bytes a compressed batch may gather
    uint16_t codec
    int32_t closed                  # atomic
    int32_t flushing                # atomic: flushes under way
    int32_t gathering               # atomic: so many records the next request still waits for
    int32_t kicks                   # atomic: +1 whenever there may be something to do
    void* announced                 # atomic Partition*: stack of those that changed
    int64_t cancelled_total         # atomic counter: records that were taken back
    fp_mutex topics_lock
    Topic* topics
    int64_t sticky_bytes
    uint64_t seed
    bint use_sticky_table           # partitioner.adaptive.partitioning.enable

cdef struct Appended:
    # What an append did, for its caller.
    int32_t waits                   # in: note_send; 0: leave the sending to the I/O thread
    Result* known                   # in: a result the caller has a reference to already, or NULL
    void* owner                     # in: a reference to the bytes object of the first record's
    # value, which may then be lent instead of copied; or NULL. out: NULL: it is the batch's
    Result** future_result          # in, with `future`: its own, written before it can be told
    uint32_t* future_index
    Result* result                  # one reference, the caller's, unless it is `known`
    uint32_t index                  # of the first record
    uint32_t count                  # how many records it took
    uint32_t grew_bytes             # what the batch's estimate grew by (P-C.5.2)
    int32_t partition
    size_t need_bytes               # FP_EXHAUSTED: what to wait for

cdef FpStatus accumulator_init(Accumulator* a, size_t buffer_bytes) noexcept nogil
cdef void accumulator_destroy(Accumulator* a) noexcept nogil
# Make a topic; the caller knows that there is none of this name. NULL: out of memory.
cdef Topic* accumulator_add_topic(Accumulator* a, const char* name, int32_t size) noexcept nogil
# Set the number of partitions; those that are too many are no longer chosen, and stay for the
# records that they hold. -1: out of memory.
cdef int topic_set_partition_count(Topic* topic, int32_t count) noexcept nogil

# Append the first of `count` records, all for one partition, and those behind it that go into the
# same batch as it is: out.count of them, up to some 16 kB, under one lock. `extra`: slabs that the
# caller waited for, taken over in any case (the rest returns to the pool). `future`: an owned
# PyObject reference to attach to the first for callbacks, or NULL; on any status but FP_OK it stays
# the caller's. Its callbacks may run before this returns, if the caller does not have the GIL.
# FP_OK; FP_EXHAUSTED: wait for out.need_bytes and call again; FP_TOO_LARGE; FP_CLOSED; FP_NOMEM.
# Never blocks but on the partition's lock. THREADS any.
cdef FpStatus accumulator_append(
    Accumulator* a, Topic* topic, int32_t partition, const Record* records, uint32_t count,
    Slab* extra, void* future, Appended* out) noexcept nogil

# Take nothing more: later appends are FP_CLOSED, and those under way have ended on return, so that
# an I/O thread which is told to stop after this finds everything. `how`: CLOSED, or another of
# those; the last two change nothing about what is closed for good, and an abort stays one. THREADS
# any.
cdef void accumulator_close(Accumulator* a, int32_t how) noexcept nogil
# A transaction has begun: take records again, unless it was closed for good. THREADS any.
cdef void accumulator_open(Accumulator* a) noexcept nogil

# The partition has changed in a way that may let a batch go: let the I/O thread look at it. Kick
# after this. THREADS any.
cdef void accumulator_announce(Accumulator* a, Partition* partition) noexcept nogil
# There may be something to do: wake the I/O thread if it sleeps. THREADS any.
cdef void accumulator_kick(Accumulator* a) noexcept nogil

cdef int64_t batch_estimate(Accumulator* a, ProducerBatch* batch) noexcept nogil
cdef bint batch_is_full(Accumulator* a, ProducerBatch* batch) noexcept nogil
# A batch's observed compression ratio (P-E.7.5).
cdef void topic_observe_ratio(Topic* topic, int64_t compressed, int64_t plain) noexcept nogil
