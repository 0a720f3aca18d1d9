"""Events between the I/O thread and the control thread: two queues of small structs."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.bytes.sync cimport fp_cond, fp_mutex
from fastprod._core.engine.accumulator cimport Topic
from fastprod._core.io.layer cimport ChannelLayer

cdef enum CommandKind:
    # From the control thread to the I/O thread, and the fields of Event that tell more.
    # slot, node_id, home (the node's slot: another one if this is a spare connection to it), tls,
    # proxy, address_bytes, data: sockaddr, host:port NUL, the host for TLS NUL
    DO_CONNECT = 1
    # slot, token, data: a whole frame (the correlation id is filled in), then release_bytes of an
    # answer: one that begins so ends a hold of the node. ending, if not 0: it goes when
    # DO_END_TRANSACTION with this token has no record left, instead of ON_TRANSACTION_DRAINED;
    # never if a record failed, or there was none
    DO_SEND = 2
    DO_READY = 3            # slot, produce_version (-1: none usable)
    DO_CLOSE = 4            # slot, timed_out
    DO_LEADERS = 5          # data: LeaderUpdate array
    DO_PRODUCER_ID = 6      # producer_id, producer_epoch
    DO_TOPIC_ID = 7         # topic, data: 16 bytes
    DO_THROTTLE = 8         # slot, throttle_ns (a control response said so)
    DO_FAIL = 9             # code: everything queued fails, later sends too
    METADATA_REFRESHED = 10     # ask again if a leader is still missing
    DO_DISCONNECT_REASON = 11   # slot or -1, data: why the node cannot be used; empty: it can
    # code: everything queued or in flight fails; later sends are welcome. token, item_count: a sum
    # of Purged, if it is not to be everything; answered by ON_PURGED
    DO_ABORT = 12
    DO_PRODUCER_ID_ERROR = 13   # data: why there is no producer id
    DO_HOLD = 14            # slot, is_held
    # slot: of the spare, produce_version: it takes its node's place when nothing is in flight
    DO_SWAP = 15
    # adds_implicitly: the first records add their partitions. is_held: none goes before the
    # transaction before has ended. slot: who knows; data: the question's frame, then release_bytes
    # of its answer, behind the throttle time, while it has not; of these, address_bytes tell that
    # the answer is one
    DO_BEGIN_TRANSACTION = 16
    DO_ADD_PARTITION = 17   # topic, partition: part of the transaction, its records may go
    DO_ABORT_UNDRAINED = 18     # code, data: why; what has never left fails
    # token: no partition joins any more; ON_TRANSACTION_DRAINED once every record has its outcome
    DO_END_TRANSACTION = 19
    # token: of a DO_SEND that ends a transaction; slot, data, address_bytes, release_bytes: the
    # question of DO_BEGIN_TRANSACTION about it, asked as soon as that has its answer
    DO_ASK_BEHIND = 20

cpdef enum:
    # Purged: what `purge` fails.
    PURGE_QUEUED = 1        # what has never left
    PURGE_IN_FLIGHT = 2     # what has, and waits for an answer or to be sent again

cpdef enum EventKind:
    # To the control thread: from the I/O thread, and the last two from any thread.
    ON_CONNECTED = 101      # slot
    # slot, reason, err, bad_size, timed_out, tls_verify, tls_reason;
    # data: of TLS or a proxy, or NULL
    ON_DISCONNECTED = 102
    ON_RESPONSE = 103       # slot, token, data: the payload; NULL: the connection was lost
    ON_CONNECT_WANTED = 104     # slot: there is something to send
    ON_METADATA_WANTED = 105    # topic or NULL, code that asks for it or 0
    ON_LEADER_HINT = 106    # topic, partition, node_id, leader_epoch, data: its host, port
    ON_PRODUCER_ID_WANTED = 107
    ON_FATAL = 108          # code
    ON_FAILED = 109         # topic, partition, code, item_count: records, data: why or NULL
    ON_STOPPED = 110
    ON_PROTOCOL_ERROR = 111     # slot, fault, and what that says
    ON_SWAPPED = 112        # slot: of the spare, whose connection is its node's now
    ON_PARTITION_JOINED = 113   # topic, partition: has its first records of this transaction
    # token, item_count: partitions with sent records, code of the first batch that failed or 0. Not
    # told where a frame waited for it, and went
    ON_TRANSACTION_DRAINED = 114
    ON_QUESTION_REFUSED = 115   # slot: it does not tell whether a transaction has ended
    ON_PURGED = 116         # token, item_count: records that have failed
    ON_WAKE = 200           # look at what is due
    ON_WARM_WANTED = 201    # node_id: connect although there is nothing to send

cpdef enum ProtocolFault:
    FAULT_CORRELATION = 1       # expected, got
    FAULT_UNASKED = 2           # a response to nothing; bad_size
    FAULT_GARBLED = 3           # a Produce response that does not parse; bad_size
    FAULT_MISSING = 4           # item_count: partitions without an answer

cdef struct Event:
    # A command or an event; what its kind does not name is 0.
    #
    # OWNER the queue, then who took it.  FREED BY event_free.
    int32_t kind                # CommandKind or EventKind
    int32_t slot                # of a node
    int32_t node_id
    int32_t home                # of a node
    int32_t reason              # CloseReason
    int32_t err                 # errno or 0
    int32_t fault               # ProtocolFault
    int32_t code                # Kafka's, or a LocalError
    int32_t partition
    int32_t leader_epoch
    int32_t port                # of the leader; -1: the answer named no address
    int32_t expected            # correlation ids
    int32_t got
    int16_t produce_version
    int16_t producer_epoch
    bint timed_out
    int32_t tls_verify          # see Channel
    int32_t tls_reason
    ChannelLayer* tls           # held; NULL: plain TCP
    ChannelLayer* proxy         # held; NULL: none
    bint is_held                # no Produce request leaves to the node, or of the transaction
    bint adds_implicitly
    uint32_t release_bytes
    int64_t token               # the control thread's name for a request
    int64_t ending              # token of the end of a transaction
    int64_t producer_id
    int64_t throttle_ns
    int64_t bad_size            # of a frame
    int64_t item_count          # of records, or of partitions
    uint32_t address_bytes
    Topic* topic                # borrowed
    uint8_t* data               # owned
    int64_t data_bytes
    Event* next

cdef struct EventQueue:
    # OWNER the engine.  THREADS any; guarded by `lock`.
    fp_mutex lock
    fp_cond ready
    Event* head
    Event* tail
    int32_t count               # atomic hint

cdef void event_queue_init(EventQueue* queue) noexcept nogil
cdef void event_queue_destroy(EventQueue* queue) noexcept nogil
# A blank event; NULL: out of memory. `data` is copied when not NULL.
cdef Event* event_new(
    int32_t kind, int32_t slot, const void* data, int64_t data_bytes
) noexcept nogil
cdef void event_free(Event* event) noexcept nogil
# Takes the event; NULL is ignored.
cdef void event_push(EventQueue* queue, Event* event) noexcept nogil
# The kind of the oldest event; 0: there is none.
cdef int32_t event_next_kind(EventQueue* queue) noexcept nogil
# The oldest event, or NULL: none by the deadline (0: do not wait).
cdef Event* event_take(EventQueue* queue, int64_t deadline_ns) noexcept nogil
