"""ProducerConfig: every setting of a producer, checked once, with Kafka's names and units.

Kafka's rules for settings that depend on each other are those of Apache Kafka 4.3.0 (contract P-B).
Three defaults are ours: linger_ms is adaptive, batch_size is 256 KiB, enable_metrics_push is off.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastprod.config_values import (
    INT32_MAX,
    BootstrapAddress,
    Setting,
    flag,
    int32,
    int64,
    setting,
)
from fastprod.errors import ConfigError
from fastprod.log import Log
from fastprod.security.security_settings import SecuritySettings, resolve
from fastprod.settings.given_settings import gather

ADAPTIVE_LINGER_BOUND_MS = 5
"""How long adaptive linger may hold a record of a few hundred partitions back, in ms."""

STICKY_BATCH_SIZE = 16_384
"""Bytes after which a keyless record moves on to another partition (P-C.5.1).

Kafka takes batch.size, 16 KiB by default.  Our default batch_size is larger, because one request
then carries more; a topic should not stay on one partition for as long as that.
"""

_MAX_IN_FLIGHT_IDEMPOTENT = 5

_log = Log(__name__)
# No lock: a child forked while another thread held it could make no producer.
_client_numbers = itertools.count(1)


class SettingRow(NamedTuple):
    """One line of the settings table in the documentation."""

    name: str
    dotted_name: str
    type: str
    default: str
    range: str
    doc: str


class ProducerConfig(SecuritySettings):
    """The settings of one producer.

    Names are Kafka's, with underscores (``linger_ms=5``) or with dots in a mapping
    (``{"linger.ms": "5"}``); values may be strings, as from a properties file.

    Args:
        settings: settings by name, in either spelling.
        more: settings by name; one given here and in `settings` is an error.

    Raises:
        ConfigError: a setting is unknown, given twice, out of range, of a feature this version does
            not have, or in conflict with another.

    An instance never changes, pickles, and may be shared by threads and producers.  Making one does
    not block, except that it imports what an import path names.
    Source: ProducerConfig, ConfigDef; contract P-B.
    """

    bootstrap_servers: tuple[BootstrapAddress, ...] = setting(
        "addresses", None, "Brokers to learn the cluster from (P-A.1.4). Required."
    )
    client_id: str = setting(
        "string", "", "Name shown in the brokers' logs and metrics; empty: producer-<n> (P-A.1.2)."
    )
    acks: int = setting("acks", -1, "Replicas that must have a record: all in sync, 1 or none.")
    enable_idempotence: bool = flag(True, "Write each record once, in order, despite retries.")
    transactional_id: str | None = setting(
        "string", None, "Name of the producer's transactions, its own at any time; none: without."
    )
    transaction_timeout_ms: int = int32(
        60_000, "Time after which the brokers abort a transaction (KIP-588).", low=1
    )
    retries: int = int32(INT32_MAX, "How many times a batch is sent again, at most.")
    delivery_timeout_ms: int = int32(
        120_000, "Time a record has from send() to its acknowledgement (P-B.3)."
    )
    linger_ms: int | None = setting(
        "linger",
        None,
        "How long a batch waits for records. Adaptive: not at all while nothing is in flight to "
        f"its leader, else until an answer arrives, at most {ADAPTIVE_LINGER_BOUND_MS} ms; one "
        "that fills by 256 MB/s or more, until it is full, at most 2 ms; of more than 500 "
        "partitions at a time, up to 10 us for each of them, at most 100 ms.",
    )
    batch_size: int = int32(262_144, "Largest size of a batch, in bytes; 0: one record (P-A.1.6).")
    buffer_memory: int = int64(
        33_554_432, "Bytes of records queued, in flight or waiting for callbacks, at most."
    )
    max_block_ms: int = int64(60_000, "How long send() may wait for metadata and memory.")
    max_request_size: int = int32(
        1_048_576, "Largest size of one request, and of one record, in bytes."
    )
    max_receive_bytes: int = int32(
        104_857_600,
        "Largest size of one answer, in bytes; a larger one closes the connection.",
        low=1,
    )
    max_in_flight_requests_per_connection: int = int32(
        5, "Requests under way to one broker; at most 5 with idempotence (P-B.2).", low=1
    )
    request_timeout_ms: int = int32(30_000, "How long one request waits for its answer.")
    compression_type: str = setting(
        "choice", "none", "Codec of a batch.", choices=("none", "gzip", "snappy", "lz4", "zstd")
    )
    compression_gzip_level: int = setting(
        "integer", -1, "gzip's level; -1 is zlib's default.", low=1, high=9, also=(-1,)
    )
    compression_lz4_level: int = int32(
        9, "lz4's level; 9 is the fast compressor, as in Kafka; others are lz4hc's.", 1, 17
    )
    compression_zstd_level: int = int32(3, "zstd's level.", -131_072, 22)
    key_serializer: Any = setting("object", None, "Turns keys into bytes; none: keys are bytes.")
    value_serializer: Any = setting(
        "object", None, "Turns values into bytes; none: values are bytes."
    )
    key_serializer_encoding: str | None = setting(
        "encoding", None, "Text encoding of a StringSerializer for keys."
    )
    value_serializer_encoding: str | None = setting(
        "encoding", None, "Text encoding of a StringSerializer for values."
    )
    serializer_encoding: str | None = setting(
        "encoding", None, "Text encoding where neither of the two above is given."
    )
    partitioner_class: Any = setting("object", None, "Chooses partitions; none: built in (P-C.3).")
    partitioner_adaptive_partitioning_enable: bool = flag(
        True, "Give slower brokers fewer of the records without key (KIP-794)."
    )
    partitioner_availability_timeout_ms: int = int64(
        0, "Leave out a broker that has taken nothing for so long (KIP-794); 0: never."
    )
    partitioner_ignore_keys: bool = flag(False, "Spread records with a key like those without.")
    interceptor_classes: tuple[Any, ...] = setting(
        "objects", (), "Interceptors, called in this order (P-C.1)."
    )
    retry_backoff_ms: int = int64(100, "Pause before the first retry; it doubles (P-B.5).")
    retry_backoff_max_ms: int = int64(1_000, "Longest pause before a retry.")
    reconnect_backoff_ms: int = int64(50, "Pause before connecting again; it doubles (P-B.5).")
    reconnect_backoff_max_ms: int = int64(1_000, "Longest pause before connecting again.")
    metadata_max_age_ms: int = int64(300_000, "Age at which metadata is fetched again.")
    metadata_max_idle_ms: int = int64(
        300_000, "Time without a send after which a topic is forgotten.", low=5_000
    )
    warmup_topics: tuple[str, ...] = setting(
        "topics",
        (),
        "Topics whose metadata is fetched, and whose leaders are connected to, from the start, in "
        "the background.",
    )
    metadata_recovery_strategy: str = setting(
        "any case",
        "rebootstrap",
        "What to do when no known broker answers (KIP-899).",
        choices=("none", "rebootstrap"),
    )
    metadata_recovery_rebootstrap_trigger_ms: int = int64(
        300_000, "Time without fresh metadata after which to start from bootstrap_servers again."
    )
    client_dns_lookup: str = setting(
        "choice",
        "use_all_dns_ips",
        "Try each address of a name, or each address's canonical name.",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    )
    send_buffer_bytes: int = int32(131_072, "SO_SNDBUF; -1 leaves it to the system.", low=-1)
    receive_buffer_bytes: int = int32(32_768, "SO_RCVBUF; -1 leaves it to the system.", low=-1)
    socket_connection_setup_timeout_ms: int = int64(
        10_000, "How long the first try to connect may take; it doubles (KIP-601)."
    )
    socket_connection_setup_timeout_max_ms: int = int64(
        30_000, "Longest time that a try to connect may take."
    )
    connections_max_idle_ms: int = int64(
        540_000,
        "A connection without traffic is closed after so long, also while an answer is awaited; "
        "-1: never.",
        low=1,
        also=(-1,),
    )
    enable_metrics_push: bool = setting(
        "telemetry", False, "Push metrics to the brokers (KIP-714): not in this version."
    )
    metric_reporters: tuple[Any, ...] = setting("objects", (), "Plug-ins that see every metric.")
    metrics_num_samples: int = int32(2, "Samples kept for a rate or an average.", low=1)
    metrics_sample_window_ms: int = int64(30_000, "Length of one sample.")
    metrics_recording_level: str = setting(
        "choice", "INFO", "How much is measured.", choices=("INFO", "DEBUG", "TRACE")
    )
    explicit: frozenset[str] = frozenset()
    """Names of the settings that the caller gave (P-B.1)."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        try:
            self._resolve(settings, more)
        except ConfigError as error:
            # Local variables of the frames in between may hold a password.
            settings, more = None, {}
            raise error.with_traceback(None) from error.__cause__

    def _resolve(self, settings: Mapping[str, Any] | None, more: Mapping[str, Any]) -> None:
        given = gather(settings, more, SETTINGS)
        if "bootstrap_servers" not in given:
            raise ConfigError(
                "bootstrap_servers is missing: name at least one broker, as in 'kafka1:9092'",
                key="bootstrap_servers",
            )
        resolved: dict[str, Any] = {}
        for name, each in SETTINGS.items():
            resolved[name] = given[name][1] if name in given else each.default
        explicit = frozenset(given)
        resolved["batch_size"] = max(resolved["batch_size"], 1)
        if "transactional_id" in explicit:
            _resolve_transactions(resolved, explicit)
        _resolve_idempotence(resolved, explicit)
        _resolve_delivery_timeout(resolved, explicit)
        _resolve_backoffs(resolved, explicit)
        _warn_of_small_memory(resolved)
        resolved["client_id"] = resolved["client_id"] or f"producer-{next(_client_numbers)}"
        resolved |= resolve(resolved, {name: given[name][0] for name in given})
        for name, value in resolved.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "explicit", explicit)

    def values(self) -> dict[str, Any]:
        """Return every setting under its dotted name, as plug-ins' `configure` gets them (P-A.1.2).

        The values are those in force, the generated client.id among them.  Secrets are left out.
        """
        found = {
            name.replace("_", "."): getattr(self, name)
            for name, each in SETTINGS.items()
            if each.kind != "secret"
        }
        found["bootstrap.servers"] = [str(address) for address in self.bootstrap_servers]
        found["acks"] = "all" if self.acks == -1 else str(self.acks)
        if self.linger_ms is None:
            found["linger.ms"] = "adaptive"
        return found

    def __repr__(self) -> str:
        names = sorted(self.__dict__.get("explicit", ()))  # none if making it failed
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"ProducerConfig({given})"


