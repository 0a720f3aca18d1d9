"""LentValue: a slab that is the memory of a `bytes` object, so that a large value is not copied.

Its reference is given back by a thread that has the GIL: those who complete batches have it not.
"""
from libc.stdint cimport uint8_t, uint32_t

from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_load_ptr

cdef enum:
    LEAST_LENT_BYTES = 32768    # below it a copy costs less than what lending does

cdef struct LentValue:
    # OWNER    the slab's chain, then the list of those that were returned.
    # FREED BY values_release.
    Slab slab
    void* owner             # one reference to the bytes object

cdef void* returned_

# A slab of `size` bytes at `data`, which are `owner`'s; its reference is the slab's from now on.
# NULL: no memory.
cdef Slab* lent_new(void* owner, const uint8_t* data, uint32_t size) noexcept nogil
# Nobody reads the slab any more. Needs no GIL.  THREADS any.
cdef void lent_return(Slab* slab) noexcept nogil
cdef void drop_returned() noexcept


cdef inline void values_release() noexcept:
    """Give back the references of all values that were returned; one look if there are none."""
    if fp_load_ptr(&returned_) != NULL:
        drop_returned()
