"""Doors to the small parts of the engine: timers, figures, events, the sticky partitioner."""
from libc.stdint cimport UINT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from fastprod._core.bytes.sync cimport fp_load_i32_acq, fp_mutex_lock, fp_mutex_unlock, fp_now_ns
from fastprod._core.delivery.result cimport incomplete_record_count
from fastprod._core.engine.control_queue cimport (
    Event, EventQueue, event_free, event_new, event_push, event_queue_destroy, event_queue_init,
    event_take,
)
from fastprod._core.engine.engine cimport Engine
from fastprod._core.engine.histogram cimport (
    Histogram, copy_histogram, histogram_add, raise_maximum, take_maximum,
)
from fastprod._core.engine.sticky_partitioner cimport (
    StickyPartitioner, sticky_current, sticky_destroy, sticky_init, sticky_produced,
    sticky_set_load, sticky_set_partitions,
)
from fastprod._core.engine.timer_heap cimport (
    Timer, TimerHeap, timer_clear, timer_next_ns, timer_pop_due, timer_set,
)


def incomplete_for_test(Engine engine):
    cdef int64_t batches
    fp_mutex_lock(&engine.accumulator.incomplete.lock)
    batches = engine.accumulator.incomplete.batch_count
    fp_mutex_unlock(&engine.accumulator.incomplete.lock)
    return batches, incomplete_record_count(&engine.accumulator.incomplete, UINT64_MAX)


cdef class TimersForTest:
    """See the .pyi."""

    cdef TimerHeap heap
    cdef Timer* timers
    cdef readonly int count

    def __cinit__(self, int count):
        self.timers = <Timer*>calloc(count, sizeof(Timer))
        if self.timers == NULL:
            raise MemoryError
        self.count = count

    def __dealloc__(self):
        free(self.timers)

    cdef Timer* _at(self, int number) except NULL:
        if not 0 <= number < self.count:
            raise IndexError(number)
        return &self.timers[number]

    def set(self, int number, int64_t due_ns):
        timer_set(&self.heap, self._at(number), due_ns)

    def clear(self, int number):
        timer_clear(&self.heap, self._at(number))

    def next_ns(self):
        return None if self.heap.root == NULL else timer_next_ns(&self.heap)

    def pop_due(self, int64_t now_ns):
        cdef Timer* timer = timer_pop_due(&self.heap, now_ns)
        return None if timer == NULL else timer - self.timers


def histogram_for_test(times_ns, int64_t weight=1, largest_ns=None):
    cdef Histogram histogram
    memset(&histogram, 0, sizeof(Histogram))
    for ns in times_ns:
        histogram_add(&histogram, ns, weight)
    if largest_ns is not None:
        histogram.largest_ns = largest_ns
    return copy_histogram(&histogram, False)


def maxima_for_test(values, int64_t take_every):
    """Raise one maximum by `values` in turn; what taking it after every so many gives."""
    cdef int64_t maximum = 0
    taken = []
    for i, value in enumerate(values, 1):
        raise_maximum(&maximum, value)
        if i % take_every == 0:
            taken.append((take_maximum(&maximum, False), take_maximum(&maximum, True), maximum))
    return taken


cdef class EventQueueForTest:
    """See the .pyi."""

    cdef EventQueue queue

    def __cinit__(self):
        event_queue_init(&self.queue)

    def __dealloc__(self):
        event_queue_destroy(&self.queue)

    def push(self, int kind, int slot=-1, int64_t token=0, bytes data=None):
        cdef const uint8_t* start = NULL
        cdef Event* event
        if data is not None:
            start = data
        event = event_new(kind, slot, start, 0 if data is None else len(data))
        if event == NULL:
            raise MemoryError
        event.token = token
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
        data = None if event.data == NULL else (<const char*>event.data)[:event.data_bytes]
        taken = (event.kind, event.slot, event.token, data)
        event_free(event)
        return taken

    @property
    def count(self):
        return fp_load_i32_acq(&self.queue.count)


cdef class StickyPartitionerForTest:
    """See the .pyi."""

    cdef StickyPartitioner sticky

    def __cinit__(self, limit_bytes, has_leader, uint64_t seed=1):
        sticky_init(&self.sticky, limit_bytes, seed)
        self.set_partitions(has_leader)

    def __dealloc__(self):
        sticky_destroy(&self.sticky)

    def set_partitions(self, has_leader):
        cdef int32_t count = len(has_leader)
        cdef int32_t* flags = <int32_t*>malloc((count + 1) * sizeof(int32_t))
        for i in range(count):
            flags[i] = bool(has_leader[i])
        sticky_set_partitions(&self.sticky, flags, count)
        free(flags)

    def set_load(self, queues, nothing_excluded=True):
        cdef int32_t count = len(queues)
        cdef int32_t* numbers = <int32_t*>malloc((2 * count + 1) * sizeof(int32_t))
        for i, (partition, length) in enumerate(queues.items()):
            numbers[i] = partition
            numbers[count + i] = length
        sticky_set_load(&self.sticky, numbers, numbers + count, count, nothing_excluded)
        free(numbers)

    def cumulative(self):
        return [self.sticky.table_cumulative[i] for i in range(self.sticky.table_count)]

    def script(self, int64_t number):
        self.sticky.scripted = number

    @property
    def scripted(self):
        return None if self.sticky.scripted < 0 else self.sticky.scripted

    @property
    def produced_bytes(self):
        return self.sticky.produced_bytes

    def current(self):
        return sticky_current(&self.sticky)

    def produced(self, int64_t size_bytes, bint may_switch=True):
        sticky_produced(&self.sticky, self.sticky.partition, size_bytes, may_switch)
