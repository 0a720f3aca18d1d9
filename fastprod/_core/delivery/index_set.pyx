"""Keeps the indexes of records that were taken back, in their order."""
from libc.stdint cimport uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memmove


cdef bint _reserve(IndexSet* indexes, uint32_t more) noexcept nogil:
    cdef uint32_t capacity
    cdef uint32_t* grown
    if indexes.capacity - indexes.count >= more:
        return True
    capacity = max(max(<uint32_t>8, indexes.capacity * 2), indexes.count + more)
    grown = <uint32_t*>realloc(indexes.items, capacity * sizeof(uint32_t))
    if grown == NULL:
        return False
    indexes.items = grown
    indexes.capacity = capacity
    return True


cdef bint index_set_add(
    IndexSet* indexes, const uint32_t* added, uint32_t added_count
) noexcept nogil:
    """Each one to its place; those that come last, as a rule, move nothing."""
    cdef uint32_t i, at
    for i in range(added_count):
        at = index_set_rank(indexes, added[i])
        if at < indexes.count and indexes.items[at] == added[i]:
            return False
    if not _reserve(indexes, added_count):
        return False
    for i in range(added_count):
        at = index_set_rank(indexes, added[i])
        memmove(&indexes.items[at + 1], &indexes.items[at],
                (indexes.count - at) * sizeof(uint32_t))
        indexes.items[at] = added[i]
        indexes.count += 1
    return True
