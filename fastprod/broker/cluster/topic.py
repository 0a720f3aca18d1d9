"""Topic: name, id, settings and partitions of one topic (B-D4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from fastprod.broker.cluster.partition import Decision, Partition, SavedPartition
from fastprod.broker.cluster.topic_config import TopicConfig

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
"""Where groups with their offsets, and transactions, are kept."""

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC})
"""Reserved names (B-E1): no client creates, writes or deletes them."""

_MAX_NAME_LENGTH = 249
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

ZERO_ID = bytes(16)


class SavedTopic(NamedTuple):
    """What is kept of a topic over a restart."""

    name: str
    id: bytes
    config: dict[str, str]
    partitions: list[SavedPartition]


class NewTopic(NamedTuple):
    """A topic that is to be made; see `Topics.check_new`."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    config: Mapping[str, str | None] = {}
    assignment: Mapping[int, Sequence[int]] = {}


class Topic:
    """One topic. Its partitions are only ever added to; any thread.

    Attributes:
        id: 16 bytes; another one after it was deleted and made again.
        config: replaced as a whole when it changes.
        created_ns: by the broker's clock; for `metadata_lag_ms`.
    """

    __slots__ = ("config", "created_ns", "id", "name", "partitions")

    def __init__(self, name: str, id: bytes, config: TopicConfig, created_ns: int) -> None:
        self.name = name
        self.id = id
        self.config = config
        self.created_ns = created_ns
        self.partitions: list[Partition] = []

    @property
    def is_internal(self) -> bool:
        """Whether the broker keeps its own state in it."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """Partition number `index`, or None if there is none."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def saved(
        self,
        decisions: Mapping[Partition, Decision] = MappingProxyType({}),
        config: TopicConfig | None = None,
    ) -> SavedTopic:
        """What the journal keeps of it.

        Args:
            decisions: of the controller, that do not hold yet.
            config: settings that do not hold yet; None: those that do.
        """
        return SavedTopic(
            self.name,
            self.id,
            (config or self.config).overrides,
            [each.saved(decisions.get(each)) for each in self.partitions],
        )


def invalid_name_reason(name: str) -> str | None:
    """Say what is wrong with a topic's name, or None (B-D1)."""
    if not name:
        return "the empty string is not a topic name"
    if name in (".", ".."):
        return f"{name!r} is not a topic name"
    if len(name) > _MAX_NAME_LENGTH:
        return f"a topic name has at most {_MAX_NAME_LENGTH} characters, this one {len(name)}"
    if not _NAME_CHARACTERS.issuperset(name):
        return f"topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    return None
