"""Counts times, and reads percentiles out of the counts."""
from libc.math cimport NAN, ceil
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from fastprod._core.bytes.sync cimport fp_load_i64, fp_store_i64
from fastprod._core.bytes.wire cimport fp_clz64

cdef extern from *:
    """
    static inline int64_t take_i64(int64_t *p) {
        return __atomic_exchange_n(p, 0, __ATOMIC_RELAXED);
    }
    """
    int64_t take_i64(int64_t* p) noexcept nogil

cdef enum:
    LOWEST_BITS = 10            # the first bucket ends at 1 << LOWEST_BITS ns
    QUARTERS = 4

cdef double NS_PER_MS = 1e6


cdef int _bucket(int64_t ns) noexcept nogil:
    cdef int bits, bucket
    if ns < (1 << LOWEST_BITS):
        return 0
    bits = 63 - fp_clz64(<uint64_t>ns)
    bucket = 1 + (bits - LOWEST_BITS) * QUARTERS + <int>((ns >> (bits - 2)) & 3)
    return min(bucket, HISTOGRAM_BUCKETS - 1)


cdef int64_t _lower_ns(int bucket) noexcept nogil:
    """Where a bucket begins; for the number behind the last one, where that ends."""
    cdef int quarter
    if bucket == 0:
        return 0
    quarter = (bucket - 1) % QUARTERS
    return <int64_t>(QUARTERS + quarter) << (LOWEST_BITS + (bucket - 1) // QUARTERS - 2)


cdef void histogram_add(Histogram* histogram, int64_t ns, int64_t times) noexcept nogil:
    ns = max(ns, 0)
    histogram.sum_ns += <uint64_t>ns * <uint64_t>times
    histogram.buckets[_bucket(ns)] += times
    raise_maximum(&histogram.largest_ns, ns)


cdef void raise_maximum(int64_t* maximum, int64_t value) noexcept nogil:
    if value > fp_load_i64(maximum):
        fp_store_i64(maximum, value)


cdef int64_t take_maximum(int64_t* maximum, bint reset) noexcept nogil:
    return take_i64(maximum) if reset else fp_load_i64(maximum)


cdef LatencyHistogram copy_histogram(Histogram* histogram, bint reset):
    cdef LatencyHistogram copy = LatencyHistogram.__new__(LatencyHistogram)
    cdef int i
    memcpy(&copy.native, histogram, sizeof(Histogram))
    copy.native.largest_ns = take_maximum(&histogram.largest_ns, reset)
    for i in range(HISTOGRAM_BUCKETS):
        copy.count += copy.native.buckets[i]
    return copy


cdef class LatencyHistogram:
    """See histogram.pyi."""

    @property
    def largest_ns(self):
        return self.native.largest_ns

    @property
    def mean_ms(self):
        if self.count <= 0:
            return NAN
        return <double>self.native.sum_ns / <double>self.count / NS_PER_MS

    @property
    def max_ms(self):
        return <double>self.native.largest_ns / NS_PER_MS if self.count > 0 else NAN

    def percentile_ms(self, double fraction):
        cdef int64_t rank, in_bucket = 1
        cdef double low_ns, width_ns, ns
        cdef int i
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction {fraction}: must be 0 to 1; 0.99 is the 99th percentile")
        if self.count <= 0:
            return NAN
        rank = max(1, <int64_t>ceil(fraction * <double>self.count))
        for i in range(HISTOGRAM_BUCKETS):
            in_bucket = self.native.buckets[i]
            if rank <= in_bucket:
                break
            rank -= in_bucket
        low_ns = <double>_lower_ns(i)
        width_ns = <double>_lower_ns(i + 1) - low_ns
        ns = low_ns + width_ns * (<double>rank - 0.5) / <double>in_bucket
        if self.native.largest_ns >= low_ns:
            ns = min(ns, <double>self.native.largest_ns)
        return ns / NS_PER_MS

    def buckets(self):
        return [
            (<double>_lower_ns(i + 1) / NS_PER_MS, self.native.buckets[i])
            for i in range(HISTOGRAM_BUCKETS)
        ]

    def since(self, LatencyHistogram earlier, int64_t largest_ns=0):
        cdef LatencyHistogram found = LatencyHistogram.__new__(LatencyHistogram)
        cdef int i
        found.native = self.native
        found.native.largest_ns = max(self.native.largest_ns, largest_ns)
        found.count = self.count
        if earlier is not None:
            found.count -= earlier.count
            found.native.sum_ns -= earlier.native.sum_ns
            for i in range(HISTOGRAM_BUCKETS):
                found.native.buckets[i] -= earlier.native.buckets[i]
        return found
