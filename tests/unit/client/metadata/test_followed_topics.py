"""FollowedTopics: what is new, what is idle, and that neither costs a look at every topic
(P-H.3).
"""

from __future__ import annotations

from fastprod.client.metadata.followed_topics import FollowedTopics

IDLE_MS = 1_000


def test_a_topic_is_new_once_and_unanswered_until_it_is_named() -> None:
    """P-H.2.2."""
    topics = FollowedTopics(IDLE_MS)
    assert topics.add("a", 0)
    assert topics.add("b", 0)
    assert not topics.add("a", 5)
    assert list(topics.unanswered) == ["a", "b"]
    topics.answered("a")
    topics.answered("a")
    assert list(topics.unanswered) == ["b"]
    assert topics.is_unanswered("b")
    assert not topics.is_unanswered("a")
    assert list(topics) == ["a", "b"]
    assert "a" in topics
    assert "c" not in topics


def test_idle_ones_are_forgotten_in_whatever_order_they_were_used() -> None:
    """P-H.3."""
    used_ms = {"engine": 700}
    topics = FollowedTopics(IDLE_MS, used_ms.get)
    for topic in ("added", "engine", "idle", "young"):
        topics.add(topic, 100 if topic == "young" else 0)
        topics.answered(topic)
    topics.add("added", 300)
    assert topics.forget_idle(IDLE_MS - 1) == frozenset()
    assert topics.forget_idle(IDLE_MS) == {"idle"}
    assert topics.forget_idle(IDLE_MS + 299) == {"young"}
    assert topics.forget_idle(IDLE_MS + 300) == {"added"}
    assert topics.forget_idle(IDLE_MS + 699) == frozenset()
    assert topics.forget_idle(IDLE_MS + 700) == {"engine"}
    assert list(topics) == []
    assert topics.add("idle", 5_000)


def test_one_without_an_answer_is_kept() -> None:
    """P-H.3; P-L.177 testTopicExpiry."""
    topics = FollowedTopics(IDLE_MS)
    topics.add("new", 0)
    assert topics.forget_idle(9 * IDLE_MS) == frozenset()
    topics.answered("new")
    assert topics.forget_idle(9 * IDLE_MS) == {"new"}


def test_only_those_that_may_be_idle_are_looked_at() -> None:
    """However many others there are, and however often one is added."""
    asked: list[str] = []

    def last_used_ms(topic: str) -> int | None:
        asked.append(topic)
        return None

    topics = FollowedTopics(IDLE_MS, last_used_ms)
    for number in range(1_000):
        topics.add(f"t{number}", number)
        topics.answered(f"t{number}")
    for _ in range(1_000):
        topics.add("t999", 999)
    assert len(topics._queue) == 1_000
    assert topics.forget_idle(IDLE_MS + 1) == {"t0", "t1"}
    assert asked == ["t0", "t1"]
