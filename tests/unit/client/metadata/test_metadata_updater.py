"""MetadataUpdater: contract P-H.2.5 to P-H.2.7, P-H.5; P-L.165, P-L.169."""

from __future__ import annotations

import socket

import pytest

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.connections.connection_states import NO_LIMIT_MS, ClusterConnectionStates
from fastprod.client.metadata.metadata import MetadataChanges
from fastprod.client.metadata.metadata_updater import MetadataUpdater, Step
from fastprod.errors import (
    IllegalStateError,
    KafkaError,
    UnsupportedVersionError,
)
from fastprod.records import Node
from support.oracle.metadata_world import B1, B2, MAX_AGE_MS, World, answer, topic_metadata

FIRST = Node(-1, "b1", 9092)
SECOND = Node(-2, "b2", 9092)
RECONNECT_MS = 50
TIMEOUT_MS = 30_000
TRIGGER_MS = 300_000


class Client:
    """A control thread reduced to what the updater sees of it."""

    def __init__(
        self, *, rebootstraps: bool = True, reconnect_backoff_ms: int = RECONNECT_MS
    ) -> None:
        self.world = World()
        self.metadata = self.world.metadata
        self.metadata.bootstrap([FIRST, SECOND])
        self.states = ClusterConnectionStates(
            ExponentialBackoff(RECONNECT_MS, 1000, jitter=0),
            ExponentialBackoff(10_000, 30_000, jitter=0),
            resolver=lambda host, port: [Address(socket.AF_INET, "10.0.0.1", port)],
            random_index=lambda count: 0,
        )
        self.in_flight: dict[int, int] = {}
        self.busy: set[int] = set()
        self.updater = MetadataUpdater(
            self.metadata,
            self.states,
            in_flight_count=lambda number: self.in_flight.get(number, 0),
            can_send_more=lambda number: number not in self.busy,
            rebootstraps=rebootstraps,
            rebootstrap_trigger_ms=TRIGGER_MS,
            reconnect_backoff_ms=reconnect_backoff_ms,
            request_timeout_ms=TIMEOUT_MS,
        )

    @property
    def now_ms(self) -> int:
        return self.world.now_ms

    def step(self) -> tuple[Step, int, Node | None]:
        found = self.updater.maybe_update(self.now_ms)
        return found.step, found.delay_ms, found.node

    def make_ready(self, *nodes: Node) -> None:
        for node in nodes:
            self.states.connecting(node, self.now_ms)
            self.states.checking_api_versions(node.id)
            self.states.ready(node.id, ApiVersions({3: (0, 13)}))

    def lose(self, *nodes: Node) -> None:
        for node in nodes:
            if self.states.is_disconnected(node.id):
                self.states.connecting(node, self.now_ms)
            self.states.disconnected(node.id, self.now_ms)
            self.updater.handle_disconnect(node.id, self.now_ms)

    def discover(self) -> None:
        """Come to know the brokers 1 and 2, by way of the first bootstrap server."""
        self.make_ready(FIRST)
        assert self.step() == (Step.SEND, TIMEOUT_MS, FIRST)
        assert isinstance(self.updater.handle_response(answer(), self.now_ms), MetadataChanges)


@pytest.fixture
def client() -> Client:
    return Client()


def test_from_the_first_connection_to_the_first_answer(client: Client) -> None:
    """P-H.2.7: connect, wait while connecting, send, wait while under way, then until it is old."""
    assert client.step() == (Step.CONNECT, RECONNECT_MS, FIRST)
    client.states.connecting(FIRST, client.now_ms)
    assert client.step() == (Step.WAIT, RECONNECT_MS, None)
    client.make_ready(FIRST)
    assert client.updater.is_update_due(client.now_ms)
    found = client.updater.maybe_update(client.now_ms)
    assert (found.step, found.node) == (Step.SEND, FIRST)
    assert found.request is not None
    assert found.request.topics == ()
    assert client.updater.is_in_progress
    assert not client.updater.is_update_due(client.now_ms)
    assert client.step() == (Step.WAIT, TIMEOUT_MS, None)
    changes = client.updater.handle_response(answer(), client.now_ms)
    assert isinstance(changes, MetadataChanges)
    assert changes.cluster.nodes == (B1, B2)
    assert client.step() == (Step.WAIT, MAX_AGE_MS, None)


