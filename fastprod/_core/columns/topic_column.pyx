"""Numbers the topics of a column with a hash table of their names."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memset

from fastprod._core.bytes.murmur2 cimport murmur2
from fastprod._core.columns.column cimport (
    CELL_INDEXED, CellView, Column, cell_bytes, first_null, load_number,
)

cdef enum:
    NO_MEMORY = -1


cdef class TopicColumn:
    """The topic of each row. Native only."""

    def __dealloc__(self):
        free(self.topic_slots)
        free(self.names)
        free(self.slots)

    cdef uint32_t _find(self, const uint8_t* at, int64_t size) noexcept nogil:
        cdef uint32_t hashed = murmur2(at, size)
        cdef uint32_t slot
        cdef TopicName* name
        if self.name_count * 2 >= self.slot_count and not self._grow():
            return 0
        slot = hashed & (self.slot_count - 1)
        while self.slots[slot] != 0:
            name = &self.names[self.slots[slot] - 1]
            if name.hashed == hashed and name.size == size and memcmp(name.at, at, size) == 0:
                return self.slots[slot]
            slot = (slot + 1) & (self.slot_count - 1)
        name = &self.names[self.name_count]
        name.at = at
        name.size = size
        name.hashed = hashed
        self.name_count += 1
        self.slots[slot] = self.name_count
        return self.name_count

    cdef bint _grow(self) noexcept nogil:
        cdef uint32_t i, slot
        cdef uint32_t slot_count = max(<uint32_t>64, self.slot_count * 2)
        cdef TopicName* names = <TopicName*>realloc(self.names, slot_count * sizeof(TopicName))
        cdef uint32_t* slots
        if names == NULL:
            return False
        self.names = names
        slots = <uint32_t*>realloc(self.slots, slot_count * sizeof(uint32_t))
        if slots == NULL:
            return False
        memset(slots, 0, slot_count * sizeof(uint32_t))
        for i in range(self.name_count):
            slot = names[i].hashed & (slot_count - 1)
            while slots[slot] != 0:
                slot = (slot + 1) & (slot_count - 1)
            slots[slot] = i + 1
        self.slots = slots
        self.slot_count = slot_count
        return True

    cdef int64_t _read(self, Column column) noexcept nogil:
        """Requires: no row is null. How many rows there are, or NO_MEMORY."""
        cdef int32_t i
        cdef int64_t at_row = 0
        for i in range(column.cells.view_count):
            if column.cells.views[i].kind == CELL_INDEXED:
                if not _read_indexed(self, &column.cells.views[i], self.topic_slots + at_row):
                    return NO_MEMORY
            elif not _read_plain(self, &column.cells.views[i], self.topic_slots + at_row):
                return NO_MEMORY
            at_row += column.cells.views[i].length
        return at_row


cdef bint _read_plain(TopicColumn topics, CellView* view, uint32_t* topic_slots) noexcept nogil:
    """Neighbours often have the same."""
    cdef int64_t row, size
    cdef int64_t last_size = -1
    cdef uint32_t number = 0
    cdef const uint8_t* at
    cdef const uint8_t* last = NULL
    for row in range(view.length):
        size = cell_bytes(view, row, &at)
        if size != last_size or memcmp(at, last, size) != 0:
            number = topics._find(at, size)
            if number == 0:
                return False
            last = at
            last_size = size
        topic_slots[row] = number - 1
    return True


cdef bint _read_indexed(TopicColumn topics, CellView* view, uint32_t* topic_slots) noexcept nogil:
    """Each entry of the dictionary that is used is looked up once."""
    cdef int64_t row, index, size
    cdef const uint8_t* at
    cdef uint32_t* numbers = <uint32_t*>calloc(view.inner.length + 1, sizeof(uint32_t))
    if numbers == NULL:
        return False
    for row in range(view.length):
        index = load_number(
            view.data + (view.offset + row) * view.stride, view.width, view.is_signed)
        if numbers[index] == 0:
            size = cell_bytes(view.inner, index, &at)
            numbers[index] = topics._find(at, size)
            if numbers[index] == 0:
                free(numbers)
                return False
        topic_slots[row] = numbers[index] - 1
    free(numbers)
    return True


cdef TopicColumn read_topics(Column column):
    cdef TopicColumn found = TopicColumn.__new__(TopicColumn)
    cdef int64_t row, count
    cdef uint32_t i
    with nogil:
        row = first_null(&column.cells)
    if row >= 0:
        raise ValueError(
            f"column {column.name!r}: the topic of row {row:,} is null: give every row one, or "
            f"name one topic for all")
    found.count = column.cells.length
    found.topic_slots = <uint32_t*>malloc((found.count + 1) * sizeof(uint32_t))
    if found.topic_slots == NULL:
        raise MemoryError(f"no memory for the topics of {found.count:,} rows")
    with nogil:
        count = found._read(column)
    if count == NO_MEMORY:
        raise MemoryError(f"no memory for the topics of {found.count:,} rows")
    found.topics = []
    for i in range(found.name_count):
        text = (<const char*>found.names[i].at)[:found.names[i].size]
        try:
            found.topics.append(text.decode())
        except UnicodeDecodeError:
            raise ValueError(
                f"column {column.name!r} has a topic that is no UTF-8 text: {text[:80]!r}"
            ) from None
    return found
