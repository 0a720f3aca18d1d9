"""Kafka's rule for the name of a topic, checked without a broker."""

from __future__ import annotations

from typing import Final

from fastprod.errors import InvalidTopicError

_LONGEST: Final = 249


def check_topic_name(topic: str) -> None:
    """Refuse what no broker can be asked for.

    Raises:
        TypeError: it is no str.
        InvalidTopicError: it is too long or empty, or no text.
    """
    if not isinstance(topic, str):
        raise TypeError(f"a topic's name must be a str, not {type(topic).__name__}")
    if not topic or len(topic) > _LONGEST:
        raise InvalidTopicError(
            f"topic names have 1 to {_LONGEST} characters, this one {len(topic)}",
            topic=topic[:_LONGEST],
        )
    try:
        topic.encode()
    except UnicodeEncodeError:
        raise InvalidTopicError(
            f"a topic's name must be text that UTF-8 can express, not {topic!a}", topic=topic
        ) from None