def ask_again(client: Client) -> tuple[Step, Node | None]:
    """What is done for an update that is asked for once every backoff is over."""
    client.world.now_ms += 1000
    client.metadata.request_update()
    step, _, node = client.step()
    return step, node


def test_the_bootstrap_server_is_asked_until_a_broker_has_been_connected(client: Client) -> None:
    """P-H.2.10: it answers at once; a broker would have to be connected to first."""
    client.discover()
    assert ask_again(client) == (Step.SEND, FIRST)
    client.updater.handle_failed_request(client.now_ms)
    client.states.connecting(B2, client.now_ms)
    assert ask_again(client) == (Step.SEND, FIRST)
    client.updater.handle_failed_request(client.now_ms)
    client.make_ready(B2)
    assert ask_again(client) == (Step.SEND, B2)
    client.updater.handle_failed_request(client.now_ms)
    client.states.disconnected(B2.id, client.now_ms)
    assert ask_again(client) == (Step.CONNECT, B1)


@pytest.mark.parametrize("why", ["a broker has failed", "it takes no more", "it is gone"])
def test_the_bootstrap_server_is_not_asked_in_a_brokers_place(client: Client, why: str) -> None:
    """P-H.2.10: what it told may be wrong, or it cannot be asked."""
    client.discover()
    if why == "a broker has failed":
        client.states.connecting(B2, client.now_ms)
        client.states.disconnected(B2.id, client.now_ms)
    elif why == "it takes no more":
        client.busy = {FIRST.id}
    else:
        client.states.disconnected(FIRST.id, client.now_ms)
    assert ask_again(client) == (Step.CONNECT, B1)


def test_without_a_backoff_it_sleeps_all_the_same_while_there_is_nothing_to_do() -> None:
    """A connection that takes its time must not cost a core."""
    client = Client(reconnect_backoff_ms=0)
    client.states.connecting(FIRST, client.now_ms)
    step, delay_ms, _ = client.step()
    assert step is Step.WAIT
    assert delay_ms > 0


def test_a_node_that_cannot_take_more_is_waited_for(client: Client) -> None:
    """P-H.2.7: connected, and full: an event will tell."""
    client.discover()
    client.make_ready(B1)
    client.metadata.request_update()
    client.world.now_ms += 100
    client.in_flight = {1: 5}
    assert client.step() == (Step.SEND, TIMEOUT_MS, B1)
    client.updater.handle_failed_request(client.now_ms)
    client.world.now_ms += 100
    client.busy = {1}
    assert client.step() == (Step.CONNECT, RECONNECT_MS, B2)


def test_while_one_node_connects_no_other_is_tried(client: Client) -> None:
    """P-H.2.7."""
    client.states.connecting(SECOND, client.now_ms)
    assert client.step() == (Step.WAIT, RECONNECT_MS, None)
    client.states.checking_api_versions(SECOND.id)
    assert client.step() == (Step.WAIT, RECONNECT_MS, None)


def test_without_any_node_it_is_tried_again_after_the_backoff(client: Client) -> None:
    """P-H.2.7. From the bootstrap servers there is nowhere to go back to."""
    client.lose(FIRST, SECOND)
    version = client.metadata.update_version
    client.world.now_ms += 40
    assert client.step()[0] is Step.WAIT
    assert client.metadata.update_version == version


def test_a_lost_connection_fails_its_request_once(client: Client) -> None:
    """P-H.2.5, P-L.165: and an update is requested."""
    client.make_ready(FIRST)
    client.step()
    client.lose(FIRST)
    assert not client.updater.is_in_progress
    assert client.metadata.time_to_next_update_ms(client.now_ms) == 100
    client.world.now_ms += 100
    assert client.step() == (Step.CONNECT, RECONNECT_MS, SECOND)


def test_another_connections_end_leaves_the_request_alone(client: Client) -> None:
    """P-L.169 testAuthenticationFailureWithInFlightMetadataRequest: any end of it."""
    client.metadata.add("t", client.now_ms)
    client.make_ready(FIRST)
    client.step()
    client.states.connecting(SECOND, client.now_ms)
    client.states.disconnected(SECOND.id, client.now_ms)
    client.updater.handle_disconnect(SECOND.id, client.now_ms)
    assert client.updater.is_in_progress
    changes = client.updater.handle_response(answer(topic_metadata("t")), client.now_ms)
    assert isinstance(changes, MetadataChanges)
    assert changes.cluster.topics == {"t"}


