"""AsyncRecordFuture: one record's delivery, awaited in an event loop."""
from libc.stdint cimport uint32_t

from fastprod._core.delivery.future cimport RecordFuture
from fastprod._core.delivery.loop_future cimport LoopFuture
from fastprod._core.delivery.loop_reader cimport LoopReader


cdef class AsyncRecordFuture(LoopFuture):
    cdef RecordFuture record_
    cdef bint is_batch          # of all records of a batch: only its end counts
    cdef bint was_woken         # then: by its end, or as some of its records were taken back
    cdef uint32_t place         # while is_watched: in the LoopItem of its result

# For the running event loop. Its reader may be known: asking for the loop takes a system call.
# Raises as `running_reader`.
cdef AsyncRecordFuture await_record(RecordFuture record, LoopReader reader=*)
# The same for the end of the record's batch, or a change of what is in it: it has no outcome, and
# cancelling takes nothing back.
cdef AsyncRecordFuture await_batch(RecordFuture record)
