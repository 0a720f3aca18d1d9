"""Results of batches, the waiters on them, and the queue of results with callbacks.

A future is (Result, index). Completing a batch stores one Result and wakes its waiters once,
whatever number of records it holds; only records with callbacks are walked, by the drain of the
completion queue (contract P-A.3.13, P-D.10.4).
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from fastprod._core.bytes.buffer_pool cimport BufferPool
from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.bytes.sync cimport fp_cond, fp_load_i32_acq, fp_load_ptr, fp_mutex
from fastprod._core.delivery.index_set cimport IndexSet, index_set_rank
from fastprod._core.delivery.loop_queue cimport LoopItem, LoopQueue

cdef enum ResultState:
    RESULT_PENDING = 0
    RESULT_DELIVERING = 1   # complete; its callbacks have not all run
    RESULT_DONE = 2
    RESULT_SPLIT = 3        # look at the children; their futures moved there

cpdef enum:
    # LocalError: outcomes that no broker sends; broker codes are -1..32767.
    ERR_NONE = 0
    ERR_EXPIRED = -1001         # delivery.timeout.ms passed; detail: ms since creation
    ERR_ABORTED = -1002         # the producer was closed forcefully
    ERR_SPLIT = -1003           # look at the children
    ERR_NO_CODEC = -1005        # compression failed
    ERR_NO_ZSTD = -1006         # the broker's Produce version is too old for zstd (P-F.3.3)
    ERR_TXN_ABORTED = -1007     # never sent: its transaction was aborted (P-A.8.6)
    ERR_CANCELLED = -1008       # never sent: the caller took the record back
    ERR_DEADLINE = -1009        # not acknowledged by its own deadline; limit: that, in us
    ERR_PURGED = -1010          # given up by `purge`

cpdef enum:
    # WaitReason: what an expired batch was waiting for, where no broker said anything (see
    # Result.last_code).
    WAIT_LEADER = -2001         # its partition has no known leader
    WAIT_PRODUCER_ID = -2002    # no broker has given a producer id

cdef enum:
    NO_PLACE = -1
    NO_ROOM = -2

cdef struct Incomplete      # below

cdef struct AttachedFuture:
    void* future                # owned PyObject reference
    uint32_t index              # of its record in the batch
    uint32_t order              # of attachment

cdef struct RecordError:
    int32_t index
    char* message               # owned; NULL: the default text

cdef struct Result:
    # The outcome of one ProducerBatch.
    #
    # OWNER    shared: `refs` counts the batch, the futures, the completion queue, a parent Result.
    # FREED BY result_release, by whoever drops the last reference, any thread, no GIL needed
    #          (`futures` is empty by then).
    # THREADS  `state` and `refs` atomic. Outcome fields: written by the I/O thread before `state`
    #          leaves PENDING, constant after. `futures`, `awaited`: guarded by the result's stripe.
    int32_t refs
    int32_t state
    int32_t waiters             # atomic: threads blocked on this result
    int32_t urgent              # atomic: somebody waits, linger no longer
    int32_t sent                # atomic: drained at least once
    int32_t error_code          # ERR_NONE, a Kafka code, or a LocalError
    int32_t partition
    void* origin                # borrowed; whose batch it is, for who urges or drives; NULL: no
    # batch's, nobody drives it; constant
    void* batch                 # borrowed; its ProducerBatch while that waits and has never left,
    # so that records can be taken back, then NULL; guarded by the lock of its queue
    uint32_t count              # records, also those that were taken back
    IndexSet removed            # those; constant without `batch`, before that: guarded by the GIL
    # and the lock of its queue
    int32_t parted              # atomic: records that have an outcome of their own; it changes
    # under the stripe
    uint32_t fork_epoch         # the process generation that made it
    int64_t base_offset         # -1: unknown
    int64_t log_append_ms       # -1: CreateTime
    int64_t detail              # a number for the error's text, and the limit it met
    int64_t limit
    int32_t attempts            # how often the batch was sent
    int32_t last_code           # of an expired batch: a Kafka code, a WaitReason, or 0
    int64_t base_sequence
    char* message               # owned; the broker's text, or NULL
    RecordError* record_errors  # owned
    int32_t record_error_count
    uint32_t child_count        # after a split: records child_first[i].. are children[i]
    uint32_t* child_first       # owned
    Result** children           # owned references
    AttachedFuture* futures     # owned; futures with callbacks, in order of attachment
    uint32_t future_count
    uint32_t future_capacity
    LoopItem* awaited           # owned; who awaits it, an item for each event loop
    size_t held_bytes           # of the pool: its batch's, kept until the callbacks have run
    Result* next_ready          # completion queue
    Incomplete* incomplete      # the list it is on, or NULL
    Result* older
    Result* newer
    uint64_t number             # place in the order of creation

# `origin` is the result's. Never blocks, never takes the GIL.
ctypedef void (*Urge)(void* argument, void* origin) noexcept nogil
# Take records back whose batch has not left, all or none; False: too late. Never takes the GIL.
ctypedef bint (*TakeBack)(
    void* argument, Result* result, const uint32_t* indexes, uint32_t count) noexcept nogil

# Do the I/O thread's work for `result`, as far as that can be, until it is complete or
# `deadline_ns`. May block, never takes the GIL.
ctypedef void (*Drive)(void* argument, Result* result, int64_t deadline_ns) noexcept nogil

cdef struct Incomplete:
    # Every result from the creation of its batch to its completion, callbacks included, in order
    # of creation (contract P-D.1.2, P-D.10.5), and the completion queue.
    #
    # OWNER    the Accumulator.   THREADS any; guarded by `lock`.
    fp_mutex lock
    fp_cond changed             # a result left the list
    fp_cond ready               # the completion queue is not empty, or closed
    Result* oldest
    Result* newest
    uint64_t next_number
    int64_t batch_count
    Result* ready_head
    Result* ready_tail
    LoopItem* flushes           # owned; await that all up to a number have left the list
    bint closed
    int32_t has_ready           # atomic hint
    BufferPool* pool            # borrowed, or NULL; `Result.held_bytes` are of it
    Urge urge                   # called when somebody starts to wait for a result not yet sent
    TakeBack take_back          # NULL: nothing can be
    void* argument              # of both
    int32_t has_missed          # atomic: a record has missed its deadline in this transaction
    Drive drive                 # or NULL
    void* drive_argument
    int32_t drivers             # atomic: threads in `drive`, for which the engine's end waits
    int ready_fd                # written when the queue becomes non-empty; -1: nobody asked

cdef void incomplete_init(Incomplete* list) noexcept nogil
cdef void incomplete_destroy(Incomplete* list) noexcept nogil
cdef void incomplete_close(Incomplete* list) noexcept nogil

# A pending result, on the list, with one reference for the batch; NULL: out of memory.
cdef Result* result_new(Incomplete* list, int32_t partition, void* origin) noexcept nogil
# A child takes the place of its parent in the order of creation.
cdef Result* result_new_child(Result* parent) noexcept nogil
# Take a result that nobody looks at off the list again.
cdef void result_abandon(Result* result) noexcept nogil
cdef void result_retain(Result* result) noexcept nogil
cdef void result_release(Result* result) noexcept nogil

# Publish the outcome that the caller has stored in the fields: wake waiters, or queue the
# callbacks, for which the pool counts `held_bytes` as taken until they have run. Returns False if
# it was complete already. Drops nothing.
cdef bint result_complete(Result* result) noexcept nogil

# The callbacks of a DELIVERING result have run: wake waiters, leave the list.
cdef void result_delivered(Result* result) noexcept nogil

# Attach `future` (a new reference that the caller gives) for record `index`. False: no longer
# pending, not taken.
cdef bint result_attach(Result* result, void* future, uint32_t index) noexcept nogil

# Have `awaiter` (a new reference that the caller gives) woken in the loop of `queue` once the
# result is DONE or SPLIT. Its place, for result_unawait; NO_PLACE: it is already; NO_ROOM: no
# memory; not taken then.
cdef int64_t result_await(Result* result, LoopQueue* queue, void* awaiter) noexcept nogil
# Whether it was still to be woken: then its reference is the caller's again.
cdef bint result_unawait(
    Result* result, LoopQueue* queue, uint32_t place, void* awaiter) noexcept nogil

# The batch was cut up: publish the children (ascending child_first), move the callbacks to them.
cdef void result_split(Result* result) noexcept nogil

# Block until DONE or SPLIT, a record parts, or the deadline. FP_OK or FP_TIMEDOUT. One that parts
# as this begins may be seen at the deadline only: callers look every 50 ms.
cdef FpStatus result_wait(Result* result, int64_t deadline_ns) noexcept nogil

# Send its batch and wait for the answer ourselves, if the I/O thread sleeps and nobody else does.
# Returns when the result is complete, at the deadline, or at once.
cdef void result_drive(Result* result, int64_t deadline_ns) noexcept nogil

# Somebody waits: linger no longer for its batch.
cdef void result_urge(Result* result) noexcept nogil

# Records that were taken back. The others keep their indexes, and get a place on the wire.
# Take these (ascending, all or none) out of their batch, if that has not left; False: too late, or
# no memory. Wakes who waits for it. Requires the GIL, without which the engine might end meanwhile.
cdef bint result_take_all_back(
    Result* result, const uint32_t* indexes, uint32_t count) noexcept nogil
# A copy of `futures`, the caller's to free; NULL: there are none (0), or no memory.
cdef AttachedFuture* result_attached(Result* result, uint32_t* count) noexcept nogil
# The record misses its deadline, and its transaction is not to be committed; NULL: its outcome is
# known. Sets *result to the child that it is in. Requires the GIL, without which the engine might
# end meanwhile.
cdef Incomplete* result_miss(Result** result, uint32_t index) noexcept nogil
# The outcome of one record of `result` that does not share its batch's. Takes over a reference to
# `result`, for which somebody may still wait. It is DONE, or with a `list` on that, and pending.
# NULL: no memory.
cdef Result* result_new_apart(Result* result, int32_t code, Incomplete* list) noexcept nogil
# One of its records has an outcome of its own: wake who waits for that one.
cdef void result_part(Result* result) noexcept nogil

# Take the whole completion queue (linked by next_ready, one reference each) or NULL.
cdef Result* incomplete_take_ready(Incomplete* list, int64_t deadline_ns) noexcept nogil

# Whether every result numbered <= `number` has left the list.
cdef bint incomplete_is_flushed(Incomplete* list, uint64_t number) noexcept nogil
# Block until it has.
cdef FpStatus incomplete_wait(Incomplete* list, uint64_t number, int64_t deadline_ns) noexcept nogil
# Have `item` pushed once they have; False: they have already. Takes it over if it is to come.
cdef bint incomplete_await(Incomplete* list, uint64_t number, LoopItem* item) noexcept nogil
# Whether it was still to come: then it is the caller's again.
cdef bint incomplete_unawait(Incomplete* list, LoopItem* item) noexcept nogil
cdef uint64_t incomplete_last_number(Incomplete* list) noexcept nogil

# Records and batches on the list now.
cdef int64_t incomplete_record_count(Incomplete* list, uint64_t up_to_number) noexcept nogil

# The result that holds record `index` after splits; *index becomes its index there, and its place
# on the wire once that is no longer pending.
cdef Result* result_resolve(Result* result, uint32_t* index) noexcept nogil

cdef uint32_t fork_epoch() noexcept nogil
cdef void after_fork_in_child() noexcept nogil

ctypedef int (*Comparison)(const void* left, const void* right) noexcept nogil
# Of two AttachedFutures: by record; those of one record as they were attached.
cdef int compare_futures(const void* left, const void* right) noexcept nogil
# In the order in which their callbacks run, which is that of compare_futures.
cdef void sort_futures(
    AttachedFuture* futures, uint32_t count, Comparison compare) noexcept nogil


cdef inline bint result_take_back(Result* result, uint32_t index) noexcept nogil:
    return result_take_all_back(result, &index, 1)


# The place of record `index` among those that leave. Requires: constant.
cdef inline uint32_t result_place(Result* result, uint32_t index) noexcept nogil:
    return index - index_set_rank(&result.removed, index)


# Records that were not taken back.
cdef inline uint32_t result_live_count(Result* result) noexcept nogil:
    return <uint32_t>fp_load_i32_acq(<int32_t*>&result.count) - result.removed.count


# The list that it is on; NULL once it is done.
cdef inline Incomplete* result_list(Result* result) noexcept nogil:
    return <Incomplete*>fp_load_ptr(<void**>&result.incomplete)


# Whether it waits in a queue: records of it can be taken back.
cdef inline bint result_is_queued(Result* result) noexcept nogil:
    return fp_load_ptr(&result.batch) != NULL
