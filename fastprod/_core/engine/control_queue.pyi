"""What Python sees of `control_queue`: the events for the control thread."""

from enum import IntEnum
from typing import NamedTuple

class EventKind(IntEnum):
    """What an event is, and which of its fields say more; see control_queue.pxd."""

    ON_CONNECTED = ...
    ON_DISCONNECTED = ...
    ON_RESPONSE = ...
    ON_CONNECT_WANTED = ...
    ON_METADATA_WANTED = ...
    ON_LEADER_HINT = ...
    ON_PRODUCER_ID_WANTED = ...
    ON_FATAL = ...
    ON_FAILED = ...
    ON_STOPPED = ...
    ON_PROTOCOL_ERROR = ...
    ON_SWAPPED = ...
    ON_PARTITION_JOINED = ...
    ON_TRANSACTION_DRAINED = ...
    ON_QUESTION_REFUSED = ...
    ON_PURGED = ...
    ON_WAKE = ...
    ON_WARM_WANTED = ...

PURGE_QUEUED: int
PURGE_IN_FLIGHT: int

class ProtocolFault(IntEnum):
    """What is wrong with an answer."""

    FAULT_CORRELATION = ...
    FAULT_UNASKED = ...
    FAULT_GARBLED = ...
    FAULT_MISSING = ...

class ControlEvent(NamedTuple):
    """One event. What its kind does not name is meaningless.

    Attributes:
        kind: an `EventKind`.
        slot: of a node.
        token: what `Engine.send_frame`, `end_transaction` or `abort_pending` was given.
        node_id: of a leader, or of the node to connect to.
        topic: its name.
        partition: its number.
        leader_epoch: of the leader.
        port: of the leader; -1: unknown.
        code: of an error, Kafka's or a `LocalError`.
        item_count: of records, or of partitions.
        reason: a `CloseReason`.
        err: an errno, or 0.
        bad_size: size of the frame that was wrong, in bytes.
        timed_out: a request was not answered in time.
        fault: a `ProtocolFault`.
        expected: the correlation id that was due.
        got: the one that came.
        data: an answer without its size, a host name or a text; None: there is none.
        tls_verify: OpenSSL's X509_V_ERR_ of a certificate that was refused, or 0.
        tls_reason: OpenSSL's SSL_R_ of a failure of TLS, 1000 + its number for an alert, or 0.
    """

    kind: int
    slot: int = -1
    token: int = 0
    node_id: int = -1
    topic: str | None = None
    partition: int = 0
    leader_epoch: int = -1
    port: int = -1
    code: int = 0
    item_count: int = 0
    reason: int = 0
    err: int = 0
    bad_size: int = 0
    timed_out: bool = False
    fault: int = 0
    expected: int = 0
    got: int = 0
    data: bytes | None = None
    tls_verify: int = 0
    tls_reason: int = 0
