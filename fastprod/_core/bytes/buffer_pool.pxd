"""BufferPool: one arena, cut into slabs, with a hard bound and FIFO waiters (contract P-D.3).

A request is a number of bytes and is answered with a chain of slabs of any mix of the two sizes.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport WakeUp, fp_cond, fp_mutex

cdef enum:
    # Five thousand topics in turn have ten thousand batches of one of these: 20 MiB of 32.
    SMALL_BYTES = 2048
    BIG_BYTES = 32768
    SMALLS_PER_BLOCK = 16
    MOST_IN_SMALL = 2 * SMALL_BYTES     # bytes of one request; a larger one has big slabs

cdef struct Waiter:
    # One caller in line: blocked, and then it lives on the stack; or to be notified.
    # OWNER the caller. BORROWED by BufferPool.first_waiter..last_waiter while `queued`.
    # THREADS guarded by BufferPool.lock.
    fp_cond cond
    size_t want_bytes       # capacity asked for
    int64_t counted_ns      # until when its time in line is in `wait_ns_total`
    Slab* chain             # what it was given; owned
    bint is_delivery        # the thread that runs the callbacks
    bint queued
    bint closed             # the pool closed while waiting
    WakeUp notify           # called, under the lock, instead of `cond`; NULL: somebody is blocked
    void* argument
    Waiter* before          # in line; NULL: it is the first
    Waiter* next

cdef struct BufferPool:
    # OWNER the Accumulator.  FREED BY pool_destroy.
    # THREADS any; `lock` guards everything below it. Lock order: Partition.lock, then this one.
    size_t total_bytes          # usable bytes of the arena; constant
    uint32_t block_count        # whole blocks; constant
    uint32_t tail_count         # small slabs behind the last whole block; constant
    uint8_t* arena              # owned; mmap'ed, touched only when used
    size_t arena_bytes
    Slab* big                   # owned; one per block
    Slab* small                 # owned; SMALLS_PER_BLOCK per block, then the tail
    uint8_t* smalls_out         # owned; per block: small slabs not on the free list
    uint8_t* is_split           # owned; per block: cut into small slabs
    int32_t waiting             # atomic: callers in line ("exhausted", P-D.3.8)
    fp_mutex lock
    uint32_t fresh              # first block never used yet
    Slab* free_big              # LIFO: the warmest first
    Slab* free_small
    size_t free_bytes
    size_t callback_bytes       # of the free ones: counted as taken until callbacks have run
    size_t lent_bytes           # of the free ones: counted as taken by values that are lent
    Waiter* first_waiter
    Waiter* last_waiter
    bint closed
    int64_t wait_ns_total       # metric: nanoseconds callers were blocked
    int64_t exhausted_total     # metric: waits that timed out
    int64_t heap_bytes          # bytes now out in SLAB_HEAP slabs

cdef FpStatus pool_init(BufferPool* pool, size_t total_bytes) noexcept nogil
cdef void pool_destroy(BufferPool* pool) noexcept nogil
# Give the arena's pages to the system: nobody reads or writes a slab any more.
cdef void pool_empty(BufferPool* pool) noexcept nogil

# A chain with room for at least `need_bytes`. `prefer_big`: the caller expects more to come.
# FP_EXHAUSTED: not now, or others are in line; FP_TOO_LARGE: more than the pool has; FP_CLOSED.
cdef FpStatus pool_take(
    BufferPool* pool, size_t need_bytes, bint prefer_big, Slab** chain) noexcept nogil

# Give back a whole chain, in any order, slabs of any kind.
cdef void pool_give(BufferPool* pool, Slab* chain) noexcept nogil

# A value of `size` bytes is lent to a batch, not copied: they count as taken until its slab is
# given back. `excess`: the slabs that are not needed now; taken back.
cdef void pool_lend(BufferPool* pool, size_t size, Slab* excess) noexcept nogil

# As pool_take, but get in line instead of FP_EXHAUSTED: returns FP_BLOCKED and `waiter` is queued.
# `is_delivery`: the caller runs the callbacks that others wait for. It goes before them, and past
# pool_hold, until as much again as the pool has waits for it: then FP_EXHAUSTED.
cdef FpStatus pool_queue(
    BufferPool* pool, Waiter* waiter, size_t need_bytes, bint is_delivery,
    Slab** chain) noexcept nogil

# As pool_queue for a caller that does not block: `notify` is called once it is out of line again,
# by whoever gives memory back or closes the pool; pool_cancel then has what pool_wait would say.
cdef FpStatus pool_queue_notified(
    BufferPool* pool, Waiter* waiter, size_t need_bytes, WakeUp notify, void* argument,
    Slab** chain) noexcept nogil

# Wait in line until `deadline_ns`: FP_OK and the chain; FP_BLOCKED: not yet, still in line;
# FP_CLOSED: out of line, nothing held.
cdef FpStatus pool_wait(
    BufferPool* pool, Waiter* waiter, int64_t deadline_ns, Slab** chain) noexcept nogil

# Leave the line (time-out, signal): memory that is there goes to the next.
# If the memory arrived meanwhile: FP_OK and the chain.
cdef FpStatus pool_cancel(
    BufferPool* pool, Waiter* waiter, bint timed_out, Slab** chain) noexcept nogil

# So many bytes, whose slabs go back, count as taken until their records' callbacks have run.
cdef void pool_hold(BufferPool* pool, size_t size) noexcept nogil
cdef void pool_let_go(BufferPool* pool, size_t size) noexcept nogil

cdef void pool_close(BufferPool* pool) noexcept nogil
# Bytes that nobody has, by slabs or lent values; and how many of them wait for callbacks.
cdef size_t pool_free_bytes(BufferPool* pool) noexcept nogil
cdef size_t pool_callback_bytes(BufferPool* pool) noexcept nogil

# A heap slab of at least `size` bytes (split children, overflow of a seal), or NULL.
cdef Slab* slab_from_heap(BufferPool* pool, size_t size) noexcept nogil
