"""CRC-32C (Castagnoli): the path is chosen once, here, at import."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t

import os

cdef extern from "c/fp_crc32c.h" nogil:
    ctypedef uint32_t (*fp_crc32c_update)(uint32_t, const uint8_t*, size_t) noexcept nogil
    ctypedef uint32_t (*fp_crc32c_multiply)(uint32_t, uint32_t) noexcept nogil
    ctypedef struct fp_crc32c_path:
        const char* name
        fp_crc32c_update update
        fp_crc32c_multiply multiply

    fp_crc32c_path* fp_crc32c_paths
    int fp_crc32c_path_count
    void fp_crc32c_setup() noexcept
    uint32_t fp_crc32c_combine(
        fp_crc32c_multiply multiply, uint32_t crc_a, uint32_t crc_b, uint64_t len_b
    ) noexcept

cdef enum:
    # A microsecond of work on the fastest path: from there on releasing the GIL pays.
    GIL_FREE_BYTES = 32768

# OWNER    this module.   THREADS  written once under the import lock, read by all.
cdef fp_crc32c_path _chosen


cdef uint32_t crc32c_update(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil:
    return _chosen.update(crc, p, n)


cdef uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t len_b) noexcept nogil:
    return fp_crc32c_combine(_chosen.multiply, crc_a, crc_b, len_b)


cdef fp_crc32c_path* _find(str name) except NULL:
    cdef int i
    for i in range(fp_crc32c_path_count):
        if fp_crc32c_paths[i].name.decode("ascii") == name:
            return &fp_crc32c_paths[i]
    raise ValueError(
        f"no CRC-32C path named {name!r} on this machine: it can run {', '.join(backends())}"
    )


cdef Crc32cUpdate crc32c_update_by(str path) except NULL:
    return _find(path).update


cdef uint32_t crc32c_combine_by(
    str path, uint32_t crc_a, uint32_t crc_b, uint64_t len_b
) except? 0:
    return fp_crc32c_combine(_find(path).multiply, crc_a, crc_b, len_b)


cdef void _choose() except *:
    global _chosen
    fp_crc32c_setup()
    forced = os.environ.get("FASTPROD_CRC32C", "")
    if not forced:
        _chosen = fp_crc32c_paths[0]
        return
    try:
        _chosen = _find(forced)[0]
    except ValueError as error:
        raise ValueError(
            f"FASTPROD_CRC32C={forced!r}: {error}; set one of these, or unset the variable"
        ) from None


def backends():
    cdef int i
    return tuple([fp_crc32c_paths[i].name.decode("ascii") for i in range(fp_crc32c_path_count)])


def backend():
    return _chosen.name.decode("ascii")


def checksum(data):
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < GIL_FREE_BYTES:
        crc = crc32c_update(0, <const uint8_t*>view.buf, <size_t>view.len)
    else:
        with nogil:
            crc = crc32c_update(0, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


_choose()
