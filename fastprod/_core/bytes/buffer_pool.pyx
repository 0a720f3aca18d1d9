"""Hands out slabs of a bounded arena, in the order of asking."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport abort, calloc, free, malloc
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED, FP_CLOSED, FP_EXHAUSTED, FP_NOMEM, FP_OK, FP_TOO_LARGE, FpStatus,
)
from fastprod._core.bytes.lent_value cimport lent_return
from fastprod._core.bytes.slab cimport SLAB_BIG, SLAB_HEAP, SLAB_LENT, SLAB_REST, SLAB_SMALL
from fastprod._core.bytes.sync cimport (
    WakeUp, fp_add_i32, fp_add_i64, fp_cond_destroy, fp_cond_init, fp_cond_signal,
    fp_cond_wait_until, fp_mutex_destroy, fp_mutex_init, fp_mutex_lock, fp_mutex_unlock,
    fp_now_ns,
)

cdef extern from "sys/mman.h" nogil:
    enum:
        PROT_READ
        PROT_WRITE
        MAP_PRIVATE
        MAP_ANONYMOUS
        MAP_NORESERVE
        MADV_DONTNEED
    void* MAP_FAILED
    void* mmap(void* address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void* address, size_t length)
    int madvise(void* address, size_t length, int advice)


cdef FpStatus pool_init(BufferPool* pool, size_t total_bytes) noexcept nogil:
    memset(pool, 0, sizeof(BufferPool))
    fp_mutex_init(&pool.lock)
    pool.block_count = <uint32_t>(total_bytes // BIG_BYTES)
    pool.tail_count = <uint32_t>((total_bytes % BIG_BYTES) // SMALL_BYTES)
    pool.total_bytes = <size_t>pool.block_count * BIG_BYTES + <size_t>pool.tail_count * SMALL_BYTES
    pool.arena_bytes = pool.total_bytes
    pool.free_bytes = pool.total_bytes
    if pool.total_bytes == 0:
        return FP_OK
    # Without MAP_NORESERVE a machine with less memory than this refuses what is never touched.
    pool.arena = <uint8_t*>mmap(
        NULL, pool.arena_bytes, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if <void*>pool.arena == MAP_FAILED:
        pool.arena = NULL
        return FP_NOMEM
    pool.big = <Slab*>calloc(pool.block_count + 1, sizeof(Slab))
    pool.small = <Slab*>calloc(
        <size_t>pool.block_count * SMALLS_PER_BLOCK + pool.tail_count + 1, sizeof(Slab))
    pool.smalls_out = <uint8_t*>calloc(pool.block_count + 1, 1)
    pool.is_split = <uint8_t*>calloc(pool.block_count + 1, 1)
    if not (pool.big and pool.small and pool.smalls_out and pool.is_split):
        return FP_NOMEM
    _add_tail(pool)
    return FP_OK


cdef void _add_tail(BufferPool* pool) noexcept nogil:
    """Put the small slabs behind the last whole block on the free list; they never merge."""
    cdef uint32_t i
    cdef Slab* slab
    cdef size_t first = <size_t>pool.block_count * SMALLS_PER_BLOCK
    for i in range(pool.tail_count):
        slab = &pool.small[first + i]
        slab.base = pool.arena + (first + i) * SMALL_BYTES
        slab.size = SMALL_BYTES
        slab.kind = SLAB_SMALL
        slab.block = pool.block_count
        _push_small(pool, slab)


cdef void pool_destroy(BufferPool* pool) noexcept nogil:
    if pool.arena != NULL:
        munmap(pool.arena, pool.arena_bytes)
    free(pool.big)
    free(pool.small)
    free(pool.smalls_out)
    free(pool.is_split)
    pool.arena = NULL
    pool.big = NULL
    pool.small = NULL
    pool.smalls_out = NULL
    pool.is_split = NULL
    fp_mutex_destroy(&pool.lock)


cdef void pool_empty(BufferPool* pool) noexcept nogil:
    if pool.arena != NULL:
        madvise(pool.arena, pool.arena_bytes, MADV_DONTNEED)


cdef void _push_small(BufferPool* pool, Slab* slab) noexcept nogil:
    slab.prev = NULL
    slab.next = pool.free_small
    if pool.free_small != NULL:
        pool.free_small.prev = slab
    pool.free_small = slab


cdef void _unlink_small(BufferPool* pool, Slab* slab) noexcept nogil:
    if slab.prev != NULL:
        slab.prev.next = slab.next
    else:
        pool.free_small = slab.next
    if slab.next != NULL:
        slab.next.prev = slab.prev
    slab.prev = NULL
    slab.next = NULL


cdef Slab* _pop_big(BufferPool* pool) noexcept nogil:
    """A whole block, warm ones before fresh ones; NULL if none is whole."""
    cdef Slab* slab = pool.free_big
    if slab != NULL:
        pool.free_big = slab.next
    elif pool.fresh < pool.block_count:
        slab = &pool.big[pool.fresh]
        slab.base = pool.arena + <size_t>pool.fresh * BIG_BYTES
        slab.size = BIG_BYTES
        slab.kind = SLAB_BIG
        slab.block = pool.fresh
        pool.fresh += 1
    else:
        return NULL
    slab.next = NULL
    return slab


cdef Slab* _pop_small(BufferPool* pool) noexcept nogil:
    """A small slab, cutting up a block if none is there; NULL if the pool is empty."""
    cdef Slab* slab = pool.free_small
    cdef Slab* block
    cdef uint32_t i
    cdef Slab* piece
    if slab == NULL:
        block = _pop_big(pool)
        if block == NULL:
            return NULL
        pool.is_split[block.block] = 1
        for i in range(SMALLS_PER_BLOCK):
            piece = &pool.small[<size_t>block.block * SMALLS_PER_BLOCK + i]
            piece.base = block.base + i * SMALL_BYTES
            piece.size = SMALL_BYTES
            piece.kind = SLAB_SMALL
            piece.block = block.block
            _push_small(pool, piece)
        slab = pool.free_small
    _unlink_small(pool, slab)
    if slab.block < pool.block_count:
        pool.smalls_out[slab.block] += 1
    return slab


cdef Slab* _pop(BufferPool* pool, size_t need_bytes, bint prefer_big) noexcept nogil:
    """One slab off the free lists, of the size that suits `need_bytes`; NULL if none is left."""
    cdef Slab* slab = NULL
    if prefer_big or need_bytes > MOST_IN_SMALL:
        slab = _pop_big(pool)
    if slab == NULL:
        slab = _pop_small(pool)
    if slab != NULL:
        pool.free_bytes -= slab.size
        slab.used = 0
        slab.is_out = 1
        slab.next = NULL
    return slab


cdef void _gather(
    BufferPool* pool, size_t need_bytes, bint prefer_big, Slab** chain
) noexcept nogil:
    """Make a chain with room for `need_bytes`. Requires: there are so many free."""
    cdef Slab* slab
    while need_bytes > 0:
        slab = _pop(pool, need_bytes, prefer_big)
        chain[0] = slab
        chain = &slab.next
        need_bytes -= min(need_bytes, <size_t>slab.size)


cdef inline bint _is_there(BufferPool* pool, size_t need_bytes, bint is_delivery) noexcept nogil:
    """What waits for callbacks counts as taken, but not to the thread that runs them."""
    need_bytes += pool.lent_bytes + (0 if is_delivery else pool.callback_bytes)
    return need_bytes <= pool.free_bytes


cdef FpStatus pool_take(
    BufferPool* pool, size_t need_bytes, bint prefer_big, Slab** chain
) noexcept nogil:
    chain[0] = NULL
    if need_bytes > pool.total_bytes:
        return FP_TOO_LARGE
    fp_mutex_lock(&pool.lock)
    if pool.closed:
        fp_mutex_unlock(&pool.lock)
        return FP_CLOSED
    if pool.first_waiter != NULL or not _is_there(pool, need_bytes, False):
        fp_mutex_unlock(&pool.lock)
        return FP_EXHAUSTED
    _gather(pool, need_bytes, prefer_big, chain)
    fp_mutex_unlock(&pool.lock)
    return FP_OK


cdef void _put(BufferPool* pool, Slab* slab) noexcept nogil:
    """Put one slab on its free list; eight free small ones become a block again."""
    cdef uint32_t i
    cdef Slab* block
    pool.free_bytes += slab.size
    if slab.kind == SLAB_BIG:
        slab.next = pool.free_big
        pool.free_big = slab
        return
    _push_small(pool, slab)
    if slab.block >= pool.block_count:
        return
    pool.smalls_out[slab.block] -= 1
    if pool.smalls_out[slab.block] == 0:
        for i in range(SMALLS_PER_BLOCK):
            _unlink_small(pool, &pool.small[<size_t>slab.block * SMALLS_PER_BLOCK + i])
        pool.is_split[slab.block] = 0
        block = &pool.big[slab.block]
        block.next = pool.free_big
        pool.free_big = block


cdef void pool_give(BufferPool* pool, Slab* chain) noexcept nogil:
    if chain == NULL:
        return
    fp_mutex_lock(&pool.lock)
    _give(pool, chain)
    _serve(pool)
    fp_mutex_unlock(&pool.lock)


cdef void _give(BufferPool* pool, Slab* chain) noexcept nogil:
    cdef Slab* slab
    while chain != NULL:
        slab = chain
        chain = slab.next
        if not slab.is_out:
            abort()     # handed out twice or given back twice: stop before records get mixed up
        slab.is_out = 0
        if slab.kind == SLAB_HEAP:
            pool.heap_bytes -= slab.size
            free(slab)
        elif slab.kind == SLAB_LENT:
            pool.lent_bytes -= slab.size
            lent_return(slab)
        elif slab.kind == SLAB_REST:
            free(slab)
        else:
            _put(pool, slab)


cdef void pool_lend(BufferPool* pool, size_t size, Slab* excess) noexcept nogil:
    fp_mutex_lock(&pool.lock)
    pool.lent_bytes += size
    _give(pool, excess)
    _serve(pool)
    fp_mutex_unlock(&pool.lock)


cdef void _serve(BufferPool* pool) noexcept nogil:
    """Free memory is kept for the first in line until there is enough for it (P-D.3.3)."""
    cdef Waiter* waiter
    while pool.first_waiter != NULL:
        waiter = pool.first_waiter
        if not _is_there(pool, waiter.want_bytes, waiter.is_delivery):
            return
        _gather(pool, waiter.want_bytes, False, &waiter.chain)
        _leave(pool, waiter)
        _tell(waiter)


cdef void _tell(Waiter* waiter) noexcept nogil:
    """It is out of line."""
    if waiter.notify != NULL:
        waiter.notify(waiter.argument)
    else:
        fp_cond_signal(&waiter.cond)


cdef void _leave(BufferPool* pool, Waiter* waiter) noexcept nogil:
    if waiter.before == NULL:
        pool.first_waiter = waiter.next
    else:
        waiter.before.next = waiter.next
    if waiter.next == NULL:
        pool.last_waiter = waiter.before
    else:
        waiter.next.before = waiter.before
    waiter.before = NULL
    waiter.next = NULL
    waiter.queued = False
    fp_add_i32(&pool.waiting, -1)


cdef void _enter(BufferPool* pool, Waiter* waiter) noexcept nogil:
    """At the end of the line; who runs the callbacks that the line waits for: before it."""
    waiter.queued = True
    if pool.first_waiter == NULL:
        pool.first_waiter = waiter
        pool.last_waiter = waiter
    elif waiter.is_delivery:
        waiter.next = pool.first_waiter
        waiter.next.before = waiter
        pool.first_waiter = waiter
    else:
        waiter.before = pool.last_waiter
        pool.last_waiter.next = waiter
        pool.last_waiter = waiter
    fp_add_i32(&pool.waiting, 1)


cdef FpStatus pool_queue(
    BufferPool* pool, Waiter* waiter, size_t need_bytes, bint is_delivery, Slab** chain
) noexcept nogil:
    return _queue(pool, waiter, need_bytes, is_delivery, NULL, NULL, chain)


cdef FpStatus pool_queue_notified(
    BufferPool* pool, Waiter* waiter, size_t need_bytes, WakeUp notify, void* argument,
    Slab** chain
) noexcept nogil:
    return _queue(pool, waiter, need_bytes, False, notify, argument, chain)


cdef FpStatus _queue(
    BufferPool* pool, Waiter* waiter, size_t need_bytes, bint is_delivery, WakeUp notify,
    void* argument, Slab** chain
) noexcept nogil:
    cdef FpStatus status = FP_OK
    chain[0] = NULL
    if need_bytes > pool.total_bytes:
        return FP_TOO_LARGE
    fp_mutex_lock(&pool.lock)
    if pool.closed:
        status = FP_CLOSED
    elif is_delivery and pool.callback_bytes + need_bytes > 2 * pool.total_bytes:
        status = FP_EXHAUSTED       # it would wait for itself
        pool.exhausted_total += 1
    elif (is_delivery or pool.first_waiter == NULL) and _is_there(pool, need_bytes, is_delivery):
        _gather(pool, need_bytes, False, chain)
    else:
        memset(waiter, 0, sizeof(Waiter))
        fp_cond_init(&waiter.cond)
        waiter.want_bytes = need_bytes
        waiter.counted_ns = fp_now_ns()
        waiter.is_delivery = is_delivery
        waiter.notify = notify
        waiter.argument = argument
        _enter(pool, waiter)
        status = FP_BLOCKED
    fp_mutex_unlock(&pool.lock)
    return status


cdef void pool_hold(BufferPool* pool, size_t size) noexcept nogil:
    fp_mutex_lock(&pool.lock)
    pool.callback_bytes += size
    fp_mutex_unlock(&pool.lock)


cdef void pool_let_go(BufferPool* pool, size_t size) noexcept nogil:
    fp_mutex_lock(&pool.lock)
    pool.callback_bytes -= size
    _serve(pool)
    fp_mutex_unlock(&pool.lock)


cdef FpStatus _finish(Waiter* waiter, Slab** chain) noexcept nogil:
    fp_cond_destroy(&waiter.cond)
    if waiter.closed:
        return FP_CLOSED
    chain[0] = waiter.chain
    waiter.chain = NULL
    return FP_OK


cdef FpStatus pool_wait(
    BufferPool* pool, Waiter* waiter, int64_t deadline_ns, Slab** chain
) noexcept nogil:
    cdef int64_t now_ns
    cdef bint queued
    fp_mutex_lock(&pool.lock)
    while waiter.queued:
        if fp_cond_wait_until(&waiter.cond, &pool.lock, deadline_ns):
            break
    queued = waiter.queued
    fp_mutex_unlock(&pool.lock)
    now_ns = fp_now_ns()
    fp_add_i64(&pool.wait_ns_total, now_ns - waiter.counted_ns)
    waiter.counted_ns = now_ns
    if queued:
        return FP_BLOCKED
    return _finish(waiter, chain)


cdef FpStatus pool_cancel(
    BufferPool* pool, Waiter* waiter, bint timed_out, Slab** chain
) noexcept nogil:
    fp_mutex_lock(&pool.lock)
    if not waiter.queued:
        fp_mutex_unlock(&pool.lock)
        return _finish(waiter, chain)
    _leave(pool, waiter)
    if timed_out:
        pool.exhausted_total += 1
    _serve(pool)    # the next in line may need less than this one did
    fp_mutex_unlock(&pool.lock)
    fp_cond_destroy(&waiter.cond)
    return FP_EXHAUSTED


cdef void pool_close(BufferPool* pool) noexcept nogil:
    cdef Waiter* waiter
    fp_mutex_lock(&pool.lock)
    pool.closed = True
    while pool.first_waiter != NULL:
        waiter = pool.first_waiter
        waiter.closed = True
        _leave(pool, waiter)
        _tell(waiter)
    fp_mutex_unlock(&pool.lock)


cdef size_t pool_free_bytes(BufferPool* pool) noexcept nogil:
    cdef size_t free_bytes
    fp_mutex_lock(&pool.lock)
    # A value may be counted as lent before the slabs that it takes the place of are back.
    free_bytes = pool.free_bytes - min(pool.free_bytes, pool.lent_bytes)
    fp_mutex_unlock(&pool.lock)
    return free_bytes


cdef size_t pool_callback_bytes(BufferPool* pool) noexcept nogil:
    cdef size_t callback_bytes
    fp_mutex_lock(&pool.lock)
    callback_bytes = pool.callback_bytes
    fp_mutex_unlock(&pool.lock)
    return callback_bytes


cdef Slab* slab_from_heap(BufferPool* pool, size_t size) noexcept nogil:
    cdef Slab* slab = <Slab*>malloc(sizeof(Slab) + size)
    if slab == NULL:
        return NULL
    memset(slab, 0, sizeof(Slab))
    slab.base = <uint8_t*>slab + sizeof(Slab)
    slab.size = <uint32_t>size
    slab.kind = SLAB_HEAP
    slab.is_out = 1
    fp_mutex_lock(&pool.lock)
    pool.heap_bytes += <int64_t>slab.size
    fp_mutex_unlock(&pool.lock)
    return slab
