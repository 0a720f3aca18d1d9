"""Names of topics that requests name by their ids (KIP-516)."""

from __future__ import annotations

from typing import Any, Final

from fastprod.broker.cluster.topics import Topics
from fastprod.protocol.api_keys import FETCH, PRODUCE

FIRST_ID_VERSION: Final = 13
"""Of Produce and of Fetch: their topics have ids in place of names."""


def name_topics(api_key: int, version: int, message: Any, topics: Topics) -> None:
    """Give the topics of a request their names, "" if there is no topic of that id.

    From here on, faults, the log of requests and handlers know topics by their names alone.

    Args:
        api_key: of the request.
        version: likewise.
        message: decoded; it is changed.
        topics: what there is.
    """
    if version < FIRST_ID_VERSION:
        return
    if api_key == PRODUCE:
        for topic in message.topic_data:
            topic.name = _name(topics, topic.topic_id)
    elif api_key == FETCH:
        for topic in message.topics:
            topic.topic = _name(topics, topic.topic_id)


def _name(topics: Topics, topic_id: bytes) -> str:
    found = topics.by_id(topic_id)
    return "" if found is None else found.name
