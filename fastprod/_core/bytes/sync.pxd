"""Locks, conditions, atomics, clocks and the wake-up descriptor, as Cython declarations."""
from libc.stdint cimport int32_t, int64_t

# Wakes a thread that belongs to a higher floor; never blocks, never takes the GIL.
ctypedef void (*WakeUp)(void* argument) noexcept nogil

cdef extern from "c/fp_sync.h" nogil:
    ctypedef struct fp_mutex:
        pass
    ctypedef struct fp_cond:
        pass
    ctypedef struct fp_wake:
        int read_fd
        int write_fd

    int64_t fp_now_ns() noexcept
    int64_t fp_wall_ms() noexcept
    int64_t fp_ms_to_ns(int64_t ms) noexcept

    void fp_mutex_init(fp_mutex* m) noexcept
    void fp_mutex_destroy(fp_mutex* m) noexcept
    void fp_mutex_lock(fp_mutex* m) noexcept
    bint fp_mutex_try(fp_mutex* m) noexcept
    void fp_mutex_unlock(fp_mutex* m) noexcept
    void fp_cond_init(fp_cond* c) noexcept
    void fp_cond_destroy(fp_cond* c) noexcept
    void fp_cond_signal(fp_cond* c) noexcept
    void fp_cond_broadcast(fp_cond* c) noexcept
    int fp_cond_wait_until(fp_cond* c, fp_mutex* m, int64_t deadline_ns) noexcept

    int32_t fp_load_i32(const int32_t* p) noexcept
    int32_t fp_load_i32_acq(const int32_t* p) noexcept
    void fp_store_i32(int32_t* p, int32_t v) noexcept
    void fp_store_i32_rel(int32_t* p, int32_t v) noexcept
    int32_t fp_xchg_i32(int32_t* p, int32_t v) noexcept
    int32_t fp_add_i32(int32_t* p, int32_t v) noexcept
    int64_t fp_load_i64(const int64_t* p) noexcept
    void fp_store_i64(int64_t* p, int64_t v) noexcept
    int64_t fp_add_i64(int64_t* p, int64_t v) noexcept
    void* fp_load_ptr(void** p) noexcept
    void fp_store_ptr(void** p, void* v) noexcept
    void* fp_xchg_ptr(void** p, void* v) noexcept
    int fp_cas_ptr(void** p, void* expected, void* desired) noexcept
    void fp_fence() noexcept

    int fp_wake_open(fp_wake* w) noexcept
    void fp_wake_signal(fp_wake* w) noexcept
    void fp_wake_clear(fp_wake* w) noexcept
    void fp_wake_close(fp_wake* w) noexcept
