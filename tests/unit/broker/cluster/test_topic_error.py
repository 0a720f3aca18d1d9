"""TopicError: its message fits into a string of the protocol."""

from __future__ import annotations

from fastprod.broker.cluster.topic_error import TopicError


def test_a_long_message_is_cut() -> None:
    error = TopicError(17, "x" * 40_000)
    assert (error.code, len(error.message)) == (17, 1003)