def test_a_disconnect_asks_for_an_update_and_backs_off_if_one_was_due(client: Client) -> None:
    """P-H.2.5, P-H.2.6."""
    client.discover()
    client.make_ready(B1)
    client.lose(B1)
    assert client.world.is_update_requested
    client.world.now_ms += 100
    assert client.updater.is_update_due(client.now_ms)
    client.make_ready(B1)
    client.lose(B1)
    client.make_ready(B1)
    client.lose(B1)
    assert client.metadata.time_to_next_update_ms(client.now_ms) == 100
    client.world.now_ms += 100
    client.make_ready(B1)
    client.lose(B1)
    assert client.metadata.time_to_next_update_ms(client.now_ms) == 200


def test_an_answer_without_brokers_is_a_failure(client: Client) -> None:
    """P-H.2.5."""
    client.make_ready(FIRST)
    client.step()
    version = client.metadata.update_version
    error = client.updater.handle_response(answer(nodes=()), client.now_ms)
    assert isinstance(error, KafkaError)
    assert "names no broker" in str(error)
    assert client.metadata.update_version == version
    assert client.metadata.time_to_next_update_ms(client.now_ms) == 100


def test_an_unsupported_version_reaches_a_waiter(client: Client) -> None:
    """P-G.2.7, P-H.7.2."""
    client.make_ready(FIRST)
    client.step()
    client.updater.handle_failed_request(client.now_ms, UnsupportedVersionError("too old"))
    with pytest.raises(UnsupportedVersionError, match="too old"):
        client.metadata.wait_for_topic("t", None, 100)
    assert not client.updater.is_in_progress


def test_with_nobody_left_to_ask_it_starts_again(client: Client) -> None:
    """P-H.5.2, KIP-899: an update is due, no node is available, no connection is ready."""
    client.discover()
    client.states.disconnected(FIRST.id, client.now_ms)
    client.lose(B1, B2)
    client.metadata.add("t", client.now_ms)
    version = client.metadata.update_version
    assert client.step() == (Step.CONNECT, RECONNECT_MS, SECOND)
    assert client.metadata.cluster.is_bootstrap
    assert client.metadata.update_version == version + 1


def test_a_ready_connection_keeps_the_known_cluster(client: Client) -> None:
    """P-H.5.2: even if it cannot take the request now."""
    client.discover()
    client.make_ready(B1)
    client.lose(B2)
    client.busy = {1}
    client.metadata.add("t", client.now_ms)
    assert client.step()[0] is Step.WAIT
    assert not client.metadata.cluster.is_bootstrap


def test_strategy_none_never_starts_again() -> None:
    """P-H.5.4."""
    client = Client(rebootstraps=False)
    client.discover()
    client.lose(B1, B2)
    client.metadata.add("t", client.now_ms)
    assert client.step() == (Step.WAIT, RECONNECT_MS, None)
    assert not client.metadata.cluster.is_bootstrap
    client.world.now_ms += TRIGGER_MS * 2
    assert not client.updater.needs_rebootstrap(client.now_ms)
    assert client.updater.time_to_rebootstrap_ms(client.now_ms) == NO_LIMIT_MS
    client.make_ready(B1)
    client.step()
    error = client.updater.handle_response(answer(error=129), client.now_ms)
    assert isinstance(error, KafkaError)
    assert error.code == 129
    assert not client.updater.needs_rebootstrap(client.now_ms)


def test_too_long_without_success_triggers_a_rebootstrap(client: Client) -> None:
    """P-H.5.3, KIP-1102: from the first attempt without success; an answer stops the clock."""
    client.discover()
    assert client.updater.time_to_rebootstrap_ms(client.now_ms) == NO_LIMIT_MS
    client.make_ready(B1)
    client.metadata.request_update()
    client.world.now_ms += 100
    start_ms = client.now_ms
    assert client.step()[0] is Step.SEND
    client.updater.handle_failed_request(client.now_ms)
    client.world.now_ms += 10_000
    assert client.step()[0] is Step.SEND
    client.updater.handle_failed_request(client.now_ms)
    client.world.now_ms = start_ms + TRIGGER_MS
    assert client.updater.time_to_rebootstrap_ms(client.now_ms) == 1
    assert not client.updater.needs_rebootstrap(client.now_ms)
    client.world.now_ms += 1
    assert client.updater.needs_rebootstrap(client.now_ms)
    client.updater.rebootstrap(client.now_ms)
    assert client.metadata.cluster.nodes == (FIRST, SECOND)
    assert not client.updater.needs_rebootstrap(client.now_ms)
    assert client.updater.time_to_rebootstrap_ms(client.now_ms) == TRIGGER_MS + 1


