"""Engine: one producer's accumulator and I/O thread, with the doors for its Python threads."""
from fastprod._core.engine.accumulator cimport Accumulator, Topic
from fastprod._core.engine.control_queue cimport Event
from fastprod._core.engine.sender_state cimport IoThread


cdef class TopicRef:
    # A topic of one engine, as Python holds it. Threads: immutable; keeps its engine alive.
    cdef Topic* topic           # borrowed from the accumulator of `engine`
    cdef readonly str name
    cdef Engine engine


cdef class Engine:
    # Threads: any, but next_event (the control thread) and run_deliveries (one at a time).
    cdef Accumulator accumulator
    cdef IoThread io
    cdef bytes client_id        # owned for io.header
    cdef bytes transactional_id     # the same; None: no transactions
    cdef bint is_ready          # set up completely
    cdef bint is_abandoned      # inherited by a fork: the parent's
    cdef bint has_asked         # of the end of the last transaction, with the request for it
    cdef dict topics
    cdef object __weakref__

    cdef int _set(self, dict settings) except -1
    cdef Event* _command(self, int kind, int slot, bytes data, int code=*) except NULL
    cdef Event* _question(self, int kind, object question) except NULL
    cdef void _push(self, Event* command, bint kicks=*)
    cdef TopicRef topic_ref(self, str name)
