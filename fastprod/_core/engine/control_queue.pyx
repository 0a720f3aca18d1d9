"""Moves events between the I/O thread and the control thread, in order."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from collections import namedtuple

from fastprod._core.bytes.sync cimport (
    fp_cond_destroy, fp_cond_init, fp_cond_signal, fp_cond_wait_until, fp_load_i32_acq,
    fp_mutex_destroy, fp_mutex_init, fp_mutex_lock, fp_mutex_unlock, fp_store_i32_rel,
)
from fastprod._core.io.layer cimport layer_release

ControlEvent = namedtuple(
    "ControlEvent",
    "kind slot token node_id topic partition leader_epoch port code item_count reason err bad_size "
    "timed_out fault expected got data tls_verify tls_reason",
    defaults=(-1, 0, -1, None, 0, -1, -1, 0, 0, 0, 0, 0, False, 0, 0, 0, None, 0, 0))


cdef void event_queue_init(EventQueue* queue) noexcept nogil:
    fp_mutex_init(&queue.lock)
    fp_cond_init(&queue.ready)
    queue.head = NULL
    queue.tail = NULL
    queue.count = 0


cdef void event_queue_destroy(EventQueue* queue) noexcept nogil:
    cdef Event* event
    while queue.head != NULL:
        event = queue.head
        queue.head = event.next
        event_free(event)
    fp_cond_destroy(&queue.ready)
    fp_mutex_destroy(&queue.lock)


cdef Event* event_new(
    int32_t kind, int32_t slot, const void* data, int64_t data_bytes
) noexcept nogil:
    cdef Event* event = <Event*>calloc(1, sizeof(Event))
    if event == NULL:
        return NULL
    event.kind = kind
    event.slot = slot
    event.data_bytes = data_bytes
    if data != NULL:
        event.data = <uint8_t*>malloc(data_bytes if data_bytes > 0 else 1)
        if event.data == NULL:
            free(event)
            return NULL
        memcpy(event.data, data, data_bytes)
    return event


cdef void event_free(Event* event) noexcept nogil:
    if event != NULL:
        layer_release(event.tls)
        layer_release(event.proxy)
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


cdef int32_t event_next_kind(EventQueue* queue) noexcept nogil:
    cdef int32_t kind = 0
    if fp_load_i32_acq(&queue.count) > 0:
        fp_mutex_lock(&queue.lock)
        if queue.head != NULL:
            kind = queue.head.kind
        fp_mutex_unlock(&queue.lock)
    return kind


cdef Event* event_take(EventQueue* queue, int64_t deadline_ns) noexcept nogil:
    cdef Event* event
    if deadline_ns == 0 and fp_load_i32_acq(&queue.count) == 0:
        return NULL
    fp_mutex_lock(&queue.lock)
    while queue.head == NULL and deadline_ns != 0:
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
