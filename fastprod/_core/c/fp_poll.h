/* Readiness of many descriptors: epoll on Linux, poll(2) elsewhere or when forced.
 *
 * Level-triggered. A watched descriptor has an opaque cookie and an interest; interest 0 takes it
 * out of the kernel's set, so that a hang-up nobody wants to hear of does not end every wait.
 * Memory grows when a descriptor is added, never while waiting. One thread only; but with epoll, while
 * it waits, another one may change the interest of a descriptor, and remove one.
 */
#ifndef FP_POLL_H
#define FP_POLL_H

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#if !defined(SYS_epoll_pwait2) && (defined(__x86_64__) || defined(__aarch64__))
#define SYS_epoll_pwait2 441 /* headers of an older Linux than it may run on */
#endif
#endif

#define FP_POLL_IN 1u
#define FP_POLL_OUT 2u

typedef struct {
    void *cookie;
    uint32_t ready; /* FP_POLL_IN | FP_POLL_OUT; an error or a hang-up counts as both */
} fp_ready;

typedef struct {
    int epoll_fd;    /* -1: poll(2) */
    int is_exact;    /* it can end a wait at its time, and not at the next millisecond */
    uint32_t count;  /* descriptors added */
    uint32_t capacity;
    fp_ready *ready; /* filled by fp_poller_wait */
    /* epoll only */
    void *events; /* struct epoll_event[capacity] */
    /* poll(2) only: parallel arrays; a descriptor without interest is stored as ~fd, which
     * poll(2) skips, and slot_of_fd finds it again */
    struct pollfd *fds;
    void **cookies;
    uint32_t *slot_of_fd;
    uint32_t slot_of_fd_capacity;
} fp_poller;

#if defined(__linux__) && defined(SYS_epoll_pwait2)
/* epoll_wait with a time-out in nanoseconds: of Linux 5.11. */
static inline int fp_epoll_exactly(int fd, void *events, int most, int64_t timeout_ns) {
    struct {
        int64_t s, ns;
    } timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    return (int)syscall(SYS_epoll_pwait2, fd, events, most, &timeout, NULL, (size_t)0);
}
#elif defined(__linux__)
static inline int fp_epoll_exactly(int fd, void *events, int most, int64_t timeout_ns) {
    (void)fd, (void)events, (void)most, (void)timeout_ns;
    errno = ENOSYS;
    return -1;
}
#endif

/* In the child of a fork this alone: nothing is freed that the parent's thread may have changed. */
static inline void fp_poller_abandon(fp_poller *p) {
    int fd;
    if (p == NULL || p->epoll_fd < 0) return;
    fd = p->epoll_fd;
    p->epoll_fd = -1; /* forgotten before it is closed, as in fp_sock_close */
    close(fd);
}

static inline void fp_poller_free(fp_poller *p) {
    if (p == NULL) return;
    fp_poller_abandon(p);
    free(p->ready);
    free(p->events);
    free(p->fds);
    free(p->cookies);
    free(p->slot_of_fd);
    free(p);
}

/* NULL with errno when there is no memory or no descriptor left. */
static inline fp_poller *fp_poller_new(int force_poll) {
    fp_poller *p = (fp_poller *)calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->epoll_fd = -1;
#ifdef __linux__
    if (!force_poll) {
        p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (p->epoll_fd < 0) {
            free(p);
            return NULL;
        }
        struct epoll_event none;
        p->is_exact = fp_epoll_exactly(p->epoll_fd, &none, 1, 0) == 0;
    }
#else
    (void)force_poll;
#endif
    return p;
}

static inline int fp_poll_resize(void **array, size_t count, size_t item_size) {
    void *bigger = realloc(*array, count * item_size);
    if (bigger == NULL) return ENOMEM;
    *array = bigger;
    return 0;
}

