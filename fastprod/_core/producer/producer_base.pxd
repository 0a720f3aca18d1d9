"""ProducerBase: the compiled half of KafkaProducer; `send` lives here (design: 100 ns)."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.delivery.future cimport RecordFuture
from fastprod._core.engine.accumulator cimport Appended, Topic
from fastprod._core.engine.engine cimport Engine
from fastprod._core.producer.memory_turn cimport MemoryTurn
from fastprod._core.records.record_batch cimport Record


cdef enum SendMode:
    MODE_TRY = 0            # nobody waits: what would have to has failed
    MODE_BLOCK = 1
    MODE_AWAIT = 2          # an event loop waits: `_send` returns what for


cdef class ProducerBase:
    # Threads: any; the GIL guards the Python fields.
    cdef Engine engine_
    cdef dict topics            # name -> TopicRef, of topics whose metadata is there
    cdef object last_topic      # the str of the send before
    cdef Topic* last_native     # borrowed from engine_
    cdef bint is_simple         # no interceptor, serializer or partitioner of the user's
    cdef bint is_closed
    cdef bint takes_records     # not closed, and with transactions: one is open
    cdef bint ignores_keys
    cdef bint has_delivery
    cdef int64_t max_record_bytes
    cdef int64_t buffer_bytes
    cdef int64_t max_block_ns

    cdef Topic* _topic(self, object topic, int32_t partition, int64_t* waited_ns) except NULL
    cdef object _send(self, object topic, object value, object key, object headers,
                      object partition, object timestamp_ms, object on_delivery, int mode,
                      int64_t waited_ns=*, MemoryTurn turn=*)
    cdef object _send_by(self, object deadline, object topic, object value, object key,
                         object headers, object partition, object timestamp_ms, object on_delivery)
    cdef object _append(self, object topic, Topic* native, int32_t partition, object value,
                        Record* record, object on_delivery, int mode, int64_t budget_ns,
                        MemoryTurn turn)
    cdef object _place_and_append(self, object topic, object value, Record* record,
                                  int32_t target, bint has_own_time, object on_delivery, int mode,
                                  int64_t waited_ns, MemoryTurn turn)
    cdef void* _attach_callback(self, RecordFuture future, object on_delivery) except NULL
    cdef object _refused(self, FpStatus status, object topic, int32_t partition, Record* record,
                         object on_delivery)
    cdef int _refuse_late(self) except -1
    cdef int _refuse_parents(self) except -1
    cdef int _end_if_called_off(self) except -1
    cdef object _exhausted(self, int64_t waited_ns)
    cdef int _wait_for_memory(self, size_t need_bytes, int64_t deadline_ns, int64_t budget_ns,
                              void** chain) except -1
