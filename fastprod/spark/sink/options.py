"""SinkOptions: the options of a Spark write, checked once, on the driver.

Names and messages are those of Spark's own Kafka sink where it has them.  Spark hands option names
over in lower case, so a name that comes from an option (`header.<name>`) is in lower case too.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.security.secret import Secret, concealed
from fastprod.settings.references import resolved
from fastprod.spark.formats.format_options import FORMAT_OPTIONS, is_format_option
from fastprod.spark.hidden_options import BYTES, HIDDEN, all_options, hidden_options

MISSING_BOOTSTRAP: Final = (
    "Kafka option bootstrap.servers is not set. Please make sure it is set and retry."
)
_PRODUCER: Final = "kafka."
_SERVERS: Final = ("bootstrap.servers", "metadata.broker.list")
_HEADER: Final = "header."
_HEADER_COLUMN: Final = "header.column."
_INT64_MAX: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"[0-9]{1,20}", re.ASCII)

_FIXED_SERIALIZERS: Final = {
    "key.serializer": "keys are serialized",
    "value.serializer": "value are serialized",
}
# One producer serves a worker's tasks in turn: throughput counts, and each task ends with a flush.
BULK_SETTINGS: Final = {
    "batch.size": "524288",
    "linger.ms": "20",
    "buffer.memory": "67108864",
}
"""Settings of a producer that differ from interactive use, unless the option is given."""

_CHOICES: Final = {
    "guarantee": ("at_least_once",),
    "fastprod.on.error": ("fail",),
}
_OWN: Final = (
    *_CHOICES,
    HIDDEN,
    "topic",
    "fastprod.max.bytes.per.second",
    "fastprod.report.path",
    "fastprod.total.path",
    "fastprod.tune.worker",
    "fastprod.under.way",
    "fastprod.validate",
)
# Options of Spark and of its Kafka source, which the sink of format("kafka") ignores.
_PASSED_OVER: Final = frozenset(
    {
        "path",
        "checkpointlocation",
        "queryname",
        "includeheaders",
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "startingtimestamp",
        "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy",
        "endingoffsets",
        "endingtimestamp",
        "endingoffsetsbytimestamp",
        "failondataloss",
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "maxrecordsperpartition",
        "minpartitions",
    }
)
_EXACTLY_ONCE: Final = frozenset({"fastprod.sink.id", "fastprod.job.id", "fastprod.eos.onmismatch"})
# Settings whose values are classes; a Java one has no meaning in a Python process.
_CLASSES: Final = frozenset(
    {
        "partitioner.class",
        "interceptor.classes",
        "metric.reporters",
    }
)
_ROW_PLUGINS: Final = ("partitioner.class", "interceptor.classes")
_ROUND_ROBIN: Final = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": (
        "fastprod.partitioner:RoundRobinPartitioner"
    )
}


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write; plain data that Spark pickles into its tasks.

    Attributes:
        settings: the producer's settings by Kafka's dotted names, sorted; `BULK_SETTINGS` included.
        topic: the topic of every row, trimmed; None: each row names its own.
        headers: (name, value) that every record gets.
        header_columns: (name, column) of headers that a column holds.
        max_bytes_per_second: of keys and values, for each task; 0: no limit.
        report_path: file on the driver that gets one line of JSON for each commit; "": none.
        total_path: file on the driver that holds what all commits have written, which `CommitTotal`
            has made; "": none.
        tunes_worker: whether a worker's long-lived objects are left out of the garbage collection.
        validates: whether the driver connects to the cluster before any task.
        is_under_way: whether this is a micro-batch of a stream that has written before.
    """

    settings: tuple[tuple[str, str], ...]
    topic: str | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    header_columns: tuple[tuple[str, str], ...] = ()
    max_bytes_per_second: int = 0
    report_path: str = ""
    total_path: str = ""
    tunes_worker: bool = True
    validates: bool = True
    is_under_way: bool = False

    @property
    def has_plugins(self) -> bool:
        """Whether plug-ins of the user need each row as Python objects."""
        return any(name in _ROW_PLUGINS for name, _ in self.settings)

    def __repr__(self) -> str:
        # PySpark can print the local variables of a failing frame; settings may hold a password.
        names = ", ".join(name for name, _ in self.settings)
        return f"SinkOptions(topic={self.topic!r}, settings of {names})"

    def check_settings(self) -> None:
        """Refuse settings with which no producer can be made.

        Raises:
            ConfigError: bootstrap.servers is missing, or a setting is unknown or wrong.
        """
        if not any(name in _SERVERS for name, _ in self.settings):
            raise ConfigError(MISSING_BOOTSTRAP, key="kafka.bootstrap.servers")
        for name, value in self.settings:
            _refuse_java(name, value)
        if ProducerConfig(dict(self.settings)).transactional_id is not None:
            raise ConfigError(
                "kafka.transactional.id is refused: the sink uses no transactions; leave it out",
                key="kafka.transactional.id",
            )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read a write's options; the producer's settings are checked by `check_settings`, later.

    What a setting of the producer refers to, such as ``${env:NAME}``, is put in place here: of the
    driver's environment and files.

    Args:
        given: names in any case, as Spark hands them over.

    Raises:
        ConfigError: an option is unknown, with the nearest name, or its value is wrong.
    """
    hidden = hidden_options(given)
    lower = {name: _own_value(name, value) for name, value in _dotted(all_options(given)).items()}
    for name in lower:
        _check_name(name)
    for name, choices in _CHOICES.items():
        if name in lower and lower[name].strip().lower() not in choices:
            _refuse(name, lower[name], f"must be one of {', '.join(choices)} in this version")
    settings = {
        name.removeprefix(_PRODUCER): _ROUND_ROBIN.get(value, value)
        for name, value in lower.items()
        if name.startswith(_PRODUCER)
    }
    settings = BULK_SETTINGS | settings
    topic = lower.get("topic")
    return SinkOptions(
        tuple(sorted(settings.items())),
        topic=None if topic is None else topic.strip(),
        headers=tuple(
            (name.removeprefix(_HEADER), value.encode())
            for name, value in lower.items()
            if name.startswith(_HEADER) and not name.startswith(_HEADER_COLUMN)
        )
        + tuple((name, value.encode(*BYTES)) for name, value in hidden.headers),
        header_columns=tuple(
            (name.removeprefix(_HEADER_COLUMN), value)
            for name, value in lower.items()
            if name.startswith(_HEADER_COLUMN)
        )
        + hidden.header_columns,
        max_bytes_per_second=_number(lower, "fastprod.max.bytes.per.second"),
        report_path=lower.get("fastprod.report.path", ""),
        total_path=lower.get("fastprod.total.path", ""),
        tunes_worker=_flag(lower, "fastprod.tune.worker"),
        validates=_flag(lower, "fastprod.validate"),
        is_under_way=_flag(lower, "fastprod.under.way", "false"),
    )


def _dotted(given: Mapping[str, str]) -> dict[str, str]:
    """The options, with kafka.batch.size for kafka.batch_size.

    Raises:
        ConfigError: a setting is given by both names, with different values.
    """
    found: dict[str, str] = {}
    for name, value in given.items():
        key = name.replace("_", ".") if name.startswith(_PRODUCER) else name
        if found.setdefault(key, value) != value:
            raise ConfigError(
                f"{key} is given twice, with different values; leave one out", key=key
            )
    return found


def _own_value(name: str, value: str) -> str:
    if name.startswith(_PRODUCER):
        value = resolved(name, value)
    return value if isinstance(value, Secret) else concealed(name, value)


def _check_name(name: str) -> None:
    if name.startswith(_PRODUCER):
        setting = name.removeprefix(_PRODUCER)
        if setting in _FIXED_SERIALIZERS:
            raise ConfigError(
                f"Kafka option '{setting}' is not supported as {_FIXED_SERIALIZERS[setting]} "
                f"with ByteArraySerializer.",
                key=name,
            )
        return
    if name in _OWN or name in _PASSED_OVER or is_format_option(name):
        return
    if name.startswith(_HEADER) and name not in (_HEADER, _HEADER_COLUMN):
        return
    if name in _EXACTLY_ONCE:
        raise ConfigError(
            f"{name} belongs to guarantee=exactly_once, which is not in this version: leave it out",
            key=name,
        )
    known = [
        *_OWN,
        *FORMAT_OPTIONS,
        "kafka.bootstrap.servers",
        "header.<name>",
        "header.column.<name>",
    ]
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else f"; there are {', '.join(known)}"
    raise ConfigError(
        f"{name} is not an option of this sink{hint} Settings of the producer begin with kafka.",
        key=name,
    )


def _refuse_java(name: str, value: str) -> None:
    """Refuse settings for Java processes only.  No message has a value."""
    key = _PRODUCER + name
    if name in _CLASSES:
        for each in filter(None, (part.strip() for part in value.split(","))):
            if ":" not in each and not _is_importable(each.partition(".")[0]):
                raise ConfigError(
                    f"{key} is refused: a Java class cannot run in a Python process, and no Python "
                    f"module has the name that it begins with; give a Python class as "
                    f"'module:Class', or leave it out",
                    key=key,
                )


def _is_importable(module: str) -> bool:
    return module.isidentifier() and importlib.util.find_spec(module) is not None


def _refuse(name: str, value: str, why: str) -> NoReturn:
    raise ConfigError(f"{name} = {value!r}: {why}", key=name, value=value)


def _number(options: Mapping[str, str], name: str) -> int:
    text = options.get(name, "0").strip()
    if not _NUMBER.fullmatch(text) or int(text) > _INT64_MAX:
        _refuse(name, options[name], "must be a whole number of bytes, 0 or more; 0: no limit")
    return int(text)


def _flag(options: Mapping[str, str], name: str, default: str = "true") -> bool:
    text = options.get(name, default).strip().lower()
    if text not in ("true", "false"):
        _refuse(name, options[name], "must be true or false")
    return text == "true"
