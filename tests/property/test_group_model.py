"""A group under members that do anything in any order, and a coordinator that moves (B-E2).

Whatever they do: each request has one answer, and all of them have one in the end; a generation has
one protocol, and one leader that knows its members; offsets are those of the commits that were
accepted, and are found again.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fastprod.broker.coordinator.group.group_metadata import GroupMetadata, GroupState
from fastprod.broker.coordinator.group.member_metadata import JoinGroupResult, Leaving
from fastprod.error_codes import MEMBER_ID_REQUIRED, NONE
from support.broker.world import move_leader
from support.groups.group_world import REBALANCE_MS, SESSION_MS, Answer, GroupWorld
from support.processes.scale import scaled

PROTOCOLS = [("range", b"r"), ("sticky", b"s")]
INSTANCES = [None, None, "i", "j"]
MEMBERS = st.integers(0, 4)


class Client:
    """What one client believes.

    Attributes:
        instance: of a static member.
        member_id: "": none.
        generation_id: of its last join that was accepted.
        asked: its request that is not answered yet.
    """

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.member_id = ""
        self.generation_id = -1
        self.asked: Answer | None = None
        self.joins = False


class GroupModel(RuleBasedStateMachine):
    """Five clients, one of which may be static, and one group."""

    @initialize(delay_ms=st.sampled_from([0, 3000]), instances=st.permutations(INSTANCES))
    def begin(self, delay_ms: int, instances: list[str | None]) -> None:
        self.world = GroupWorld(group_initial_rebalance_delay_ms=delay_ms, group_max_size=4)
        self.clients = [Client(each) for each in [*instances, None]]
        self.answers: list[Answer] = []
        self.offsets: dict[tuple[str, int], int] = {}
        self.generations: dict[int, tuple[str, str | None]] = {}

    @rule(number=MEMBERS, turned=st.booleans(), requires_id=st.booleans())
    def join(self, number: int, turned: bool, requires_id: bool) -> None:
        client = self.clients[number]
        client.joins = True
        client.asked = self.world.join(
            client.member_id,
            group_instance_id=client.instance,
            protocols=PROTOCOLS[::-1] if turned else PROTOCOLS,
            requires_known_id=requires_id and client.instance is None,
            session_timeout_ms=SESSION_MS * (1 + number),
        )
        self.answers.append(client.asked)
        self.learn()

    @rule(number=MEMBERS, assigns=st.booleans())
    def sync(self, number: int, assigns: bool) -> None:
        client = self.clients[number]
        given = {each.member_id: b"%d" % at for at, each in enumerate(self.clients)}
        client.joins = False
        client.asked = self.world.sync(
            client.member_id,
            client.generation_id,
            given if assigns else None,
            instance=client.instance,
        )
        self.answers.append(client.asked)
        self.learn()

    @rule(number=MEMBERS)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        self.world.heartbeat(client.member_id, client.generation_id, client.instance)

    @rule(number=MEMBERS)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        self.world.leave(Leaving(client.member_id, client.instance))
        self.learn()

    @rule(number=MEMBERS)
    def restart(self, number: int) -> None:
        """Its client forgets all, and comes back as a new one, or as the same instance."""
        self.clients[number].member_id = ""

    @rule(number=MEMBERS, partition=st.integers(0, 2), offset=st.integers(0, 100))
    def commit(self, number: int, partition: int, offset: int) -> None:
        client, place = self.clients[number], ("t", partition)
        codes = self.world.commit(
            {place: offset}, client.member_id, client.generation_id, instance=client.instance
        )
        if codes[place] == NONE:
            self.offsets[place] = offset

    @rule(ms=st.sampled_from([1, 1000, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int) -> None:
        self.world.purgatory.advance(ms)
        self.learn()

    @rule(tells=st.booleans())
    def move(self, tells: bool) -> None:
        partition = self.world.partition()
        move_leader(partition, 1 - partition.leader, [0, 1])
        if tells:
            self.world.manager.drop_moved()
        # The next coordinator may count a generation again that was not complete.
        self.generations.clear()
        self.learn()

    def learn(self) -> None:
        """Have clients take in what they were answered."""
        for client in self.clients:
            answer = client.asked
            if answer is None or not answer.is_given:
                continue
            client.asked = None
            if not client.joins:
                continue
            joined = answer.join()
            if joined.error in (NONE, MEMBER_ID_REQUIRED):
                client.member_id = joined.member_id
            if joined.error == NONE:
                client.generation_id = joined.generation_id
                self.look_at(joined)

    def look_at(self, joined: JoinGroupResult) -> None:
        leads = joined.leader_id == joined.member_id
        ids = [each.member_id for each in joined.members]
        assert len(set(ids)) == len(ids)
        assert not joined.members or (leads and joined.member_id in ids)
        protocol = self.generations.setdefault(
            joined.generation_id, (joined.protocol_name or "", joined.protocol_type)
        )
        assert protocol == (joined.protocol_name, joined.protocol_type)

    @invariant()
    def each_request_has_at_most_one_answer(self) -> None:
        assert all(len(each.results) <= 1 for each in self.answers)

    @invariant()
    def the_group_counts_right(self) -> None:
        for group in self.world.manager.all_items():
            assert isinstance(group, GroupMetadata)
            members = group.members
            waiting = [each for each in members.values() if each.awaiting_join is not None]
            assert group.awaiting_join_count == len(waiting)
            counts = {
                name: sum(name in each.protocol_names() for each in members.values())
                for name, _ in PROTOCOLS
            }
            assert {name: group._protocol_counts[name] for name in counts} == counts
            assert (group.leader_id in members) == bool(members)
            static = {
                each.group_instance_id: each.member_id
                for each in members.values()
                if each.is_static
            }
            assert group._static_members == static
            if group.is_in(GroupState.EMPTY, GroupState.DEAD):
                assert group.is_in(GroupState.DEAD) or not members
            if group.is_in(GroupState.STABLE):
                assert all(each.awaiting_join is None for each in members.values())
            if not group.is_in(GroupState.COMPLETING_REBALANCE):
                assert all(each.awaiting_sync is None for each in members.values())

    @invariant()
    def offsets_are_those_that_were_accepted(self) -> None:
        assert self.world.fetched() == self.offsets

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        # Nobody does anything any more: everybody is answered, and the group ends.
        self.world.purgatory.advance(20 * REBALANCE_MS)
        assert all(len(each.results) == 1 for each in self.answers)
        group = self.world.manager.item("g", self.world.node())
        assert group is None or group.is_unused
        later = self.world.successor()
        assert later.fetched() == self.offsets
        # The look for old offsets.
        assert len(self.world.purgatory.pending) <= 1


TestGroupModel = GroupModel.TestCase
TestGroupModel.settings = settings(max_examples=scaled(2000, at_least=100), stateful_step_count=40)
