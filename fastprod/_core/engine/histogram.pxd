"""Figures that the I/O thread writes and metrics() reads: maxima, and histograms of times."""
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    HISTOGRAM_BUCKETS = 113

cdef struct Histogram:
    # How often something took how long. Buckets are a quarter of a power of two wide, from 1.024 us
    # to 275 s; the first takes what is shorter, the last what is longer.
    #
    # OWNER    the struct it is part of; all zero is empty.
    # THREADS  one thread adds, any thread reads (relaxed). `largest_ns`: see raise_maximum.
    uint64_t sum_ns             # wraps around: only differences mean something
    int64_t largest_ns          # since it was last taken
    int64_t buckets[HISTOGRAM_BUCKETS]

# Count `times` things that took `ns` each; less than 0 counts as 0. THREADS the one that writes.
cdef void histogram_add(Histogram* histogram, int64_t ns, int64_t times) noexcept nogil

# A maximum since it was last taken: one thread raises it, another takes it and starts it anew.
# A value that arrives while it is taken may count for the time before.
cdef void raise_maximum(int64_t* maximum, int64_t value) noexcept nogil
# The maximum; with `reset` it is 0 afterwards. THREADS any, one at a time with reset.
cdef int64_t take_maximum(int64_t* maximum, bint reset) noexcept nogil


cdef class LatencyHistogram:
    # A copy of a Histogram, or the difference of two. Constant once made; any thread.
    cdef Histogram native
    cdef readonly int64_t count

cdef LatencyHistogram copy_histogram(Histogram* histogram, bint reset)
