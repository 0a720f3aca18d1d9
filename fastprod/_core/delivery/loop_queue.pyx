"""Tells event loops what they have to wake, without the interpreter."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free, realloc

from fastprod._core.bytes.sync cimport (
    fp_add_i32, fp_mutex_destroy, fp_mutex_init, fp_mutex_lock, fp_mutex_unlock, fp_wake_clear,
    fp_wake_close, fp_wake_open, fp_wake_signal,
)


cdef LoopQueue* loop_queue_new() noexcept nogil:
    cdef LoopQueue* queue = <LoopQueue*>calloc(1, sizeof(LoopQueue))
    if queue == NULL:
        return NULL
    if fp_wake_open(&queue.wake) != 0:
        free(queue)
        return NULL
    queue.refs = 1
    fp_mutex_init(&queue.lock)
    fp_mutex_init(&queue.wake_lock)
    return queue


cdef void loop_queue_release(LoopQueue* queue) noexcept nogil:
    if fp_add_i32(&queue.refs, -1) > 0:
        return
    fp_wake_close(&queue.wake)
    fp_mutex_destroy(&queue.wake_lock)
    fp_mutex_destroy(&queue.lock)
    free(queue)


cdef void loop_queue_push(LoopItem* item) noexcept nogil:
    cdef LoopQueue* queue = item.queue
    fp_add_i32(&queue.refs, 1)      # who wakes up may drop all others before the write is over
    item.next = NULL
    fp_mutex_lock(&queue.lock)
    if queue.tail == NULL:
        queue.head = item
    else:
        queue.tail.next = item
    queue.tail = item
    _unlock_and_signal(queue)
    loop_queue_release(queue)


cdef void loop_queue_signal(LoopQueue* queue) noexcept nogil:
    fp_mutex_lock(&queue.lock)
    _unlock_and_signal(queue)


cdef inline void _unlock_and_signal(LoopQueue* queue) noexcept nogil:
    cdef bint signals = not queue.is_signalled
    queue.is_signalled = True
    fp_mutex_unlock(&queue.lock)
    if signals:     # not under `lock`, which the loop needs as soon as it wakes up
        fp_mutex_lock(&queue.wake_lock)
        if queue.wake.write_fd >= 0:
            fp_wake_signal(&queue.wake)
        fp_mutex_unlock(&queue.wake_lock)


cdef LoopItem* loop_queue_take(LoopQueue* queue) noexcept nogil:
    """A push that has set `is_signalled` and not written yet writes later: then the loop comes once
    for nothing."""
    cdef LoopItem* head
    if queue.wake.read_fd >= 0:
        fp_wake_clear(&queue.wake)
    fp_mutex_lock(&queue.lock)
    queue.is_signalled = False
    head = queue.head
    queue.head = NULL
    queue.tail = NULL
    fp_mutex_unlock(&queue.lock)
    return head


cdef void loop_queue_close(LoopQueue* queue) noexcept nogil:
    fp_mutex_lock(&queue.wake_lock)
    fp_wake_close(&queue.wake)
    fp_mutex_unlock(&queue.wake_lock)


cdef void loop_queue_abandon(LoopQueue* queue) noexcept nogil:
    fp_mutex_init(&queue.lock)
    fp_mutex_init(&queue.wake_lock)
    queue.head = NULL
    queue.tail = NULL
    fp_wake_close(&queue.wake)


cdef LoopItem* loop_item_new(LoopQueue* queue) noexcept nogil:
    cdef LoopItem* item = <LoopItem*>calloc(1, sizeof(LoopItem))
    if item != NULL:
        fp_add_i32(&queue.refs, 1)
        item.queue = queue
    return item


cdef void loop_item_free(LoopItem* item) noexcept nogil:
    loop_queue_release(item.queue)
    free(item.awaiters)
    free(item)


cdef int64_t loop_item_add(LoopItem* item, void* awaiter) noexcept nogil:
    cdef uint32_t capacity
    cdef void** grown
    if item.count == item.capacity:
        capacity = max(<uint32_t>4, item.capacity * 2)
        grown = <void**>realloc(item.awaiters, capacity * sizeof(void*))
        if grown == NULL:
            return -1
        item.awaiters = grown
        item.capacity = capacity
    item.awaiters[item.count] = awaiter
    item.count += 1
    return item.count - 1


cdef bint loop_item_remove(LoopItem* item, uint32_t place, void* awaiter) noexcept nogil:
    if place >= item.count or item.awaiters[place] != awaiter:
        return False
    item.awaiters[place] = NULL
    while item.count > 0 and item.awaiters[item.count - 1] == NULL:
        item.count -= 1     # who waits again and again with time-outs uses the same place
    return True
