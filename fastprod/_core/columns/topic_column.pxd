"""TopicColumn: the topic of each row, by number; each distinct name once."""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from fastprod._core.columns.column cimport Column

cdef struct TopicName:
    # BORROWS from the column.
    const uint8_t* at
    int64_t size
    uint32_t hashed


cdef class TopicColumn:
    # Threads: one at a time.
    cdef uint32_t* topic_slots        # owned; by row: its topic's number
    cdef int64_t count
    cdef TopicName* names       # owned; by number
    cdef uint32_t name_count
    cdef uint32_t* slots        # owned; open hashing: 1 + number, 0: free
    cdef uint32_t slot_count    # a power of two
    cdef list topics            # names as str, by number

    # 1 + the number of a name, made if it is new; 0: no memory.
    cdef uint32_t _find(self, const uint8_t* at, int64_t size) noexcept nogil
    cdef bint _grow(self) noexcept nogil
    cdef int64_t _read(self, Column column) noexcept nogil

# Raises ValueError where a row's topic is null or no text.
cdef TopicColumn read_topics(Column column)
