"""Doors to the varints, stores, checksums and buffers of fastprod/_core/bytes."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from fastprod._core.bytes.buffer_pool cimport (
    BufferPool, Waiter, pool_callback_bytes, pool_cancel, pool_close, pool_destroy,
    pool_free_bytes, pool_give, pool_hold, pool_init, pool_let_go, pool_queue, pool_take,
    pool_wait, slab_from_heap,
)
from fastprod._core.bytes.crc32c cimport (
    Crc32cUpdate, crc32c_combine, crc32c_combine_by, crc32c_update, crc32c_update_by,
)
from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_EXHAUSTED, FpStatus, check
from fastprod._core.bytes.murmur2 cimport murmur2
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_load_i32, fp_load_i64, fp_now_ns
from fastprod._core.bytes.varint cimport (
    uvarint_get, uvarint_put, uvarint_size, varint_get, varint_put, varint_size,
)
from fastprod._core.bytes.wire cimport (
    fp_clz64, fp_get_u16, fp_get_u32, fp_get_u32_le, fp_get_u64, fp_put_u16, fp_put_u32,
    fp_put_u64,
)


def put_for_test(uint64_t value):
    cdef uint8_t out[14]
    memset(out, 0, sizeof(out))
    fp_put_u16(out, <uint16_t>value)
    fp_put_u32(out + 2, <uint32_t>value)
    fp_put_u64(out + 6, value)
    return out[:2], out[2:6], out[6:14]


def get_for_test(bytes data, size_t offset):
    cdef const uint8_t* p = data
    if offset > <size_t>len(data) or <size_t>len(data) - offset < 8:
        raise ValueError(f"8 bytes are read at offset {offset}, but there are {len(data)}")
    p += offset
    return fp_get_u16(p), fp_get_u32(p), fp_get_u64(p), fp_get_u32_le(p)


def leading_zeros_for_test(uint64_t value):
    if value == 0:
        raise ValueError("the leading zeros of 0 are undefined: give 1 or more")
    return fp_clz64(value)


def varint_size_for_test(int64_t value):
    return varint_size(value)


def uvarint_size_for_test(uint64_t value):
    return uvarint_size(value)


def varint_encode_for_test(int64_t value):
    cdef uint8_t out[10]
    cdef uint8_t* end = varint_put(out, value)
    return out[:end - out]


def uvarint_encode_for_test(uint64_t value):
    cdef uint8_t out[10]
    cdef uint8_t* end = uvarint_put(out, value)
    return out[:end - out]


def varint_decode_for_test(bytes data, int max_bytes):
    cdef const uint8_t* start = data
    cdef int64_t value = 0
    cdef const uint8_t* p = varint_get(start, start + len(data), max_bytes, &value)
    return None if p == NULL else (value, p - start)


def uvarint_decode_for_test(bytes data, int max_bytes):
    cdef const uint8_t* start = data
    cdef uint64_t value = 0
    cdef const uint8_t* p = uvarint_get(start, start + len(data), max_bytes, &value)
    return None if p == NULL else (value, p - start)


def update_for_test(str path, uint32_t crc, data, size_t rounds=1):
    cdef Py_buffer view
    cdef Crc32cUpdate update = crc32c_update_by(path)
    cdef size_t _round
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    with nogil:
        for _round in range(rounds):
            crc = update(crc, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


def combine_for_test(str path, uint32_t crc_a, uint32_t crc_b, uint64_t len_b):
    return crc32c_combine_by(path, crc_a, crc_b, len_b)


def contract_for_test(uint32_t crc_a, data, uint32_t crc_b, size_t len_b):
    cdef Py_buffer view
    cdef uint32_t updated
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    updated = crc32c_update(crc_a, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return updated, crc32c_combine(crc_a, crc_b, len_b)


def hash_rounds_for_test(key, size_t rounds):
    cdef Py_buffer view
    cdef uint32_t h = 0
    cdef size_t _round
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    with nogil:
        for _round in range(rounds):
            h ^= murmur2(<const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return h


cdef class _Line:
    # A place in line that outlives the call.
    cdef Waiter waiter


cdef class PoolForTest:
    """See the .pyi."""
    # OWNER of the chains and waiters behind its handles. THREADS any.

    cdef BufferPool pool
    cdef dict chains
    cdef dict waiters
    cdef int next_handle

    def __cinit__(self, size_t total_bytes):
        self.chains = {}
        self.waiters = {}
        check(pool_init(&self.pool, total_bytes))

    def __dealloc__(self):
        pool_destroy(&self.pool)

    cdef object _keep(self, Slab* chain):
        self.next_handle += 1
        self.chains[self.next_handle] = <size_t>chain
        return self.next_handle

    def take(self, size_t need_bytes, bint prefer_big=False, double timeout_ms=0):
        cdef Slab* chain = NULL
        cdef Waiter waiter
        cdef int64_t deadline_ns = fp_now_ns() + <int64_t>(timeout_ms * 1e6)
        cdef FpStatus status
        if timeout_ms == 0:
            status = pool_take(&self.pool, need_bytes, prefer_big, &chain)
        else:
            with nogil:
                status = pool_queue(&self.pool, &waiter, need_bytes, False, &chain)
                if status == FP_BLOCKED:
                    status = pool_wait(&self.pool, &waiter, deadline_ns, &chain)
                    if status == FP_BLOCKED:
                        status = pool_cancel(&self.pool, &waiter, True, &chain)
        if status == FP_EXHAUSTED:
            return None
        check(status)
        return self._keep(chain)

    def queue(self, size_t need_bytes, bint is_delivery=False):
        cdef Slab* chain = NULL
        cdef _Line line = _Line()
        cdef FpStatus status = pool_queue(
            &self.pool, &line.waiter, need_bytes, is_delivery, &chain)
        if status == FP_EXHAUSTED:
            return None, None
        if status == FP_BLOCKED:
            self.next_handle += 1
            self.waiters[self.next_handle] = line
            return None, self.next_handle
        check(status)
        return self._keep(chain), None

    def look(self, int waiter):
        cdef _Line line = self.waiters[waiter]
        cdef Slab* chain = NULL
        cdef FpStatus status = pool_wait(&self.pool, &line.waiter, 0, &chain)
        return None if status == FP_BLOCKED else self._leave(waiter, status, chain)

    def cancel(self, int waiter, bint timed_out=False):
        cdef _Line line = self.waiters[waiter]
        cdef Slab* chain = NULL
        cdef FpStatus status = pool_cancel(&self.pool, &line.waiter, timed_out, &chain)
        return self._leave(waiter, status, chain)

    cdef object _leave(self, int waiter, FpStatus status, Slab* chain):
        del self.waiters[waiter]
        if status == FP_EXHAUSTED:
            return None
        check(status)
        return self._keep(chain)

    def give(self, int handle, bint keep=False):
        cdef Slab* chain = <Slab*><size_t>self.chains[handle]
        if not keep:
            del self.chains[handle]
        with nogil:
            pool_give(&self.pool, chain)

    def hold(self, size_t size):
        pool_hold(&self.pool, size)

    def let_go(self, size_t size):
        pool_let_go(&self.pool, size)

    def take_heap(self, size_t size):
        return self._keep(slab_from_heap(&self.pool, size))

    def spans(self, int handle):
        cdef Slab* slab = <Slab*><size_t>self.chains[handle]
        found = []
        while slab != NULL:
            found.append((<size_t>slab.base, slab.size))
            slab = slab.next
        return found

    def fill(self, int handle, uint8_t byte):
        cdef Slab* slab = <Slab*><size_t>self.chains[handle]
        with nogil:
            while slab != NULL:
                memset(slab.base, byte, slab.size)
                slab = slab.next

    def is_filled(self, int handle, uint8_t byte):
        cdef Slab* slab = <Slab*><size_t>self.chains[handle]
        cdef uint32_t i
        while slab != NULL:
            for i in range(slab.size):
                if slab.base[i] != byte:
                    return False
            slab = slab.next
        return True

    def close(self):
        pool_close(&self.pool)

    @property
    def arena_address(self):
        return <size_t>self.pool.arena

    @property
    def total_bytes(self):
        return self.pool.total_bytes

    @property
    def free_bytes(self):
        return pool_free_bytes(&self.pool)

    @property
    def callback_bytes(self):
        return pool_callback_bytes(&self.pool)

    @property
    def heap_bytes(self):
        return self.pool.heap_bytes

    @property
    def waiting(self):
        return fp_load_i32(&self.pool.waiting)

    @property
    def wait_ns_total(self):
        return fp_load_i64(&self.pool.wait_ns_total)

    @property
    def exhausted_total(self):
        return self.pool.exhausted_total
