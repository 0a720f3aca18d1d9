"""BrokerConfig: every setting of a node, in Kafka's names with underscores, checked once.

Source: contract B-A1; defaults are Apache Kafka's unless the line says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fastprod.errors import ConfigError
from fastprod.frozen import FrozenRecord

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_VALIDATIONS = ("full", "crc", "none")
_SYNCS = ("never", "batch", "interval")


class Setting(NamedTuple):
    """What there is to know of a setting.

    Attributes:
        default: its value, if none is given.
        rule: what its values can be; "doc" says what it is for.
    """

    default: Any
    rule: Mapping[str, Any]


def _int(default: int, doc: str, low: int = 0, high: int = INT32_MAX) -> Any:
    return Setting(default, {"low": low, "high": high, "doc": doc})


def _long(default: int, doc: str, low: int = 0) -> Any:
    return _int(default, doc, low, INT64_MAX)


def _flag(default: bool, doc: str) -> Any:
    return Setting(default, {"kind": bool, "doc": doc})


def _choice(default: str, choices: tuple[str, ...], doc: str) -> Any:
    return Setting(default, {"choices": choices, "doc": doc})


def _text(doc: str) -> Any:
    return Setting("", {"kind": str, "doc": doc})


def _optional_ms(doc: str) -> Any:
    return Setting(None, {"low": 0, "high": INT32_MAX, "optional": True, "doc": doc})


class BrokerConfig(FrozenRecord):
    """The settings of a node. Times in milliseconds, sizes in bytes; immutable, any thread.

    Raises:
        ConfigError: a value of the wrong type, or out of its range; `key`, `value`, `low` and
            `high` hold the facts.
    """

    # Network (B-A1).
    num_network_threads: int = _int(1, "Processors per listener; Kafka: 3", 1, 64)
    num_io_threads: int = _int(
        0, "request handlers; 0: inside the Processor (B-A11); Kafka: 8", 0, 64
    )
    queued_max_requests: int = _int(500, "requests that may wait for a handler", 1)
    queued_max_request_bytes: int = _long(
        536_870_912,
        "what requests of 64 KiB and more may take together from their first byte until they are "
        "answered; never less than one largest request; -1: no bound; Kafka: -1",
        -1,
    )
    socket_send_buffer_bytes: int = _int(102_400, "SO_SNDBUF; -1: the system's", -1)
    socket_receive_buffer_bytes: int = _int(102_400, "SO_RCVBUF; -1: the system's", -1)
    socket_request_max_bytes: int = _int(104_857_600, "a larger request closes its connection", 1)
    socket_listen_backlog_size: int = _int(
        1024, "connections that may wait to be accepted; more wait a second or longer; Kafka: 50", 1
    )
    max_connections: int = _int(INT32_MAX, "connections of a node", 0)
    max_connections_per_ip: int = _int(INT32_MAX, "connections of one address", 0)
    max_connections_per_ip_overrides: str = _text("host:count,host:count")
    max_connection_creation_rate: int = _int(INT32_MAX, "new connections a second", 1)
    connections_max_idle_ms: int = _long(600_000, "an idle connection is closed after this", 1)
    connections_max_reauth_ms: int = _long(
        0, "a client of a SASL listener authenticates again within this; 0: it need not"
    )
    connection_failed_authentication_delay_ms: int = _int(
        100, "a failed authentication is answered, and its connection closed, after this"
    )
    super_users: str = _text(
        "principals that may do everything: User:a;User:b; with one, others may do nothing but "
        "what an ACL allows, from the start"
    )
    allow_everyone_if_no_acl_found: bool = _flag(
        False, "everybody may use what no ACL is about; without ACLs and super_users all may all"
    )
    quota_window_num: int = _int(11, "windows of a rate", 2)
    quota_window_size_seconds: int = _int(1, "seconds of one window", 1)
    fetch_max_bytes: int = _int(57_671_680, "most bytes of records in one Fetch answer", 1024)

    # Topics.
    auto_create_topics_enable: bool = _flag(True, "Metadata creates a topic it is asked about")
    num_partitions: int = _int(1, "partitions of a topic made without a number", 1, 100_000)
    max_partitions: int = _int(
        200_000, "partitions of all topics, any client can make some; Kafka has no such bound", 1
    )
    default_replication_factor: int = _int(
        1, "replicas of a topic made without a number", 1, 32_767
    )
    clamp_replication: bool = _flag(
        True, "a replication factor above the number of nodes is lowered, not refused (B-D4.7)"
    )
    min_insync_replicas: int = _int(1, "acks=all needs so many replicas in sync", 1)
    replica_lag_time_max_ms: int = _long(
        30_000, "a follower that has lagged for so long is not in sync", 1
    )
    replica_fetch_max_bytes: int = _int(
        1_048_576, "bytes that a follower fetches of a partition at once; a larger batch whole", 1
    )
    request_timeout_ms: int = _int(
        30_000, "markers of an admin wait so long for the replicas in sync (WriteTxnMarkers)", 1
    )
    replica_high_watermark_checkpoint_interval_ms: int = _long(
        5000, "with files: a high watermark is written down so long after it has moved", 1
    )
    unclean_leader_election_enable: bool = _flag(
        False, "a replica that is not in sync leads rather than none; what it lacks is lost"
    )

    # Groups (B-E2).
    group_min_session_timeout_ms: int = _int(6000, "shortest session that a member may ask for")
    group_max_session_timeout_ms: int = _int(1_800_000, "longest session that a member may ask for")
    group_initial_rebalance_delay_ms: int = _int(
        0, "so long an empty group waits for more members; Kafka: 3000"
    )
    group_max_size: int = _int(INT32_MAX, "members of a group", 1)
    group_consumer_session_timeout_ms: int = _int(
        45_000, "session of a member of a group that the broker assigns (B-E3)", 1
    )
    group_consumer_heartbeat_interval_ms: int = _int(
        500, "such a member is told to come again after this; Kafka: 5000", 1
    )
    group_consumer_max_size: int = _int(INT32_MAX, "members of such a group", 1)
    group_consumer_assignment_interval_ms: int = _int(
        0, "so long the partitions of such a group are not shared anew; Kafka: 1000"
    )
    group_consumer_regex_refresh_interval_ms: int = _int(
        600_000, "what its regular expressions match is looked at so often, at least", 10_000
    )
    offset_metadata_max_bytes: int = _int(4096, "what a client may note with an offset")
    offsets_retention_minutes: int = _int(
        10_080, "offsets of a group without members are kept so long", 1
    )
    offsets_retention_check_interval_ms: int = _long(
        600_000, "while there are groups, old offsets are looked for so often", 1
    )
    offsets_topic_num_partitions: int = _int(50, "partitions of __consumer_offsets", 1, 100_000)
    offsets_topic_replication_factor: int = _int(
        3, "replicas of __consumer_offsets; fewer if there are fewer nodes", 1, 32_767
    )

    # Transactions (B-E4).
    transaction_max_timeout_ms: int = _int(
        900_000, "longest time-out of transactions that a producer may ask for", 1
    )
    transactional_id_expiration_ms: int = _int(
        604_800_000, "a transactional id without a transaction is kept so long", 1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _int(
        3_600_000, "while there are transactional ids, old ones are looked for so often", 1
    )
    transaction_state_log_num_partitions: int = _int(
        50, "partitions of __transaction_state", 1, 100_000
    )
    transaction_state_log_replication_factor: int = _int(
        3, "replicas of __transaction_state; fewer if there are fewer nodes", 1, 32_767
    )
    transaction_state_log_min_isr: int = _int(
        2, "so many replicas of __transaction_state must be in sync, or all that it has", 1, 32_767
    )

    # Log.
    message_max_bytes: int = _int(1_048_588, "largest batch, header included")
    log_segment_bytes: int = _int(1_073_741_824, "a segment is rolled at this size", 1_048_576)
    log_roll_ms: int = _long(604_800_000, "a segment is rolled at this age", 1)
    log_retention_ms: int = _long(604_800_000, "records are kept so long; -1: for ever", -1)
    log_retention_bytes: int = _long(-1, "a partition keeps so much; -1: everything", -1)
    log_retention_check_interval_ms: int = _long(
        300_000, "retention follows an append by so much; Kafka: runs so often", 1
    )
    log_index_interval_bytes: int = _int(4096, "bytes between two index entries")
    log_index_size_max_bytes: int = _int(10_485_760, "largest index of a segment", 4)
    log_cleanup_policy: str = _choice("delete", ("delete", "compact", "compact,delete"), "policy")
    log_cleaner_enable: bool = _flag(True, "logs with cleanup.policy=compact are compacted")
    log_cleaner_backoff_ms: int = _long(
        15_000, "compaction is looked at so long after an append; Kafka: so often", 1
    )
    log_cleaner_dedupe_buffer_size: int = _long(
        16_777_216, "memory for the keys of a log that is compacted; Kafka: 134217728", 1_048_576
    )
    log_message_timestamp_type: str = _choice(
        "CreateTime", ("CreateTime", "LogAppendTime"), "whose clock stamps the records"
    )
    log_message_timestamp_before_max_ms: int = _long(INT64_MAX, "how old CreateTime may be")
    log_message_timestamp_after_max_ms: int = _long(3_600_000, "how far ahead CreateTime may be")
    producer_id_expiration_ms: int = _int(86_400_000, "an idle producer is forgotten after this", 1)
    producer_batches_remembered: int = _int(
        5, "batches a partition knows a producer by (B-C6.5); Kafka has no such setting", 1, 1000
    )
    validation: str = _choice("full", _VALIDATIONS, "how closely a batch is looked at (B-D1.3)")
    sync: str = _choice("never", _SYNCS, "when a log with files calls fsync (B-C8.1)")
    sync_interval_ms: int = _int(1000, "an fsync follows an append by so much, with interval", 1)
    discard: bool = _flag(False, "validate and answer, but keep no records: for measurements")

    # Settings that Kafka does not have.
    fetch_wait_cap_ms: int | None = _optional_ms("no long poll is longer; None: as asked (B-B2.0)")
    metadata_lag_ms: int = _int(
        0, "a new topic answers LEADER_NOT_AVAILABLE for so long (B-D4.2); 0: usable at once"
    )
    show_internal_topics: bool = _flag(
        False, "Metadata of all topics names the broker's own, as Kafka does"
    )
    request_log_size: int = _int(10_000, "requests remembered by Broker.requests; 0: none")

    def __init__(self, **settings: Any) -> None:
        defaults = {name: setting.default for name, setting in SETTINGS.items()}
        super().__init__(**(defaults | settings))
        for name, setting in SETTINGS.items():
            _check(name, getattr(self, name), setting.rule)

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> BrokerConfig:
        """Return the config with `settings` in place of the defaults; a dotted name is fine.

        Raises:
            ConfigError: no such setting (`key`, and `suggestion` if one is spelled like it), or as
                the class.
        """
        chosen: dict[str, Any] = {}
        for key, value in settings.items():
            name = key.replace(".", "_")
            if name not in SETTINGS:
                # Here: nobody needs it who makes no mistake.
                import difflib  # noqa: PLC0415

                close = difflib.get_close_matches(name, SETTINGS, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise ConfigError(
                    f"a broker has no setting {key!r}{hint}",
                    key=key,
                    suggestion=close[0] if close else None,
                )
            chosen[name] = value
        return cls(**chosen)


SETTINGS: Final[Mapping[str, Setting]] = {
    name: vars(BrokerConfig)[name] for name in BrokerConfig.__match_args__
}
"""All settings, by name."""


def _check(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    if "choices" in rule:
        if value not in rule["choices"]:
            raise ConfigError(
                f"{name} is {value!r}; it can be {' or '.join(map(repr, rule['choices']))}",
                key=name,
                value=value,
            )
    elif "kind" in rule:
        if not isinstance(value, rule["kind"]):
            raise ConfigError(
                f"{name} is {value!r}; it must be a {rule['kind'].__name__}", key=name, value=value
            )
    elif value is None and rule.get("optional"):
        return
    elif isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} is {value!r}; it must be a whole number", key=name, value=value)
    elif not rule["low"] <= value <= rule["high"]:
        raise ConfigError(
            f"{name} is {value:,}; it must be from {rule['low']:,} to {rule['high']:,}",
            key=name,
            value=value,
            low=rule["low"],
            high=rule["high"],
        )
