"""Lends large values to batches, and gives their references back."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free

from fastprod._core.bytes.slab cimport SLAB_LENT
from fastprod._core.bytes.sync cimport fp_cas_ptr, fp_xchg_ptr


cdef Slab* lent_new(void* owner, const uint8_t* data, uint32_t size) noexcept nogil:
    cdef LentValue* lent = <LentValue*>calloc(1, sizeof(LentValue))
    if lent == NULL:
        return NULL
    lent.owner = owner
    lent.slab.base = <uint8_t*>data
    lent.slab.size = size
    lent.slab.used = size
    lent.slab.kind = SLAB_LENT
    lent.slab.is_out = 1
    return &lent.slab


cdef void lent_return(Slab* slab) noexcept nogil:
    cdef void* top
    while True:
        top = fp_load_ptr(&returned_)
        slab.next = <Slab*>top
        if fp_cas_ptr(&returned_, top, slab):
            return


cdef void drop_returned() noexcept:
    """The whole list at once, so that there is no ABA."""
    cdef Slab* slab = <Slab*>fp_xchg_ptr(&returned_, NULL)
    cdef LentValue* lent
    while slab != NULL:
        lent = <LentValue*>slab
        slab = slab.next
        Py_DECREF(<object><PyObject*>lent.owner)
        free(lent)
