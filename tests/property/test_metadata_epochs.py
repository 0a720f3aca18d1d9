"""Metadata under any sequence of answers: leader epochs never go back (P-H.4.2, KIP-320)."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.client.metadata.cluster import LeaderHint
from support.oracle.metadata_world import World, answer, topic_metadata
from support.processes.scale import examples

TOPICS = ("a", "b")
IDS = [bytes([number] * 16) for number in range(3)]
FIRST_WITH_IDS = 10
EPOCHS = st.lists(st.integers(-1, 6), max_size=3)


class Answer(NamedTuple):
    topic: str
    epochs: list[int]
    topic_id: bytes
    error: int
    version: int


answers = st.builds(
    Answer,
    st.sampled_from(TOPICS),
    EPOCHS,
    st.sampled_from(IDS),
    st.sampled_from([0, 0, 0, 3]),
    st.sampled_from([12, 12, 12, 8]),
)
hints = st.builds(
    LeaderHint, st.sampled_from(TOPICS), st.integers(0, 3), st.integers(-1, 3), st.integers(-1, 8)
)


class Oracle:
    """The rules of P-H.4.2 and P-H.6, one partition at a time and without any short cut."""

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}
        self.seen: dict[tuple[str, int], int] = {}
        self.known: dict[tuple[str, int], int] = {}

    def answer(self, given: Answer) -> None:
        topic, epochs, id_, error, version = given
        if version < FIRST_WITH_IDS:
            id_ = bytes(16)
        old = {key: epoch for key, epoch in self.known.items() if key[0] == topic}
        for key in old:
            del self.known[key]
        old_id = self.ids.pop(topic, None)
        if error:
            return
        is_other = any(id_) and id_ != old_id
        for number, epoch in enumerate(epochs):
            key = (topic, number)
            if version < 9 or epoch == -1:
                self.seen.pop(key, None)
                self.known[key] = -1
            elif key not in self.seen or is_other or epoch >= self.seen[key]:
                self.seen[key] = self.known[key] = epoch
            elif key in old:
                self.known[key] = old[key]
        if any(id_):
            self.ids[topic] = id_

    def hint(self, given: LeaderHint) -> None:
        key = (given.topic, given.partition)
        if key in self.known and given.leader_id in (1, 2):
            newest = max(self.known[key], self.seen.get(key, -1))
            if given.leader_epoch > newest:
                self.seen[key] = self.known[key] = given.leader_epoch


@settings(max_examples=examples(200))
@given(st.lists(answers | hints, max_size=25))
def test_the_snapshot_follows_the_rules_and_epochs_never_go_back(
    events: list[Answer | LeaderHint],
) -> None:
    """P-H.4.1 to P-H.4.4, P-H.6. Only another topic id, or an unknown epoch, starts an epoch
    anew.
    """
    world = World()
    oracle = Oracle()
    for topic in TOPICS:
        world.metadata.add(topic, world.now_ms)
    world.give(*[topic_metadata(topic, error=3) for topic in TOPICS])
    hinted: set[str] = set()
    for event in events:
        before = dict(oracle.seen)
        ids_before = dict(oracle.ids)
        if isinstance(event, Answer):
            apply_answer(world, event, hinted)
            hinted.clear()
            oracle.answer(event)
        else:
            hinted.update(hint.topic for hint in world.metadata.apply_leader_hints([event], []))
            oracle.hint(event)
        cluster = world.metadata.cluster
        known = {
            (topic, number): partition.leader_epoch
            for topic in TOPICS
            for number, partition in cluster.partitions(topic).items()
        }
        assert known == oracle.known
        for topic in TOPICS:
            assert cluster.topic_id(topic) == oracle.ids.get(topic)
            for number in range(4):
                seen = world.last_seen_epoch(topic, number)
                assert seen == oracle.seen.get((topic, number))
                same_id = ids_before.get(topic) == oracle.ids.get(topic)
                if same_id and seen is not None:
                    assert seen >= before.get((topic, number), -1)


def apply_answer(world: World, event: Answer, hinted: set[str]) -> None:
    """One partial answer about one topic; it tells what hints changed since the last one, too."""
    world.metadata.add(event.topic, world.now_ms)
    request = world.ask()._replace(is_partial=True)
    named = topic_metadata(event.topic, event.epochs, topic_id=event.topic_id, error=event.error)
    older = world.metadata.cluster
    response = answer(named, version=event.version)
    changes = world.metadata.update(request, response, world.now_ms)
    assert changes.changed_topics <= {event.topic, *hinted}
    assert changes.removed_topics == older.topics - changes.cluster.topics
