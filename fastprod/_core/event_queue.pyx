"""Bodies of the event queues; the contract is in event_queue.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from fastprod._core.sync cimport (
    fp_cond_broadcast, fp_cond_destroy, fp_cond_init, fp_cond_signal, fp_cond_wait_until,
    fp_load_i32_acq, fp_mutex_destroy, fp_mutex_init, fp_mutex_lock, fp_mutex_unlock, fp_now_ns,
    fp_store_i32_rel,
)


cdef void event_queue_init(EventQueue* queue) noexcept nogil:
    fp_mutex_init(&queue.lock)
    fp_cond_init(&queue.ready)
    queue.head = NULL
    queue.tail = NULL
    queue.count = 0
    queue.closed = False


cdef void event_queue_destroy(EventQueue* queue) noexcept nogil:
    cdef Event* event
    while queue.head != NULL:
        event = queue.head
        queue.head = event.next
        event_free(event)
    fp_cond_destroy(&queue.ready)
    fp_mutex_destroy(&queue.lock)


cdef void event_queue_close(EventQueue* queue) noexcept nogil:
    fp_mutex_lock(&queue.lock)
    queue.closed = True
    fp_cond_broadcast(&queue.ready)
    fp_mutex_unlock(&queue.lock)


cdef Event* event_new(int32_t kind, int32_t slot, const void* data, int64_t size) noexcept nogil:
    cdef Event* event = <Event*>calloc(1, sizeof(Event))
    if event == NULL:
        return NULL
    event.kind = kind
    event.slot = slot
    event.size = size
    if data != NULL:
        event.data = <uint8_t*>malloc(size if size > 0 else 1)
        if event.data == NULL:
            free(event)
            return NULL
        memcpy(event.data, data, size)
    return event


cdef void event_free(Event* event) noexcept nogil:
    if event != NULL:
        free(event.data)
        free(event)


cdef void event_push(EventQueue* queue, Event* event) noexcept nogil:
    if event == NULL:
        return
    fp_mutex_lock(&queue.lock)
    event.next = NULL
    if queue.tail == NULL:
        queue.head = event
    else:
        queue.tail.next = event
    queue.tail = event
    fp_store_i32_rel(&queue.count, queue.count + 1)
    fp_cond_signal(&queue.ready)
    fp_mutex_unlock(&queue.lock)


cdef Event* event_take(EventQueue* queue, int64_t deadline_ns) noexcept nogil:
    cdef Event* event
    if deadline_ns == 0 and fp_load_i32_acq(&queue.count) == 0:
        return NULL
    fp_mutex_lock(&queue.lock)
    while queue.head == NULL and not queue.closed and deadline_ns != 0:
        if fp_cond_wait_until(&queue.ready, &queue.lock, deadline_ns):
            break
    event = queue.head
    if event != NULL:
        queue.head = event.next
        if queue.head == NULL:
            queue.tail = NULL
        fp_store_i32_rel(&queue.count, queue.count - 1)
        event.next = NULL
    fp_mutex_unlock(&queue.lock)
    return event


cdef class EventQueueForTest:
    """See the .pyi."""

    cdef EventQueue queue

    def __cinit__(self):
        event_queue_init(&self.queue)

    def __dealloc__(self):
        event_queue_destroy(&self.queue)

    def push(self, int kind, int slot=-1, numbers=(0, 0, 0, 0), bytes data=None):
        cdef const uint8_t* start = NULL
        cdef Event* event
        if data is not None:
            start = data
        event = event_new(kind, slot, start, 0 if data is None else len(data))
        if event == NULL:
            raise MemoryError
        event.a, event.b, event.c, event.d = numbers
        event_push(&self.queue, event)

    def push_nothing(self):
        event_push(&self.queue, NULL)

    def take(self, double timeout_ms=0):
        cdef int64_t deadline_ns = 0
        cdef Event* event
        if timeout_ms > 0:
            deadline_ns = fp_now_ns() + <int64_t>(timeout_ms * 1e6)
        with nogil:
            event = event_take(&self.queue, deadline_ns)
        if event == NULL:
            return None
        data = None if event.data == NULL else (<const char*>event.data)[:event.size]
        taken = (event.kind, event.slot, (event.a, event.b, event.c, event.d), data)
        event_free(event)
        return taken

    def close(self):
        event_queue_close(&self.queue)

    @property
    def count(self):
        return fp_load_i32_acq(&self.queue.count)