def _take_settings(kind: type) -> dict[str, Setting]:
    # What the class has would stand in for what a constructor forgot.
    found = {name: each for name, each in vars(kind).items() if isinstance(each, Setting)}
    for name in found:
        delattr(kind, name)
    return found


SETTINGS: dict[str, Setting] = _take_settings(ProducerConfig) | _take_settings(SecuritySettings)
"""Every setting by its name with underscores."""
type.__setattr__(ProducerConfig, "__match_args__", (*SETTINGS, "explicit"))
del ProducerConfig.explicit


def describe() -> list[SettingRow]:
    """Return one row for each setting, in the order of `SETTINGS`, for documentation."""
    types = {"any case": "choice", "secret": "string", "path": "string", "telemetry": "boolean"}
    return [
        SettingRow(
            name,
            name.replace("_", "."),
            types.get(each.kind, each.kind),
            each.default_text,
            each.range_text,
            each.doc,
        )
        for name, each in SETTINGS.items()
    ]


def _resolve_transactions(resolved: dict[str, Any], explicit: frozenset[str]) -> None:
    """P-B.2 (d), P-A.1.2"""
    transactional_id = resolved["transactional_id"]
    if not transactional_id:
        raise ConfigError(
            "transactional_id is empty: name the producer's transactions, or leave it out",
            key="transactional_id",
        )
    if "enable_idempotence" in explicit and not resolved["enable_idempotence"]:
        raise ConfigError(
            "enable_idempotence = False: transactional_id needs it; leave one of both out",
            key="enable_idempotence",
            value=False,
        )
    resolved["client_id"] = resolved["client_id"] or f"producer-{transactional_id}"


