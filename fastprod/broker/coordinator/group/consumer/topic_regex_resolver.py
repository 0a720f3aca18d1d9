"""TopicRegexResolver: the topics that the regular expressions of a group match.

Source: TopicRegexResolver of Apache Kafka 4.x; KIP-848; contract B-E3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastprod.broker.cluster.topics import Topics
from fastprod.broker.coordinator.group.consumer.consumer_group import ResolvedRegularExpression
from fastprod.broker.coordinator.group.consumer.regular_expression import RegularExpression


def resolve(
    topics: Topics,
    regexes: Iterable[str],
    allows_topic: Callable[[str], bool],
    now_ms: int,
) -> dict[str, ResolvedRegularExpression]:
    """What each of the expressions matches, of the topics that somebody may know of.

    The broker's own topics are left out: their members could not look them up.

    Args:
        topics: of the cluster.
        regexes: each is understood.
        allows_topic: whether a topic may be known.
        now_ms: by the broker's clock.
    """
    version = topics.version
    names = [each.name for each in topics.all() if not each.is_internal]
    found = {}
    for regex in regexes:
        expression = RegularExpression(regex)
        matching = frozenset(
            name for name in names if expression.matches(name) and allows_topic(name)
        )
        found[regex] = ResolvedRegularExpression(matching, version, now_ms)
    return found
