"""Kafka's error codes: name, flags and a sentence for each.

Source of codes and flags: `org.apache.kafka.common.protocol.Errors` of Apache Kafka 4.3.0 and the
exceptions it names (`retriable` is RetriableException, `refresh_metadata` is
InvalidMetadataException); `fatal_for_idempotent` is contract P-F.4.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# Those that the code names.
UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
BROKER_NOT_AVAILABLE: Final = 8
MESSAGE_TOO_LARGE: Final = 10
OFFSET_METADATA_TOO_LARGE: Final = 12
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
INVALID_TOPIC_EXCEPTION: Final = 17
RECORD_LIST_TOO_LARGE: Final = 18
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
INVALID_REQUIRED_ACKS: Final = 21
ILLEGAL_GENERATION: Final = 22
INCONSISTENT_GROUP_PROTOCOL: Final = 23
INVALID_GROUP_ID: Final = 24
UNKNOWN_MEMBER_ID: Final = 25
INVALID_SESSION_TIMEOUT: Final = 26
REBALANCE_IN_PROGRESS: Final = 27
INVALID_COMMIT_OFFSET_SIZE: Final = 28
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_PARTITIONS: Final = 37
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_REPLICA_ASSIGNMENT: Final = 39
INVALID_CONFIG: Final = 40
NOT_CONTROLLER: Final = 41
INVALID_REQUEST: Final = 42
UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTION_COORDINATOR_FENCED: Final = 52
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
OPERATION_NOT_ATTEMPTED: Final = 55
KAFKA_STORAGE_ERROR: Final = 56
SASL_AUTHENTICATION_FAILED: Final = 58
UNKNOWN_PRODUCER_ID: Final = 59
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
FETCH_SESSION_ID_NOT_FOUND: Final = 70
LISTENER_NOT_FOUND: Final = 72
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
OFFSET_NOT_AVAILABLE: Final = 78
MEMBER_ID_REQUIRED: Final = 79
PREFERRED_LEADER_NOT_AVAILABLE: Final = 80
GROUP_MAX_SIZE_REACHED: Final = 81
FENCED_INSTANCE_ID: Final = 82
ELIGIBLE_LEADERS_NOT_AVAILABLE: Final = 83
ELECTION_NOT_NEEDED: Final = 84
NO_REASSIGNMENT_IN_PROGRESS: Final = 85
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
INVALID_RECORD: Final = 87
UNSTABLE_OFFSET_COMMIT: Final = 88
PRODUCER_FENCED: Final = 90
RESOURCE_NOT_FOUND: Final = 91
DUPLICATE_RESOURCE: Final = 92
UNACCEPTABLE_CREDENTIAL: Final = 93
UNKNOWN_TOPIC_ID: Final = 100
TRANSACTIONAL_ID_NOT_FOUND: Final = 105
FENCED_MEMBER_EPOCH: Final = 110
UNRELEASED_INSTANCE_ID: Final = 111
UNSUPPORTED_ASSIGNOR: Final = 112
STALE_MEMBER_EPOCH: Final = 113
MISMATCHED_ENDPOINT_TYPE: Final = 114
TRANSACTION_ABORTABLE: Final = 120
INVALID_REGULAR_EXPRESSION: Final = 128
REBOOTSTRAP_REQUIRED: Final = 129


class ErrorRow(NamedTuple):
    """What Kafka says about one error code."""

    name: str
    retriable: bool
    refresh_metadata: bool
    fatal_for_idempotent: bool
    text: str


_PLAIN = (False, False, False)
_RETRY = (True, False, False)
_REFRESH = (True, True, False)
_FATAL = (False, False, True)


def _row(name: str, flags: tuple[bool, bool, bool], text: str = "") -> ErrorRow:
    return ErrorRow(name, *flags, text)


# A row without text has a name that says it, or belongs to requests a producer never sends.
KAFKA_ERRORS: dict[int, ErrorRow] = {
    -1: _row("UNKNOWN_SERVER_ERROR", _PLAIN, "the broker failed; its log says why"),
    0: _row("NONE", _PLAIN),
    1: _row("OFFSET_OUT_OF_RANGE", _PLAIN),
    2: _row("CORRUPT_MESSAGE", _RETRY, "the batch arrived damaged, or its format is refused"),
    3: _row("UNKNOWN_TOPIC_OR_PARTITION", _REFRESH, "the broker has no such topic or partition"),
    4: _row("INVALID_FETCH_SIZE", _PLAIN),
    5: _row("LEADER_NOT_AVAILABLE", _REFRESH, "the partition has no leader at the moment"),
    6: _row("NOT_LEADER_OR_FOLLOWER", _REFRESH, "the partition's leader is another broker"),
    7: _row("REQUEST_TIMED_OUT", _RETRY, "no answer in time; the records may have been written"),
    8: _row("BROKER_NOT_AVAILABLE", _PLAIN),
    9: _row("REPLICA_NOT_AVAILABLE", _REFRESH),
    10: _row(
        "MESSAGE_TOO_LARGE",
        _PLAIN,
        "larger than the topic's max.message.bytes: raise that limit, or send smaller records",
    ),
    11: _row("STALE_CONTROLLER_EPOCH", _PLAIN),
    12: _row(
        "OFFSET_METADATA_TOO_LARGE",
        _PLAIN,
        "an offset's metadata is longer than the brokers' offset.metadata.max.bytes",
    ),
    13: _row(
        "NETWORK_EXCEPTION", _REFRESH, "the connection broke; the records may have been written"
    ),
    14: _row("COORDINATOR_LOAD_IN_PROGRESS", _RETRY),
    15: _row("COORDINATOR_NOT_AVAILABLE", _RETRY),
    16: _row("NOT_COORDINATOR", _RETRY, "the coordinator moved to another broker"),
    17: _row(
        "INVALID_TOPIC_EXCEPTION",
        _PLAIN,
        "not a usable topic name (1..249 characters of [a-zA-Z0-9._-], and no internal topic)",
    ),
    18: _row(
        "RECORD_LIST_TOO_LARGE",
        _PLAIN,
        "the batch exceeds the topic's segment.bytes: lower batch_size",
    ),
    19: _row(
        "NOT_ENOUGH_REPLICAS", _RETRY, "fewer replicas in sync than min.insync.replicas asks for"
    ),
    20: _row(
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        _RETRY,
        "written, but by fewer in-sync replicas than min.insync.replicas asks for",
    ),
    21: _row("INVALID_REQUIRED_ACKS", _PLAIN, "the broker knows only acks -1, 0 and 1"),
    22: _row("ILLEGAL_GENERATION", _PLAIN),
    23: _row("INCONSISTENT_GROUP_PROTOCOL", _PLAIN),
    24: _row("INVALID_GROUP_ID", _PLAIN),
    25: _row("UNKNOWN_MEMBER_ID", _PLAIN),
    26: _row("INVALID_SESSION_TIMEOUT", _PLAIN),
    27: _row("REBALANCE_IN_PROGRESS", _PLAIN),
    28: _row("INVALID_COMMIT_OFFSET_SIZE", _PLAIN),
    29: _row("TOPIC_AUTHORIZATION_FAILED", _PLAIN, "the broker's ACLs do not let us write here"),
    30: _row("GROUP_AUTHORIZATION_FAILED", _PLAIN),
    31: _row(
        "CLUSTER_AUTHORIZATION_FAILED",
        _FATAL,
        "the broker's ACLs refuse it; grant IDEMPOTENT_WRITE, or set enable_idempotence=False",
    ),
    32: _row("INVALID_TIMESTAMP", _PLAIN, "further from the broker's clock than the topic allows"),
    33: _row("UNSUPPORTED_SASL_MECHANISM", _PLAIN),
    34: _row("ILLEGAL_SASL_STATE", _PLAIN),
    35: _row("UNSUPPORTED_VERSION", _FATAL, "the broker is too old, or too new, for this request"),
    36: _row("TOPIC_ALREADY_EXISTS", _PLAIN),
    37: _row("INVALID_PARTITIONS", _PLAIN),
    38: _row("INVALID_REPLICATION_FACTOR", _PLAIN),
    39: _row("INVALID_REPLICA_ASSIGNMENT", _PLAIN),
    40: _row("INVALID_CONFIG", _PLAIN),
    41: _row("NOT_CONTROLLER", _RETRY),
    42: _row("INVALID_REQUEST", _PLAIN, "the broker could not make sense of the request"),
    43: _row("UNSUPPORTED_FOR_MESSAGE_FORMAT", _PLAIN, "the topic's message format is too old"),
    44: _row("POLICY_VIOLATION", _PLAIN, "a policy on the broker refuses it"),
    45: _row(
        "OUT_OF_ORDER_SEQUENCE_NUMBER", _PLAIN, "an earlier batch of this producer is missing"
    ),
    46: _row("DUPLICATE_SEQUENCE_NUMBER", _PLAIN, "the batch had been written before"),
    47: _row(
        "INVALID_PRODUCER_EPOCH",
        _PLAIN,
        "a newer producer took over this producer's id, or a transaction was open for longer than "
        "transaction_timeout_ms",
    ),
    48: _row(
        "INVALID_TXN_STATE",
        _PLAIN,
        "the broker has no such transaction any more: perhaps it was open for longer than "
        "transaction_timeout_ms",
    ),
    49: _row(
        "INVALID_PRODUCER_ID_MAPPING", _FATAL, "the producer id is no longer ours: make a new one"
    ),
    50: _row(
        "INVALID_TRANSACTION_TIMEOUT",
        _PLAIN,
        "transaction_timeout_ms is above the brokers' limit, their transaction.max.timeout.ms",
    ),
    51: _row("CONCURRENT_TRANSACTIONS", _RETRY),
    52: _row("TRANSACTION_COORDINATOR_FENCED", _PLAIN),
    53: _row(
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        _FATAL,
        "the broker's ACLs refuse this transactional_id: WRITE on it is needed",
    ),
    54: _row("SECURITY_DISABLED", _PLAIN),
    55: _row("OPERATION_NOT_ATTEMPTED", _PLAIN),
    56: _row("KAFKA_STORAGE_ERROR", _REFRESH, "the broker's disk failed"),
    57: _row("LOG_DIR_NOT_FOUND", _PLAIN),
    58: _row("SASL_AUTHENTICATION_FAILED", _PLAIN, "the broker did not accept the credentials"),
    59: _row("UNKNOWN_PRODUCER_ID", _PLAIN, "the broker has forgotten this producer"),
    60: _row("REASSIGNMENT_IN_PROGRESS", _PLAIN),
    61: _row("DELEGATION_TOKEN_AUTH_DISABLED", _PLAIN),
    62: _row("DELEGATION_TOKEN_NOT_FOUND", _PLAIN),
    63: _row("DELEGATION_TOKEN_OWNER_MISMATCH", _PLAIN),
    64: _row("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", _PLAIN),
    65: _row("DELEGATION_TOKEN_AUTHORIZATION_FAILED", _PLAIN),
    66: _row("DELEGATION_TOKEN_EXPIRED", _PLAIN),
    67: _row("INVALID_PRINCIPAL_TYPE", _PLAIN),
    68: _row("NON_EMPTY_GROUP", _PLAIN),
    69: _row("GROUP_ID_NOT_FOUND", _PLAIN),
    70: _row("FETCH_SESSION_ID_NOT_FOUND", _RETRY),
    71: _row("INVALID_FETCH_SESSION_EPOCH", _RETRY),
    72: _row("LISTENER_NOT_FOUND", _REFRESH, "the leader lacks the listener we came in by"),
    73: _row("TOPIC_DELETION_DISABLED", _PLAIN),
    74: _row("FENCED_LEADER_EPOCH", _REFRESH, "our leader epoch is older than the broker's"),
    75: _row("UNKNOWN_LEADER_EPOCH", _RETRY, "our leader epoch is newer than the broker's"),
    76: _row(
        "UNSUPPORTED_COMPRESSION_TYPE",
        _PLAIN,
        "the broker cannot read this compression_type: choose another",
    ),
    77: _row("STALE_BROKER_EPOCH", _PLAIN),
    78: _row("OFFSET_NOT_AVAILABLE", _RETRY),
    79: _row("MEMBER_ID_REQUIRED", _PLAIN),
    80: _row("PREFERRED_LEADER_NOT_AVAILABLE", _REFRESH),
    81: _row("GROUP_MAX_SIZE_REACHED", _PLAIN),
    82: _row("FENCED_INSTANCE_ID", _PLAIN),
    83: _row("ELIGIBLE_LEADERS_NOT_AVAILABLE", _REFRESH),
    84: _row("ELECTION_NOT_NEEDED", _REFRESH),
    85: _row("NO_REASSIGNMENT_IN_PROGRESS", _PLAIN),
    86: _row("GROUP_SUBSCRIBED_TO_TOPIC", _PLAIN),
    87: _row(
        "INVALID_RECORD",
        _PLAIN,
        "the broker refuses the record (a compacted topic, for one, needs a key)",
    ),
    88: _row("UNSTABLE_OFFSET_COMMIT", _RETRY),
    89: _row("THROTTLING_QUOTA_EXCEEDED", _RETRY, "over the broker's quota for now"),
    90: _row(
        "PRODUCER_FENCED",
        _FATAL,
        "a newer producer uses the same transactional_id, or a transaction was open for longer "
        "than transaction_timeout_ms: close this one",
    ),
    91: _row("RESOURCE_NOT_FOUND", _PLAIN),
    92: _row("DUPLICATE_RESOURCE", _PLAIN),
    93: _row("UNACCEPTABLE_CREDENTIAL", _PLAIN),
    94: _row("INCONSISTENT_VOTER_SET", _PLAIN),
    95: _row("INVALID_UPDATE_VERSION", _PLAIN),
    96: _row("FEATURE_UPDATE_FAILED", _PLAIN),
    97: _row("PRINCIPAL_DESERIALIZATION_FAILURE", _PLAIN),
    98: _row("SNAPSHOT_NOT_FOUND", _PLAIN),
    99: _row("POSITION_OUT_OF_RANGE", _PLAIN),
    100: _row("UNKNOWN_TOPIC_ID", _REFRESH, "the topic was deleted, or made anew"),
    101: _row("DUPLICATE_BROKER_REGISTRATION", _PLAIN),
    102: _row("BROKER_ID_NOT_REGISTERED", _PLAIN),
    103: _row("INCONSISTENT_TOPIC_ID", _REFRESH, "the topic was made anew under another id"),
    104: _row("INCONSISTENT_CLUSTER_ID", _PLAIN),
    105: _row("TRANSACTIONAL_ID_NOT_FOUND", _PLAIN),
    106: _row("FETCH_SESSION_TOPIC_ID_ERROR", _RETRY),
    107: _row("INELIGIBLE_REPLICA", _PLAIN),
    108: _row("NEW_LEADER_ELECTED", _PLAIN),
    109: _row("OFFSET_MOVED_TO_TIERED_STORAGE", _PLAIN),
    110: _row("FENCED_MEMBER_EPOCH", _PLAIN),
    111: _row("UNRELEASED_INSTANCE_ID", _PLAIN),
    112: _row("UNSUPPORTED_ASSIGNOR", _PLAIN),
    113: _row("STALE_MEMBER_EPOCH", _PLAIN),
    114: _row("MISMATCHED_ENDPOINT_TYPE", _PLAIN),
    115: _row("UNSUPPORTED_ENDPOINT_TYPE", _PLAIN),
    116: _row("UNKNOWN_CONTROLLER_ID", _PLAIN),
    117: _row("UNKNOWN_SUBSCRIPTION_ID", _PLAIN),
    118: _row("TELEMETRY_TOO_LARGE", _PLAIN),
    119: _row("INVALID_REGISTRATION", _PLAIN),
    120: _row("TRANSACTION_ABORTABLE", _PLAIN, "abort the transaction; the producer stays usable"),
    121: _row("INVALID_RECORD_STATE", _PLAIN),
    122: _row("SHARE_SESSION_NOT_FOUND", _RETRY),
    123: _row("INVALID_SHARE_SESSION_EPOCH", _RETRY),
    124: _row("FENCED_STATE_EPOCH", _PLAIN),
    125: _row("INVALID_VOTER_KEY", _PLAIN),
    126: _row("DUPLICATE_VOTER", _PLAIN),
    127: _row("VOTER_NOT_FOUND", _PLAIN),
    128: _row("INVALID_REGULAR_EXPRESSION", _PLAIN),
    129: _row("REBOOTSTRAP_REQUIRED", _PLAIN, "start again from bootstrap_servers"),
    130: _row("STREAMS_INVALID_TOPOLOGY", _PLAIN),
    131: _row("STREAMS_INVALID_TOPOLOGY_EPOCH", _PLAIN),
    132: _row("STREAMS_TOPOLOGY_FENCED", _PLAIN),
    133: _row("SHARE_SESSION_LIMIT_REACHED", _RETRY),
}
