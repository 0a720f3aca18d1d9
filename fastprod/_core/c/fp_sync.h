/* Locks, conditions, atomics and the wake-up descriptor.
 *
 * No Python.h, no allocation, no state. Nobody may take the GIL, raise or allocate while
 * holding an fp_mutex. All deadlines are CLOCK_MONOTONIC nanoseconds (fp_now_ns).
 */
#ifndef FP_SYNC_H
#define FP_SYNC_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

#include "fp_clock.h"

typedef pthread_mutex_t fp_mutex;
typedef pthread_cond_t fp_cond;

static inline void fp_mutex_init(fp_mutex *m) { pthread_mutex_init(m, NULL); }
static inline void fp_mutex_destroy(fp_mutex *m) { pthread_mutex_destroy(m); }
static inline void fp_mutex_unlock(fp_mutex *m) { pthread_mutex_unlock(m); }

static inline void fp_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* 1: it is ours now. */
static inline int fp_mutex_try(fp_mutex *m) { return pthread_mutex_trylock(m) == 0; }

static inline int fp_mutex_spin(fp_mutex *m) {
    for (int i = 0; i < 64; i++) {
        if (pthread_mutex_trylock(m) == 0) return 1;
        fp_cpu_relax();
    }
    return 0;
}

/* Try, spin shortly, then sleep. */
static inline void fp_mutex_lock(fp_mutex *m) {
    if (!fp_mutex_spin(m)) pthread_mutex_lock(m);
}

static inline void fp_cond_init(fp_cond *c) {
#ifdef __APPLE__
    pthread_cond_init(c, NULL);
#else
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
#endif
}

static inline void fp_cond_destroy(fp_cond *c) { pthread_cond_destroy(c); }
static inline void fp_cond_signal(fp_cond *c) { pthread_cond_signal(c); }
static inline void fp_cond_broadcast(fp_cond *c) { pthread_cond_broadcast(c); }

/* Wait until signalled or `deadline_ns`. Returns 1 when the deadline passed, else 0. */
static inline int fp_cond_wait_until(fp_cond *c, fp_mutex *m, int64_t deadline_ns) {
    struct timespec ts;
#ifdef __APPLE__
    int64_t left_ns = deadline_ns - fp_now_ns();
    if (left_ns < 0) left_ns = 0;
    ts.tv_sec = left_ns / 1000000000LL;
    ts.tv_nsec = left_ns % 1000000000LL;
    return pthread_cond_timedwait_relative_np(c, m, &ts) == ETIMEDOUT;
#else
    if (deadline_ns < 0) deadline_ns = 0;
    ts.tv_sec = deadline_ns / 1000000000LL;
    ts.tv_nsec = deadline_ns % 1000000000LL;
    return pthread_cond_timedwait(c, m, &ts) == ETIMEDOUT;
#endif
}

/* Atomics: *_acq loads acquire, *_rel stores release, the rest is sequentially consistent. */
static inline int32_t fp_load_i32(const int32_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static inline int32_t fp_load_i32_acq(const int32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void fp_store_i32(int32_t *p, int32_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
static inline void fp_store_i32_rel(int32_t *p, int32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline int32_t fp_xchg_i32(int32_t *p, int32_t v) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
static inline int32_t fp_add_i32(int32_t *p, int32_t v) { return __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST); }
static inline int64_t fp_load_i64(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline void fp_store_i64(int64_t *p, int64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
static inline int64_t fp_add_i64(int64_t *p, int64_t v) { return __atomic_add_fetch(p, v, __ATOMIC_RELAXED); }
static inline void *fp_load_ptr(void *const *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void fp_store_ptr(void **p, void *v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline void *fp_xchg_ptr(void **p, void *v) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
static inline int fp_cas_ptr(void **p, void *expected, void *desired) {
    return __atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline void fp_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* A descriptor that becomes readable when signalled: eventfd on Linux, a pipe elsewhere. */
typedef struct {
    int read_fd;
    int write_fd;
} fp_wake;

static inline int fp_wake_open(fp_wake *w) {
#ifdef __linux__
    w->read_fd = w->write_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return w->read_fd < 0 ? -1 : 0;
#else
    int fds[2];
    if (pipe(fds) != 0) return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    }
    w->read_fd = fds[0];
    w->write_fd = fds[1];
    return 0;
#endif
}

static inline void fp_wake_signal(fp_wake *w) {
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(w->write_fd, &one, w->read_fd == w->write_fd ? sizeof one : 1);
    } while (n < 0 && errno == EINTR);
}

static inline void fp_wake_clear(fp_wake *w) {
    uint8_t sink[64];
    while (read(w->read_fd, sink, w->read_fd == w->write_fd ? 8 : sizeof sink) > 0) {
        if (w->read_fd == w->write_fd) break;
    }
}

/* Forgotten before it is closed, as in fp_sock_close. */
static inline void fp_wake_close(fp_wake *w) {
    int read_fd = w->read_fd, write_fd = w->write_fd;
    w->read_fd = w->write_fd = -1;
    if (read_fd >= 0) close(read_fd);
    if (write_fd >= 0 && write_fd != read_fd) close(write_fd);
}

#endif