static inline int fp_poller_reserve(fp_poller *p, int fd) {
    uint32_t wanted = p->capacity == 0 ? 16 : p->capacity * 2;
    if (p->count == p->capacity) {
        if (fp_poll_resize((void **)&p->ready, wanted, sizeof *p->ready)) return ENOMEM;
#ifdef __linux__
        if (p->epoll_fd >= 0) {
            if (fp_poll_resize(&p->events, wanted, sizeof(struct epoll_event))) return ENOMEM;
        }
#endif
        if (p->epoll_fd < 0) {
            if (fp_poll_resize((void **)&p->fds, wanted, sizeof *p->fds)) return ENOMEM;
            if (fp_poll_resize((void **)&p->cookies, wanted, sizeof *p->cookies)) return ENOMEM;
        }
        p->capacity = wanted;
    }
    if (p->epoll_fd < 0 && (uint32_t)fd >= p->slot_of_fd_capacity) {
        wanted = ((uint32_t)fd + 1) * 2;
        if (fp_poll_resize((void **)&p->slot_of_fd, wanted, sizeof *p->slot_of_fd)) return ENOMEM;
        p->slot_of_fd_capacity = wanted;
    }
    return 0;
}

#ifdef __linux__
static inline int fp_poller_epoll_change(fp_poller *p, int op, int fd, void *cookie,
                                         uint32_t interest) {
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = (interest & FP_POLL_IN ? EPOLLIN : 0) | (interest & FP_POLL_OUT ? EPOLLOUT : 0);
    event.data.ptr = cookie;
    return epoll_ctl(p->epoll_fd, op, fd, &event) == 0 ? 0 : errno;
}
#endif

static inline short fp_poll_bits(uint32_t interest) {
    return (short)((interest & FP_POLL_IN ? POLLIN : 0) | (interest & FP_POLL_OUT ? POLLOUT : 0));
}

/* Change the interest of an added descriptor. Returns 0 or the errno. */
static inline int fp_poller_update(fp_poller *p, int fd, void *cookie, uint32_t before,
                                   uint32_t interest) {
    if (before == interest) return 0;
#ifdef __linux__
    if (p->epoll_fd >= 0) {
        int op = interest == 0 ? EPOLL_CTL_DEL : before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
        return fp_poller_epoll_change(p, op, fd, cookie, interest);
    }
#endif
    struct pollfd *entry = &p->fds[p->slot_of_fd[fd]];
    entry->fd = interest == 0 ? ~fd : fd;
    entry->events = fp_poll_bits(interest);
    return 0;
}

/* Watch a descriptor. Returns 0 or the errno; then nothing has changed. */
static inline int fp_poller_add(fp_poller *p, int fd, void *cookie, uint32_t interest) {
    int err = fp_poller_reserve(p, fd);
    if (err != 0) return err;
    if (p->epoll_fd < 0) {
        p->slot_of_fd[fd] = p->count;
        p->cookies[p->count] = cookie;
        memset(&p->fds[p->count], 0, sizeof *p->fds);
        p->fds[p->count].fd = ~fd;
    }
    err = fp_poller_update(p, fd, cookie, 0, interest);
    if (err == 0) p->count++;
    return err;
}

/* Call it before the descriptor is closed: a forked child may hold a copy, and then closing alone
 * would leave a dead cookie in the epoll set. */
static inline void fp_poller_remove(fp_poller *p, int fd, uint32_t interest) {
    uint32_t last = --p->count;
#ifdef __linux__
    if (p->epoll_fd >= 0) {
        if (interest != 0) (void)fp_poller_epoll_change(p, EPOLL_CTL_DEL, fd, NULL, 0);
        return;
    }
#endif
    uint32_t slot = p->slot_of_fd[fd];
    int moved_fd = p->fds[last].fd;
    p->fds[slot] = p->fds[last];
    p->cookies[slot] = p->cookies[last];
    p->slot_of_fd[moved_fd < 0 ? ~moved_fd : moved_fd] = slot;
    (void)interest;
}

