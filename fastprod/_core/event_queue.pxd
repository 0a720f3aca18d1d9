"""Events between the I/O thread and the control thread: two queues of small structs."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.sync cimport fp_cond, fp_mutex

cdef enum EventKind:
    # control thread -> I/O thread
    DO_CONNECT = 1          # slot, a: node id, b: bytes of sockaddr, data: sockaddr, host:port NUL
    DO_SEND = 2             # slot, a: token, data: a whole frame (the correlation id is filled in)
    DO_READY = 3            # slot, a: Produce version (-1: none usable)
    DO_CLOSE = 4            # slot
    DO_LEADERS = 5          # data: LeaderUpdate array
    DO_PRODUCER_ID = 6      # a: producer id, b: epoch
    DO_TOPIC_ID = 7         # pointer: Topic*, data: 16 bytes
    DO_THROTTLE = 8         # slot, a: nanoseconds (a control response said so)
    DO_FAIL = 9             # a: error code: everything queued fails, later sends too
    DO_RESET_ASKED = 10     # metadata was looked at: ask again if a leader is still missing
    DO_ABORT = 12           # a: error code: everything queued fails; later sends are welcome
    DO_TROUBLE = 11         # slot or -1, data: why the node cannot be used; empty: it can
    DO_ID_TROUBLE = 13      # data: why there is no producer id
    # I/O thread -> control thread
    ON_CONNECTED = 101      # slot
    ON_DISCONNECTED = 102   # slot, a: CloseReason, b: errno, c: bad frame size, d: 1 timed out
    ON_RESPONSE = 103       # slot, a: token, data: the payload; size -1: the connection was lost
    ON_CONNECT_WANTED = 104     # slot: there is something to send
    ON_METADATA_WANTED = 105    # pointer: Topic* or NULL, a: Kafka code that asks for it or 0
    # pointer: Topic*, a: partition, b: leader id, c: leader epoch, data: its host, slot: its port
    ON_LEADER_HINT = 106
    ON_PRODUCER_ID_WANTED = 107
    ON_FATAL = 108          # a: Kafka code
    ON_FAILED = 109         # pointer: Topic*, a: code, b: records, c: partition, data: why or NULL
    ON_STOPPED = 110
    ON_PROTOCOL_ERROR = 111  # slot, a: what (ProtocolFault), b, c: numbers

cdef enum ProtocolFault:
    FAULT_CORRELATION = 1       # b: expected, c: got
    FAULT_UNASKED = 2           # a response to nothing; b: its size
    FAULT_GARBLED = 3           # a Produce response that does not parse; b: its size
    FAULT_MISSING = 4           # a partition without an answer

cdef struct Event:
    # OWNER the queue, then who took it.  FREED BY event_free.
    int32_t kind
    int32_t slot
    int64_t a
    int64_t b
    int64_t c
    int64_t d
    void* pointer               # borrowed
    uint8_t* data               # owned
    int64_t size
    Event* next

cdef struct EventQueue:
    # OWNER the engine.  THREADS any; guarded by `lock`.
    fp_mutex lock
    fp_cond ready
    Event* head
    Event* tail
    int32_t count               # atomic hint
    bint closed

cdef void event_queue_init(EventQueue* queue) noexcept nogil
cdef void event_queue_destroy(EventQueue* queue) noexcept nogil
cdef void event_queue_close(EventQueue* queue) noexcept nogil
# A blank event; NULL: out of memory. `data` is copied when not NULL.
cdef Event* event_new(int32_t kind, int32_t slot, const void* data, int64_t size) noexcept nogil
cdef void event_free(Event* event) noexcept nogil
# Takes the event; NULL is ignored.
cdef void event_push(EventQueue* queue, Event* event) noexcept nogil
# The oldest event or NULL: none by the deadline (0: do not wait), or closed and empty.
cdef Event* event_take(EventQueue* queue, int64_t deadline_ns) noexcept nogil