def _resolve_idempotence(resolved: dict[str, Any], explicit: frozenset[str]) -> None:
    """P-B.2, in the order of Kafka 4.3.0: retries, acks, then what may be in flight."""
    if not resolved["enable_idempotence"]:
        return
    needs = "enable_idempotence=True" if "enable_idempotence" in explicit else ""
    needs = "transactional_id" if resolved["transactional_id"] is not None else needs
    demanded = bool(needs)
    what = needs.partition("=")[0]
    if resolved["retries"] == 0:
        if demanded:
            raise ConfigError(
                f"retries = 0: must be at least 1 with {needs}; raise it, or leave {what} out",
                key="retries",
                value=0,
            )
        resolved["enable_idempotence"] = False
    if resolved["acks"] != -1:
        if demanded:
            raise ConfigError(
                f"acks = {resolved['acks']}: must be all with {needs}; set acks='all', or leave "
                f"{what} out",
                key="acks",
                value=resolved["acks"],
            )
        resolved["enable_idempotence"] = False
    in_flight = resolved["max_in_flight_requests_per_connection"]
    if in_flight > _MAX_IN_FLIGHT_IDEMPOTENT:
        raise ConfigError(
            f"max_in_flight_requests_per_connection = {in_flight}: must be at most "
            f"{_MAX_IN_FLIGHT_IDEMPOTENT} unless enable_idempotence=False is given; lower it, or "
            f"give that",
            key="max_in_flight_requests_per_connection",
            value=in_flight,
            limit=_MAX_IN_FLIGHT_IDEMPOTENT,
        )


