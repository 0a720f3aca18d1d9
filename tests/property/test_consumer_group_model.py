"""Members of a group that the broker assigns do anything at any time; nobody has what others have.

Each member is a client as Kafka's: it uses what it is told, says what it has, gives up what it is
told to give up after a while, and begins anew when it is fenced (B-E3).
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from fastprod.error_codes import (
    FENCED_MEMBER_EPOCH,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
)
from support.groups.group_world import GroupWorld
from support.processes.scale import examples

SESSION_MS = 10_000
REBALANCE_MS = 3_000
PARTITIONS = {"t": 4, "u": 4}
Place = tuple[str, int]


class Client:
    """One consumer: what it reads, where it is, what it has."""

    def __init__(self, name: str, topics: list[str]) -> None:
        self.name = name
        self.topics = topics
        self.epoch = 0
        self.owned: set[Place] = set()
        self.target: set[Place] = set()
        self.said_topics: list[str] | None = None

    def by_topic(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name, index in sorted(self.owned):
            found.setdefault(name, []).append(index)
        return found

    def begin_anew(self) -> None:
        self.epoch, self.owned, self.target, self.said_topics = 0, set(), set(), None


class ConsumerGroupModel(RuleBasedStateMachine):
    """A coordinator, and clients that forget nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client] = {}
        self.number = 0
        self.offsets: dict[Place, int] = {}

    @initialize()
    def begin(self) -> None:
        self.world = GroupWorld(group_consumer_session_timeout_ms=SESSION_MS)

    # What clients do.

    @precondition(lambda self: len(self.clients) < 4)
    @rule(topics=st.sampled_from([["t"], ["t"], ["u"], ["t", "u"]]))
    def come(self, topics: list[str]) -> None:
        self.number += 1
        client = self.clients[f"m{self.number}"] = Client(f"m{self.number}", topics)
        self._beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_lost=st.booleans())
    def beat(self, data: st.DataObject, is_lost: bool) -> None:
        self._beat(self._pick(data), is_lost and data.draw(st.booleans()))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def give_up_and_take(self, data: st.DataObject) -> None:
        client = self._pick(data)
        client.owned &= client.target
        client.owned |= client.target
        self._no_two_have_one()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topics=st.sampled_from([["t"], ["u"], ["t", "u"]]))
    def read_something_else(self, data: st.DataObject, topics: list[str]) -> None:
        self._pick(data).topics = topics

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self._pick(data)
        del self.clients[client.name]
        if client.epoch:
            assert self.world.beat(client.name, -1).error in (NONE, UNKNOWN_MEMBER_ID)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def fall_silent(self, data: st.DataObject) -> None:
        del self.clients[self._pick(data).name]

    @precondition(lambda self: any(each.owned for each in self.clients.values()))
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        having = sorted(name for name, each in self.clients.items() if each.owned)
        client = self.clients[data.draw(st.sampled_from(having))]
        place = data.draw(st.sampled_from(sorted(client.owned)))
        offset = self.offsets.get(place, 0) + 1
        found = self.world.commit({place: offset}, client.name, client.epoch, knows_epochs=True)
        assert found[place] in (NONE, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID)
        if found[place] == NONE:
            self.offsets[place] = offset

    @rule(ms=st.sampled_from([100, 1000, REBALANCE_MS + 1, SESSION_MS + 1]))
    def wait(self, ms: int) -> None:
        self.world.purgatory.advance(ms)
        # Who was not heard of for so long has stopped to use what it had, as clients do.
        for client in self.clients.values():
            if client.name not in self._members():
                client.begin_anew()

    @rule()
    def restart_the_coordinator(self) -> None:
        group = self._group()
        before = None if group is None else sorted(group.live_entries())
        self.world = self.world.successor()
        group = self._group()
        assert before == (None if group is None else sorted(group.live_entries()))

    @precondition(lambda self: self._group() is not None)
    @rule()
    def write_anew(self) -> None:
        group = self._group()
        assert group is not None
        with group.lock:
            assert self.world.manager.append_all(group, group.live_entries()) == NONE

    # What must hold.

    @invariant()
    def nobody_is_given_what_another_one_has(self) -> None:
        group = self._group()
        if group is None:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for each in (member.assigned, member.pending_revocation):
                for topic_id, epochs in each.items():
                    for index, epoch in epochs.items():
                        assert (topic_id, index) not in owners
                        owners[topic_id, index] = member.member_id
                        assert epoch <= max(member.member_epoch, member.previous_epoch)
        assert group.owners == owners
        assert group.target_assignment.keys() <= group.members.keys()

    @invariant()
    def offsets_are_those_that_were_accepted(self) -> None:
        if hasattr(self, "world"):
            assert self.world.fetched() == self.offsets

    def teardown(self) -> None:
        """Everybody goes on without trouble: all is shared, once, evenly enough."""
        if not hasattr(self, "world"):
            return
        for _ in range(3):
            # Those who have fallen silent end.
            self.wait(SESSION_MS // 2)
            for client in self.clients.values():
                self._beat(client)
                client.owned = set(client.target)
        for _ in range(12):
            for client in self.clients.values():
                self._beat(client)
                client.owned = set(client.target)
                self._no_two_have_one()
        read = {name for each in self.clients.values() for name in each.topics}
        having = [place for each in self.clients.values() for place in each.owned]
        assert sorted(having) == sorted(
            (name, index) for name in read for index in range(PARTITIONS[name])
        )
        for client in self.clients.values():
            assert {name for name, _ in client.owned} <= set(client.topics)
        group = self._group()
        if group is not None:
            assert group.state_name == ("Stable" if self.clients else "Empty")
            self.world.purgatory.advance(2 * SESSION_MS)
            assert group.is_empty

    def _pick(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    def _group(self) -> ConsumerGroup | None:
        found = self.world.manager.item("g", self.world.node())
        return found if isinstance(found, ConsumerGroup) else None

    def _members(self) -> Any:
        group = self._group()
        return {} if group is None else group.members

    def _beat(self, client: Client, is_lost: bool = False) -> None:
        # Who has missed an answer says everything, and is told everything.
        says_topics = client.said_topics != client.topics
        result = self.world.beat(
            client.name,
            client.epoch,
            client.by_topic() if client.epoch else {},
            topics=client.topics if says_topics else None,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        if is_lost:
            client.said_topics = None
            return
        if result.error != NONE:
            assert result.error in (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, 69), result
            client.begin_anew()
            return
        client.said_topics = client.topics
        client.epoch = result.member_epoch
        given = self.world.given(result)
        if given is not None:
            client.target = {(name, index) for name, indexes in given.items() for index in indexes}

    def _no_two_have_one(self) -> None:
        """No two clients that are members use the same partition."""
        members = self._members()
        seen: dict[Place, str] = {}
        for client in self.clients.values():
            if client.name in members:
                for place in client.owned:
                    assert place not in seen, (place, seen.get(place), client.name)
                    seen[place] = client.name


ConsumerGroupModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestConsumerGroupModel = ConsumerGroupModel.TestCase
