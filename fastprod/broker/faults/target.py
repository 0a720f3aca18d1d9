"""Which requests a planned fault applies to: API, node, topic and partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from fastprod.broker.api_table import APIS
from fastprod.broker.network.request import Request
from fastprod.error_codes import KAFKA_ERRORS
from fastprod.protocol.api_keys import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
)

ALL_APIS: Final = "all"

_TOPIC_RESOURCE: Final = 2
_INT16_MIN, _INT16_MAX = -(2**15), 2**15 - 1

Place = tuple[str | None, int | None]
"""A topic and a partition that a request names; the partition is None where it names topics."""


def _produce_places(message: Any) -> list[Place]:
    return [(each.name, data.index) for each in message.topic_data for data in each.partition_data]


def _fetch_places(message: Any) -> list[Place]:
    return [(each.topic, at.partition) for each in message.topics for at in each.partitions]


def _list_offsets_places(message: Any) -> list[Place]:
    return [(each.name, at.partition_index) for each in message.topics for at in each.partitions]


def _topics_places(message: Any) -> list[Place]:
    return [(each.name, None) for each in message.topics or ()]


def _delete_topics_places(message: Any) -> list[Place]:
    return [*_topics_places(message), *((name, None) for name in message.topic_names)]


def _resources_places(message: Any) -> list[Place]:
    return [
        (each.resource_name, None)
        for each in message.resources
        if each.resource_type == _TOPIC_RESOURCE
    ]


def names_by_id(api_key: int, message: Any) -> dict[bytes, str]:
    """The names of the topics that a request names by their ids, which its decoded form has."""
    asked: Iterable[tuple[bytes, str]] = ()
    if api_key == PRODUCE:
        asked = ((each.topic_id, each.name) for each in message.topic_data)
    elif api_key == FETCH:
        asked = ((each.topic_id, each.topic) for each in message.topics)
    return dict(asked)


_PLACES: Final[Mapping[int, Callable[[Any], list[Place]]]] = {
    PRODUCE: _produce_places,
    FETCH: _fetch_places,
    LIST_OFFSETS: _list_offsets_places,
    METADATA: _topics_places,
    CREATE_TOPICS: _topics_places,
    CREATE_PARTITIONS: _topics_places,
    DELETE_RECORDS: _list_offsets_places,
    ALTER_CONFIGS: _resources_places,
    DELETE_TOPICS: _delete_topics_places,
    DESCRIBE_CONFIGS: _resources_places,
    INCREMENTAL_ALTER_CONFIGS: _resources_places,
}
_NAME_PARTITIONS: Final = (PRODUCE, FETCH, LIST_OFFSETS, DELETE_RECORDS)


class RequestTarget:
    """A request, with what decides which faults apply to it.

    Attributes:
        api_key: its API.
        node_id: node that was asked.
        acks: of a Produce request; else None.
        places: topics and partitions that it names and no fault has refused yet.
    """

    __slots__ = ("acks", "api_key", "node_id", "places")

    def __init__(self, request: Request, message: Any) -> None:
        self.api_key = request.header.api_key
        self.node_id = request.node_id
        self.acks: int | None = message.acks if self.api_key == PRODUCE else None
        places = _PLACES.get(self.api_key)
        self.places: list[Place] = [] if places is None else places(message)


class Aim(NamedTuple):
    """Which requests a fault is meant for.

    Attributes:
        api_key: None: every API.
        topic: requests that name it; None: any or none.
        partition: requests that name this partition; None: any or none.
        node: requests to this node; None: to any.
        is_at_answers: only requests that get an answer: none with acks=0.
    """

    api_key: int | None
    topic: str | None
    partition: int | None
    node: int | None
    is_at_answers: bool = False

    @property
    def is_at_places(self) -> bool:
        """Whether it concerns topics or partitions, not whole requests."""
        return self.topic is not None or self.partition is not None

    def hit(self, target: RequestTarget) -> list[Place] | None:
        """The places of `target` that it concerns; empty: the whole; None: it does not apply."""
        if self.api_key is not None and self.api_key != target.api_key:
            return None
        if self.node is not None and self.node != target.node_id:
            return None
        if self.is_at_answers and target.acks == 0:
            return None
        if not self.is_at_places:
            return []
        return [each for each in target.places if self._is_at(each)] or None

    def _is_at(self, place: Place) -> bool:
        topic, partition = place
        return self.topic in (None, topic) and self.partition in (None, partition)


def aim(
    api: str | int, topic: str | None = None, partition: int | None = None, node: int | None = None
) -> Aim:
    """Check which requests a fault is to apply to.

    Args:
        api: Kafka's name or key of an API, or "all".
        topic: a topic's name.
        partition: from 0 on.
        node: a node's id, from 0 on.

    Raises:
        ValueError: no such API, a negative number, or requests of that API do not say this.
    """
    api_key = None if api == ALL_APIS else api_key_of(api)
    if topic is not None and (not isinstance(topic, str) or not topic):
        raise ValueError(f"topic is {topic!r}; it must be a topic's name, or None for any")
    if partition is not None:
        check_count("partition", partition, 0)
    if node is not None:
        check_count("node", node, 0)
    if api_key is not None:
        name = APIS[api_key].name
        if topic is not None and api_key not in _PLACES:
            raise ValueError(f"a {name} request names no topic: leave out topic={topic!r}")
        if partition is not None and api_key not in _NAME_PARTITIONS:
            raise ValueError(f"a {name} request names no partition: leave out {partition=}")
    return Aim(api_key, topic, partition, node)


def api_key_of(api: str | int) -> int:
    """Return the key of an API, given by Kafka's name of it or by its key.

    Raises:
        ValueError: there is no such API.
    """
    for each in APIS.values():
        if not isinstance(api, bool) and api in (each.key, each.name):
            return each.key
    names = [each.name for each in APIS.values()]
    raise ValueError(f"no API {api!r}{_instead(api, names)}")


def error_code_of(error: str | int) -> int:
    """Return an error code, given by itself or by Kafka's name of it.

    Raises:
        ValueError: there is no such name, the code is no int16, or it is that of success.
    """
    if isinstance(error, str):
        for code, row in KAFKA_ERRORS.items():
            if row.name == error and code != 0:
                return code
        names = [row.name for code, row in KAFKA_ERRORS.items() if code != 0]
        raise ValueError(f"no error {error!r}{_instead(error, names, few=True)}")
    if isinstance(error, bool) or not isinstance(error, int):
        raise ValueError(f"the error is {error!r}; it must be Kafka's code or name of it")
    if error == 0 or not _INT16_MIN <= error <= _INT16_MAX:
        raise ValueError(
            f"the error is {error}; it must be from {_INT16_MIN} to {_INT16_MAX}, and 0 is none"
        )
    return error


def check_count(name: str, value: int, lowest: int) -> int:
    """Return `value` if it is a whole number from `lowest` on.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {lowest} on")
    return value


def check_ms(name: str, value: float) -> float:
    """Return `value` if it is a number of milliseconds, 0 to a day.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _DAY_MS:
        raise ValueError(f"{name} is {value!r}; it must be from 0 to {_DAY_MS} milliseconds")
    return value


_DAY_MS: Final = 86_400_000


def _instead(wrong: object, names: Iterable[str], few: bool = False) -> str:
    """The suggestion for a wrong name."""
    # Here: nobody needs it who makes no mistake.
    import difflib  # noqa: PLC0415

    names = list(names)
    by_folded = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(str(wrong).casefold(), by_folded, n=1)
    if near:
        return f"; did you mean {by_folded[near[0]]!r}?"
    return "" if few else f"; there are {', '.join(names)}, and {ALL_APIS!r}"
