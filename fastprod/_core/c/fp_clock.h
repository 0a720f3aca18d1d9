/* The two clocks: monotonic nanoseconds for every wait, wall milliseconds for record stamps. */
#ifndef FP_CLOCK_H
#define FP_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t fp_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static inline int64_t fp_wall_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000LL + ts.tv_nsec / 1000000LL;
}

/* A setting's ms in ns. Java's "for ever" is Long.MAX_VALUE ms: what is longer than 63 years counts
 * as 63 years, so that twice the largest, added to the clock, still fits. */
#define FP_LONGEST_NS 2000000000000000000LL

static inline int64_t fp_ms_to_ns(int64_t ms) {
    return ms < FP_LONGEST_NS / 1000000LL ? ms * 1000000LL : FP_LONGEST_NS;
}

#endif