/* Whole milliseconds, rounded up: waking early would spin until the deadline. */
static inline int fp_poll_timeout_ms(int64_t timeout_ns) {
    if (timeout_ns < 0) return -1;
    int64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* Wait up to `timeout_ns` (< 0: no bound), `on_time`: if it can, no longer; else up to the next
 * millisecond, which spares who is in no hurry a timer of its own. Returns how many entries of
 * p->ready are filled, or minus the errno. A signal ends the wait with 0. */
static inline int fp_poller_wait(fp_poller *p, int64_t timeout_ns, int on_time) {
    int timeout_ms = fp_poll_timeout_ms(timeout_ns);
    int found = 0;
#ifdef __linux__
    if (p->epoll_fd >= 0) {
        struct epoll_event *events = (struct epoll_event *)p->events;
        int n = on_time && p->is_exact && timeout_ns >= 0
                    ? fp_epoll_exactly(p->epoll_fd, events, (int)p->capacity, timeout_ns)
                    : epoll_wait(p->epoll_fd, events, (int)p->capacity, timeout_ms);
        if (n < 0) return errno == EINTR ? 0 : -errno;
        for (; found < n; found++) {
            uint32_t got = events[found].events;
            uint32_t both = got & (EPOLLERR | EPOLLHUP) ? FP_POLL_IN | FP_POLL_OUT : 0;
            p->ready[found].cookie = events[found].data.ptr;
            p->ready[found].ready =
                both | (got & EPOLLIN ? FP_POLL_IN : 0) | (got & EPOLLOUT ? FP_POLL_OUT : 0);
        }
        return found;
    }
#endif
    (void)on_time;
    int left = poll(p->fds, p->count, timeout_ms);
    if (left < 0) return errno == EINTR ? 0 : -errno;
    for (uint32_t i = 0; i < p->count && left > 0; i++) {
        short got = p->fds[i].revents;
        if (got == 0) continue;
        uint32_t both = got & (POLLERR | POLLHUP | POLLNVAL) ? FP_POLL_IN | FP_POLL_OUT : 0;
        left--;
        p->ready[found].cookie = p->cookies[i];
        p->ready[found++].ready =
            both | (got & POLLIN ? FP_POLL_IN : 0) | (got & POLLOUT ? FP_POLL_OUT : 0);
    }
    return found;
}

#define FP_PAIR_FIRST 1
#define FP_PAIR_SECOND 2

/* Wait until one of two descriptors is readable or has ended: FP_PAIR_ bits. 0: `timeout_ns` has
 * passed, or there was a signal. */
static inline int fp_poll_pair(int first, int second, int64_t timeout_ns) {
    struct pollfd fds[2] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
    if (poll(fds, 2, fp_poll_timeout_ms(timeout_ns < 0 ? 0 : timeout_ns)) <= 0) return 0;
    return (fds[0].revents ? FP_PAIR_FIRST : 0) | (fds[1].revents ? FP_PAIR_SECOND : 0);
}

/* A timer that ends a wait once at its deadline; it needs no clearing. -1: there is none. */
static inline int fp_poller_add_timer(fp_poller *p) {
#ifdef __linux__
    struct epoll_event event;
    int fd = p->epoll_fd < 0 ? -1 : timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0) return -1;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN | EPOLLET;
    if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return fd;
    close(fd);
#else
    (void)p;
#endif
    return -1;
}

/* 0, or minus the errno. */
static inline int fp_timer_set(int fd, int64_t deadline_ns) {
#ifdef __linux__
    struct itimerspec at;
    memset(&at, 0, sizeof at);
    at.it_value.tv_sec = (time_t)(deadline_ns / 1000000000);
    at.it_value.tv_nsec = (long)(deadline_ns % 1000000000);
    return timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0 ? 0 : -errno;
#else
    (void)fd;
    (void)deadline_ns;
    return -ENOSYS;
#endif
}

/* Forgotten before it is closed, as in fp_sock_close. */
static inline void fp_timer_close(int *noted) {
    int fd = *noted;
    *noted = -1;
    if (fd >= 0) close(fd);
}

static inline const char *fp_poller_name(const fp_poller *p) {
    return p->epoll_fd >= 0 ? "epoll" : "poll";
}

#endif
