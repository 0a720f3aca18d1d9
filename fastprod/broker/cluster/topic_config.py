"""TopicConfig: the settings of a topic by Kafka's dotted names, with kinds, ranges and defaults.

Source: TopicConfig and LogConfig of Apache Kafka 4.x; contract B-D4.5, B-D4.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from fastprod.broker.config import INT32_MAX, INT64_MAX, BrokerConfig
from fastprod.broker.log.log_config import LogConfig, Sync, Validation

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Config types of DescribeConfigs v3."""

DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5
"""Config sources of DescribeConfigs v1."""


class InvalidConfigError(ValueError):
    """A topic setting is unknown, of the wrong kind, out of range, or not supported here."""


class TopicSetting(NamedTuple):
    """One setting of a topic.

    Attributes:
        name: Kafka's, with dots.
        kind: config type of DescribeConfigs.
        default: as text.
        low: smallest number allowed.
        high: largest number allowed.
        choices: words allowed; empty: any.
        broker_name: the field of `BrokerConfig` that gives the default, or "".
        doc: one sentence.
    """

    name: str
    kind: int
    default: str
    low: float = 0
    high: float = INT64_MAX
    choices: tuple[str, ...] = ()
    broker_name: str = ""
    doc: str = ""


class TopicConfigEntry(NamedTuple):
    """The value of one setting of a topic, and its source."""

    setting: TopicSetting
    value: str
    source: int


def _integer(
    name: str, default: int, doc: str, low: int = 0, high: int = INT32_MAX, broker: str = ""
) -> TopicSetting:
    return TopicSetting(name, INT, str(default), low, high, (), broker, doc)


def _long(name: str, default: int, doc: str, low: int = 0, broker: str = "") -> TopicSetting:
    return TopicSetting(name, LONG, str(default), low, INT64_MAX, (), broker, doc)


def _word(name: str, default: str, choices: Iterable[str], doc: str, broker: str) -> TopicSetting:
    return TopicSetting(name, STRING, default, 0, 0, tuple(choices), broker, doc)


def _flag(name: str, default: str, doc: str, broker: str = "") -> TopicSetting:
    return TopicSetting(name, BOOLEAN, default, 0, 0, ("true", "false"), broker, doc)


_WEEK_MS = 604_800_000
_DAY_MS = 86_400_000
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"

_ROWS = (
    TopicSetting(
        "cleanup.policy",
        LIST,
        "delete",
        choices=("delete", "compact", "compact,delete", "delete,compact"),
        broker_name="log_cleanup_policy",
        doc="what becomes of old segments, and of records that newer ones of their keys replace",
    ),
    _word(
        "compression.type", "producer", ["producer"], "batches stay as they are sent (B-C2.3)", ""
    ),
    _long("delete.retention.ms", _DAY_MS, "how long compaction keeps tombstones"),
    _long("file.delete.delay.ms", 60_000, "files of a deleted segment stay so long"),
    _long("flush.messages", INT64_MAX, "records between two fsyncs; see the broker's sync", 1),
    _long("flush.ms", INT64_MAX, "time between two fsyncs; see the broker's sync"),
    _integer(
        "index.interval.bytes",
        4096,
        "bytes between two index entries",
        broker="log_index_interval_bytes",
    ),
    _long(
        "max.compaction.lag.ms",
        INT64_MAX,
        "age at which a record is compacted, whatever the ratio",
        1,
    ),
    _integer(
        "max.message.bytes",
        1_048_588,
        "largest batch, header included",
        broker="message_max_bytes",
    ),
    _long(
        _AFTER,
        3_600_000,
        "how far a record's CreateTime may lie ahead",
        broker="log_message_timestamp_after_max_ms",
    ),
    _long(
        _BEFORE,
        INT64_MAX,
        "how far a record's CreateTime may lie back",
        broker="log_message_timestamp_before_max_ms",
    ),
    _word(
        "message.timestamp.type",
        "CreateTime",
        ["CreateTime", "LogAppendTime"],
        "whose clock stamps the records",
        "log_message_timestamp_type",
    ),
    TopicSetting(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        0,
        1,
        doc="a log is compacted when so much of it has not been",
    ),
    _long("min.compaction.lag.ms", 0, "age before which a record is not compacted"),
    _integer(
        "min.insync.replicas",
        1,
        "acks=all needs so many replicas in sync",
        1,
        broker="min_insync_replicas",
    ),
    _flag("preallocate", "false", "whether a segment's file is made in full size"),
    _long(
        "retention.bytes",
        -1,
        "a partition keeps so much; -1: everything",
        -1,
        broker="log_retention_bytes",
    ),
    _long(
        "retention.ms",
        _WEEK_MS,
        "records are kept so long; -1: for ever",
        -1,
        broker="log_retention_ms",
    ),
    _integer(
        "segment.bytes",
        1_073_741_824,
        "a segment is rolled at this size",
        1_048_576,
        broker="log_segment_bytes",
    ),
    _integer(
        "segment.index.bytes",
        10_485_760,
        "largest index of a segment",
        4,
        broker="log_index_size_max_bytes",
    ),
    _long("segment.jitter.ms", 0, "at most so much is taken off segment.ms"),
    _long("segment.ms", _WEEK_MS, "a segment is rolled at this age", 1, broker="log_roll_ms"),
    _flag(
        "unclean.leader.election.enable",
        "false",
        "a replica that is not in sync leads rather than none",
        "unclean_leader_election_enable",
    ),
)