def test_success_in_between_stops_the_clock(client: Client) -> None:
    """P-H.5.3."""
    client.step()
    client.world.now_ms += TRIGGER_MS - 1
    client.discover()
    client.world.now_ms += TRIGGER_MS
    assert not client.updater.needs_rebootstrap(client.now_ms)


def test_a_broker_may_demand_a_rebootstrap(client: Client) -> None:
    """P-H.5.3: error 129 at the top of a version 13 answer."""
    client.discover()
    client.make_ready(B1)
    client.metadata.request_update()
    client.world.now_ms += 100
    client.step()
    error = client.updater.handle_response(answer(error=129, version=13), client.now_ms)
    assert isinstance(error, KafkaError)
    assert client.updater.needs_rebootstrap(client.now_ms)
    client.updater.rebootstrap(client.now_ms)
    assert not client.updater.needs_rebootstrap(client.now_ms)


def test_an_answer_nobody_asked_for_is_an_error(client: Client) -> None:
    with pytest.raises(IllegalStateError, match="no request"):
        client.updater.handle_response(answer(), client.now_ms)


def try_in_turn(client: Client) -> list[int]:
    """Whom it tries before it backs off; each fails."""
    tried = []
    while (found := client.updater.maybe_update(client.now_ms)).step is Step.CONNECT:
        assert found.node is not None
        tried.append(found.node.id)
        client.states.connecting(found.node, client.now_ms)
        client.states.disconnected(found.node.id, client.now_ms)
        client.updater.handle_disconnect(found.node.id, client.now_ms)
    return tried


def test_while_all_known_brokers_fail_the_bootstrap_servers_are_tried_beside_them(
    client: Client,
) -> None:
    """P-H.5.2: one of the known ones has always done its backoff when its turn comes."""
    client.discover()
    client.make_ready(B1, B2)
    client.lose(B1, B2, FIRST)
    client.world.now_ms += 1_000
    assert try_in_turn(client) == [1]
    client.world.now_ms += 1_000
    assert try_in_turn(client) == [2, -2, -1, 1]


def test_after_a_bootstrap_the_brokers_of_before_are_tried_beside_the_servers(
    client: Client,
) -> None:
    """P-H.5.2: the addresses in bootstrap_servers may be those that are old."""
    client.discover()
    client.make_ready(B1, B2)
    client.lose(B1, B2, FIRST)
    for _ in range(4):
        client.world.now_ms += 2_000
        try_in_turn(client)
    assert client.metadata.cluster.is_bootstrap
    client.world.now_ms += 2_000
    assert sorted(try_in_turn(client)) == [-2, -1, 1, 2]
    client.world.now_ms += 2_000
    client.make_ready(B2)
    assert client.step() == (Step.SEND, TIMEOUT_MS, B2)
    assert isinstance(client.updater.handle_response(answer(), client.now_ms), MetadataChanges)
    assert not client.metadata.cluster.is_bootstrap


def test_all_bootstrap_servers_are_tried_in_one_turn_once_all_have_failed(client: Client) -> None:
    """P-H.5.2"""
    client.lose(FIRST, SECOND)
    for _ in range(2):
        client.world.now_ms += 2_000
        try_in_turn(client)
    client.world.now_ms += 2_000
    assert sorted(try_in_turn(client)) == [-2, -1]


def test_a_node_that_has_moved_owes_no_backoff(client: Client) -> None:
    """P-G.4.3"""
    client.discover()
    client.make_ready(B1)
    for _ in range(5):
        client.lose(B1)
    assert not client.states.can_connect(1, client.now_ms)
    client.make_ready(B2)
    client.metadata.request_update()
    client.world.now_ms += 400
    assert client.step()[0] is Step.SEND
    moved = Node(1, "b1", 9999)
    client.updater.handle_response(answer(nodes=(moved, B2)), client.now_ms)
    assert client.states.can_connect(1, client.now_ms)
