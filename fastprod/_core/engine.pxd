"""Engine: one producer's accumulator and I/O thread, with the doors for its Python threads."""
from libc.stdint cimport int64_t

from fastprod._core.accumulator cimport Accumulator, Topic
from fastprod._core.io_thread cimport IoThread


cdef class TopicRef:
    # A topic of one engine, as Python holds it. Threads: immutable; keeps its engine alive.
    cdef Topic* topic           # borrowed from the accumulator of `engine`
    cdef readonly str name
    cdef Engine engine

    cdef tuple measure(self, bint starts_anew)


cdef class Engine:
    # Threads: any, but next_event (the control thread) and run_deliveries (one at a time).
    cdef Accumulator accumulator
    cdef IoThread io
    cdef bytes client_id        # owned for io.header
    cdef bint is_ready          # set up completely
    cdef bint is_abandoned      # inherited by a fork: the parent's
    cdef dict topics
    cdef list extra_references  # Python objects that native memory points into
    cdef object __weakref__

    cdef int _set(self, dict settings) except -1
    cdef int _command(self, int kind, int slot, int64_t a, int64_t b, bytes data) except -1
    cdef TopicRef topic_ref(self, str name)
