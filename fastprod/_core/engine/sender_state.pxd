"""Everything the I/O thread of one producer owns. Structures, and what other threads may see of
them; the work is in drain, completion and sender."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.bytes.sync cimport (
    fp_load_i32_acq, fp_load_ptr, fp_mutex, fp_store_i64, fp_wake,
)
from fastprod._core.delivery.result cimport Result
from fastprod._core.engine.accumulator cimport Accumulator, Partition, PartitionList, Topic
from fastprod._core.engine.control_queue cimport Event, EventQueue
from fastprod._core.transaction.awaited_end cimport AwaitedEnd
from fastprod._core.engine.histogram cimport Histogram
from fastprod._core.engine.in_flight cimport InFlightRequests, REQUEST_KINDS, Request
from fastprod._core.engine.produce_codec cimport ProduceHeader
from fastprod._core.engine.timer_heap cimport TimerHeap
from fastprod._core.io.channel cimport Channel, Transport
from fastprod._core.io.layer cimport LayerTicket
from fastprod._core.io.selector cimport Selector
from fastprod._core.records.record_batch cimport Sealer

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_t:
        pass

cdef enum:
    MAX_NODES = 4096            # slots; the array never moves, so that other threads may look

cdef enum NodeState:
    NODE_DOWN = 0
    NODE_CONNECTING = 1
    NODE_HANDSHAKE = 2      # connected; the control thread speaks (ApiVersions)
    NODE_READY = 3

cdef enum StopMode:
    RUN = 0
    DRAIN_AND_STOP = 1
    STOP_NOW = 2

cdef struct NodeCounters:
    # Written by the I/O thread, read by anybody (relaxed).
    int64_t requests            # of every kind
    int64_t request_bytes
    int64_t largest_request     # since it was last taken
    int64_t responses           # of every kind
    int64_t sent_bytes          # up to the last turn of the loop
    int64_t received_bytes
    int64_t past_sent_bytes     # of connections that are gone
    int64_t past_received_bytes
    Histogram latency           # send-to-response of Produce

cdef struct FillingHabit:
    # Whether batches that fill fast get full when they are waited for. THREADS the I/O thread.
    int64_t awaited             # `created_ns` of the batch that is; 0: none
    int64_t left_alone          # `created_ns` of the last that was not
    int32_t missed              # how often in a row one was not full in time
    int32_t skips               # batches that are left alone until the next is waited for

cdef struct Node:
    # One broker address, by slot. The control thread maps node ids to slots.
    #
    # Or a spare connection to a node, its home: it authenticates and then takes the place of the
    # node's, whose session ends (KIP-368). No partition is led by a spare, and no records go to it;
    # its requests and bytes count as its node's.
    #
    # OWNER    IoThread.nodes.   THREADS the I/O thread; others read what `node_seen`
    # finds, state, throttled_until_ns and flights.count by acquiring loads, figures as they are.
    int32_t slot
    int32_t node_id
    int32_t state               # NodeState
    Node* home                  # borrowed; the node itself, or the one that it is a spare of
    Node* successor             # borrowed; its spare that takes its place when that can be, or NULL
    Channel* channel            # borrowed from the selector; NULL while down
    int16_t produce_version     # -1: none in common
    char* name                  # owned; host:port, or NULL before the first connect
    char* disconnect_reason     # owned; why it could not be used since its last answer, or NULL
    LayerTicket ticket          # for its next connection by TLS
    int32_t next_correlation
    bint connect_asked          # ON_CONNECT_WANTED is out; cleared when the state changes
    int64_t throttled_until_ns
    bint is_held                # it authenticates anew: no Produce request leaves (KIP-368)
    int64_t last_ready_ns       # P-C.5.7
    int64_t last_drain_ns
    int64_t gathered_ns         # adaptive linger: when a batch was last seen behind a request
    FillingHabit filling
    InFlightRequests flights
    # The partitions it leads that have something queued or in flight, each on one list (P-D.7.1):
    PartitionList due           # the first batch is to go
    PartitionList lingering     # it may go if a request goes anyway
    PartitionList held          # it may not: backoff, order, sequence (P-D.6.2, P-D.7.2, P-D.7.4)
    PartitionList resting       # nothing is queued
    int32_t active_count        # on all of them
    NodeCounters counters

cdef struct IoThread        # below

cdef struct RequestHandler:
    # What becomes of requests of one kind; connections know nothing else of what is in them.
    # The request is given back to the spare ones by who calls. THREADS the I/O thread.

    # An answer, correlation id included. FP_PROTOCOL: it does not parse, and nothing was believed;
    # the connection ends, and `lost` follows.
    FpStatus (*answered)(
        IoThread* io, Node* node, Request* request, const uint8_t* data, size_t size
    ) noexcept nogil
    # No answer will come: Kafka's `code`, and `why` in words.
    void (*lost)(
        IoThread* io, Node* node, Request* request, int32_t code, const char* why
    ) noexcept nogil
    # It left, and no answer was asked for.
    void (*unanswered)(IoThread* io, Node* node, Request* request) noexcept nogil

cdef struct Counters:
    # Written by the I/O thread, read by anybody (relaxed).
    int64_t records_sent        # handed to requests, retries again
    int64_t records_acked
    int64_t records_failed
    int64_t records_aborted     # of these: thrown away by close
    int64_t records_retried
    int64_t batches_sent
    int64_t batches_split
    int64_t batch_bytes         # wire bytes of batches sent
    int64_t plain_bytes         # the same before compression
    int64_t ratio_millionths    # sum over the batches of the one by the other
    int64_t batch_record_bytes  # sum over the batches of their largest record
    int64_t requests_sent
    int64_t produce_requests
    int64_t responses           # to Produce
    int64_t places_compared     # batches of a request that an answer's partition was held against
    int64_t request_bytes
    int64_t throttle_ms
    int64_t connections_opened
    int64_t connections_made    # of these: established
    int64_t connections_closed
    int64_t io_ns               # time in the kernel, or moving bytes; waiting is not in it
    int64_t loops
    int64_t caller_sends        # times that a caller has sent what was ready itself
    int64_t caller_waits        # times that a caller has slept at a socket itself
    int64_t looks               # at a partition: may its first batch go?
    int64_t epoch_bumps
    int64_t expired
    int64_t last_ack_ns         # CLOCK_MONOTONIC of the latest acknowledgement; 0: none

cdef struct Maxima:
    # Since they were last taken (see raise_maximum).
    int64_t largest_batch       # wire bytes
    int64_t largest_record      # bytes
    int64_t longest_throttle_ms

cdef struct LentSocket:
    # The socket that the poller leaves to a caller: see lent_socket.pxd.
    # OWNER    the IoThread, of which it is a part.   THREADS guarded by its loop_lock.
    Node* node                  # borrowed; whose it is; NULL: none is lent
    uint64_t channel_id         # the node's channel then
    Result* result              # borrowed; what a caller waits for at it; NULL: nobody is there
    bint is_called              # that caller was told by `wake` to look at its result and channel
    fp_wake wake
    int guard_fd                # a timer that wakes the I/O thread; -1: none yet
    int64_t guard_ns            # when it does

# How many records came when the next request waited for those of the threads that had been woken.
cdef struct GatherHabit:
    int32_t awaited             # records that the last one waited for
    int32_t most                # waits for no more: no more came the last time; 0: for all
    int32_t kept_count          # requests since then for which no time was lost
    int32_t trial_after         # so many of them, and the next one waits for all again


cdef struct IoThread:
    # OWNER    the engine.   FREED BY the engine after the thread has ended.
    # THREADS  who holds `loop_lock`, the I/O thread but while it sleeps; but for what says
    #          otherwise. Settings are constant.
    fp_mutex loop_lock
    bint is_turning             # the I/O thread runs its loop: callers may drive
    int64_t asleep_until_ns     # when it will look again if nobody wakes it
    int64_t driven_ns           # when a caller last drove
    LentSocket lent
    Accumulator* accumulator    # borrowed
    Selector selector
    const Transport* transport  # borrowed; of every connection that is not by TLS
    Sealer sealer
    EventQueue commands         # any thread pushes, we take
    EventQueue events           # we push, the control thread takes
    ProduceHeader header
    RequestHandler handlers[REQUEST_KINDS]  # by RequestKind; constant
    # settings
    int32_t max_in_flight
    int64_t linger_ns           # bound when adaptive
    bint adaptive
    int64_t request_timeout_ns
    int64_t delivery_timeout_ns
    int64_t retry_backoff_ns
    int64_t retry_backoff_max_ns
    int32_t retries
    int64_t max_request_bytes
    int64_t availability_timeout_ns
    int64_t max_idle_ns
    int32_t send_buffer_bytes
    int32_t receive_buffer_bytes
    bint idempotent
    bint is_transactional
    bint guarantee_order
    # state
    pthread_t thread
    bint is_running             # the engine's: the thread was started and not joined
    int32_t stop                # atomic: StopMode
    char* disconnect_reason     # owned; the latest of any node, or NULL
    int64_t producer_id         # -1: none
    int16_t producer_epoch
    char* producer_id_error     # owned; why there is none, or NULL
    bint asked_producer_id
    bint asked_metadata
    int32_t fatal_code          # atomic; 0: none
    int64_t transaction         # number of the one that is open or was the last; 0: none yet
    bint in_transaction         # partitions may join it
    bint adds_implicitly        # by their first Produce request, not AddPartitionsToTxn (KIP-890)
    bint transaction_is_held    # the one before is still being ended: nothing of it leaves
    Event* question             # owned; asks whether it has ended; NULL: of no transaction yet
    int64_t question_number     # of those that were asked of one end after the other
    bint is_asked_ahead         # of an end behind which no transaction has begun
    int64_t ahead_until_ns      # so long
    Event* next_question        # owned; of an end that has no answer, or NULL
    bint question_is_out        # and has no answer
    int32_t question_count      # answers that it has not
    int64_t question_due_ns
    int32_t sent_count          # partitions that something of the transaction has left for
    Partition* joining          # borrowed; those that the control thread has to be told of
    int32_t transaction_code    # what the transaction's first failed batch failed with; 0: none
    int64_t ending              # token of who waits for its end; 0: nobody (DO_END_TRANSACTION)
    Event* end_request          # owned; a DO_SEND that goes at this end, or NULL
    AwaitedEnd awaited_end      # any thread
    Node** nodes                # owned; by slot
    int32_t node_count
    Node limbo                  # partitions without a known leader
    Request* spare_requests     # owned
    Event* postponed            # owned; control frames for connections that are full
    bint has_successors         # some node may have one
    int64_t now_ns              # time of this turn of the loop
    int64_t wake_ns             # when the next turn is due
    uint64_t random_state
    Partition* touched          # borrowed; to be looked at
    int32_t listed_count        # partitions on some node's list
    bint is_filling             # this turn found a batch that is soon full: see ready_list
    int64_t gather_until_ns     # what is ready waits for other records so long; 0: it does not
    GatherHabit gather_habit
    TimerHeap waits             # their linger and backoff
    TimerHeap expiries
    Topic** busy                # owned; topics whose load table somebody may use
    int32_t busy_count
    int32_t busy_capacity
    int32_t* load               # owned scratch for the load tables
    int32_t load_capacity
    int64_t load_at_ns          # when the tables were last made
    Counters counters
    Maxima maxima
    Histogram queue_time        # creation-to-drain of batches
    Histogram latency           # send-to-response of Produce
    Histogram ack_time          # of records: their batch's creation-to-acknowledgement


# The node in `slot`, for other threads than the one that has the loop; NULL: there is none yet.
cdef inline Node* node_seen(IoThread* io, int32_t slot) noexcept nogil:
    if not 0 <= slot < fp_load_i32_acq(&io.node_count):
        return NULL
    return <Node*>fp_load_ptr(<void**>&io.nodes[slot])


# The same; NULL also for a spare connection, whose figures are its home's.
cdef inline Node* node_known(IoThread* io, int32_t slot) noexcept nogil:
    cdef Node* node = node_seen(io, slot)
    return node if node != NULL and node.home == node else NULL


# Leave it alone until then, or until the later moment that was asked for before (P-G.8).
cdef inline void node_throttle(Node* node, int64_t until_ns) noexcept nogil:
    fp_store_i64(&node.throttled_until_ns, max(node.throttled_until_ns, until_ns))
