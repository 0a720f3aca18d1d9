"""IndexSet: which records of a batch are not to leave."""
from libc.stdint cimport uint32_t

cdef struct IndexSet:
    # Ascending indexes of records.  OWNER the Result that it is part of, with its rules.
    uint32_t* items             # owned
    uint32_t count
    uint32_t capacity

# Add all of these, or none. False: one was there already, or no memory.
cdef bint index_set_add(
    IndexSet* indexes, const uint32_t* added, uint32_t added_count) noexcept nogil


# How many of them are below `index`.
cdef inline uint32_t index_set_rank(const IndexSet* indexes, uint32_t index) noexcept nogil:
    cdef uint32_t low = 0, high = indexes.count, middle
    while low < high:
        middle = (low + high) // 2
        if indexes.items[middle] < index:
            low = middle + 1
        else:
            high = middle
    return low