def _resolve_delivery_timeout(resolved: dict[str, Any], explicit: frozenset[str]) -> None:
    """P-B.3: the delivery timeout covers one linger and one request."""
    linger_ms = linger_bound_ms(resolved["linger_ms"])
    least_ms = min(linger_ms + resolved["request_timeout_ms"], INT32_MAX)
    given_ms = resolved["delivery_timeout_ms"]
    if given_ms >= least_ms:
        return
    sum_text = f"linger_ms + request_timeout_ms = {linger_ms} + {resolved['request_timeout_ms']}"
    if "delivery_timeout_ms" in explicit:
        raise ConfigError(
            f"delivery_timeout_ms = {given_ms}: must be at least {sum_text} = {least_ms}; raise "
            f"it, or lower one of the two",
            key="delivery_timeout_ms",
            value=given_ms,
            limit=least_ms,
        )
    resolved["delivery_timeout_ms"] = least_ms
    _log.warning(
        "delivery_timeout_ms raised from its default %d to %s = %d", given_ms, sum_text, least_ms
    )


def _resolve_backoffs(resolved: dict[str, Any], explicit: frozenset[str]) -> None:
    """P-B.5: a base above its maximum."""
    if "reconnect_backoff_ms" in explicit and "reconnect_backoff_max_ms" not in explicit:
        resolved["reconnect_backoff_max_ms"] = resolved["reconnect_backoff_ms"]
    for base, limit in (
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ):
        if resolved[base] > resolved[limit]:
            _log.warning(
                "%s = %d is above %s = %d and counts as that: it will not grow",
                base,
                resolved[base],
                limit,
                resolved[limit],
            )
            resolved[base] = resolved[limit]


def _warn_of_small_memory(resolved: dict[str, Any]) -> None:
    """P-B.4: legal, and hardly meant."""
    if resolved["buffer_memory"] < resolved["batch_size"]:
        _log.warning(
            "buffer_memory = %d is less than batch_size = %d: no batch will ever be full, and a "
            "record may not fit",
            resolved["buffer_memory"],
            resolved["batch_size"],
        )


def linger_bound_ms(linger_ms: int | None) -> int:
    """Longest time a record waits for company, in ms, whichever kind of linger it is."""
    return ADAPTIVE_LINGER_BOUND_MS if linger_ms is None else linger_ms