TOPIC_SETTINGS: dict[str, TopicSetting] = {row.name: row for row in _ROWS}
"""By name, in Kafka's alphabetical order."""


def check_value(name: str, value: str | None) -> str:
    """Return `value` in its usual spelling.

    Raises:
        InvalidConfigError: no such setting, or it cannot be that.
    """
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        raise InvalidConfigError(f"Unknown topic config name: {name}")
    if value is None:
        raise InvalidConfigError(f"{name} is null; leave it out for its default")
    if setting.choices:
        return _checked_choice(setting, value)
    return _checked_number(setting, value)


def _checked_choice(setting: TopicSetting, value: str) -> str:
    word = value.strip()
    if setting.kind == BOOLEAN:
        word = word.lower()
    elif setting.kind == LIST:
        word = ",".join(part.strip() for part in word.split(","))
    if word not in setting.choices:
        raise InvalidConfigError(
            f"{setting.name} is {value!r}; this broker knows {' and '.join(setting.choices)}"
        )
    return word


def _checked_number(setting: TopicSetting, value: str) -> str:
    try:
        number = float(value) if setting.kind == DOUBLE else int(value)
    except ValueError:
        raise InvalidConfigError(f"{setting.name} is {value!r}; it must be a number") from None
    if not setting.low <= number <= setting.high:
        raise InvalidConfigError(
            f"{setting.name} is {value}; it must be from {setting.low:,} to {setting.high:,}"
        )
    return str(number)


class TopicConfig:
    """The settings of one topic, over the broker's defaults. Immutable: any thread.

    Args:
        broker: gives the defaults.
        overrides: Kafka's names and values as text.

    Raises:
        InvalidConfigError: as `check_value`.
    """

    __slots__ = ("_broker", "_log_config", "overrides")

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str | None]) -> None:
        self._broker = broker
        self._log_config: LogConfig | None = None
        self.overrides: dict[str, str] = {
            name: check_value(name, value) for name, value in sorted(overrides.items())
        }

    def text(self, name: str) -> str:
        """Value of the setting `name`.

        Raises:
            KeyError: no such setting.
        """
        return self.entry(name).value

    def number(self, name: str) -> int:
        """Value of a setting that is a whole number."""
        return int(self.entry(name).value)

    def entry(self, name: str) -> TopicConfigEntry:
        """Value of the setting `name`, and its source."""
        setting = TOPIC_SETTINGS[name]
        if name in self.overrides:
            return TopicConfigEntry(setting, self.overrides[name], DYNAMIC_TOPIC)
        if setting.broker_name:
            value = str(getattr(self._broker, setting.broker_name))
            if setting.kind == BOOLEAN:
                value = value.lower()
            if value != setting.default:
                return TopicConfigEntry(setting, value, STATIC_BROKER)
        return TopicConfigEntry(setting, setting.default, DEFAULT)

    def entries(self) -> list[TopicConfigEntry]:
        """Every setting, by name."""
        return [self.entry(name) for name in TOPIC_SETTINGS]

    def log_config(self) -> LogConfig:
        """Settings of the logs of the topic's partitions, which share this object."""
        if self._log_config is None:
            self._log_config = self._new_log_config()
        return self._log_config

    def _new_log_config(self) -> LogConfig:
        broker = self._broker
        policy = self.text("cleanup.policy")
        compact, deletes = "compact" in policy, "delete" in policy
        lag_ms = self.number("max.compaction.lag.ms")
        return LogConfig(
            segment_bytes=self.number("segment.bytes"),
            # The active segment is not compacted.
            segment_ms=min(self.number("segment.ms"), lag_ms if compact else INT64_MAX),
            segment_jitter_ms=self.number("segment.jitter.ms"),
            segment_index_bytes=max(self.number("segment.index.bytes"), 12),
            index_interval_bytes=self.number("index.interval.bytes"),
            retention_ms=self.number("retention.ms") if deletes else -1,
            retention_bytes=self.number("retention.bytes") if deletes else -1,
            max_message_bytes=self.number("max.message.bytes"),
            codec_limit_bytes=broker.socket_request_max_bytes,
            compact=compact,
            log_append_time=self.text("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=self.number(_BEFORE),
            timestamp_after_max_ms=self.number(_AFTER),
            validation=cast("Validation", broker.validation),
            sync=cast("Sync", broker.sync),
            producer_id_expiration_ms=broker.producer_id_expiration_ms,
            producer_batches=broker.producer_batches_remembered,
            delete_retention_ms=self.number("delete.retention.ms"),
            min_cleanable_dirty_ratio=float(self.text("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=self.number("min.compaction.lag.ms"),
            max_compaction_lag_ms=lag_ms,
            cleaner_buffer_bytes=broker.log_cleaner_dedupe_buffer_size,
        )
