"""ClusterConnectionStates: contract P-G.4 to P-G.6, P-G.8; P-L.164-178."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.connections.connection_states import (
    NO_LIMIT_MS,
    ClusterConnectionStates,
    ConnectionState,
)
from fastprod.errors import IllegalStateError
from fastprod.records import Node

NODES = [Node(number, f"b{number}", 9092) for number in range(3)]
B0, B1, B2 = NODES
VERSIONS = ApiVersions({3: (0, 13)})
NOW = 1_000_000


class Dns:
    """Two addresses for every host; counts the questions."""

    def __init__(self) -> None:
        self.questions = 0

    def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.questions += 1
        return [Address(socket.AF_INET, f"10.0.0.{n}", port) for n in (1, 2)]


@pytest.fixture
def dns() -> Dns:
    return Dns()


@pytest.fixture
def states(dns: Dns) -> ClusterConnectionStates:
    return ClusterConnectionStates(
        ExponentialBackoff(50, 1000, jitter=0),
        ExponentialBackoff(10_000, 30_000, jitter=0),
        resolver=dns,
        random_index=lambda count: 0,
    )


def make_ready(states: ClusterConnectionStates, *nodes: Node, now_ms: int = NOW) -> None:
    for node in nodes:
        states.connecting(node, now_ms)
        states.checking_api_versions(node.id)
        states.ready(node.id, VERSIONS)


def test_an_unknown_node_may_be_connected_at_once(states: ClusterConnectionStates) -> None:
    """P-G.4.1."""
    assert states.state(0) is ConnectionState.DISCONNECTED
    assert states.can_connect(0, NOW)
    assert states.connection_delay_ms(0, NOW) == 0
    with pytest.raises(IllegalStateError, match="node 0"):
        states.disconnected(0, NOW)


def test_the_way_to_ready_and_its_delays(states: ClusterConnectionStates) -> None:
    """P-G.4.1, P-G.4.3, P-G.5.7; P-L.174 testIsPreparingConnection."""
    states.connecting(B0, NOW)
    assert states.is_connecting(0)
    assert states.is_preparing_connection(0)
    assert states.is_any_node_connecting()
    assert not states.can_connect(0, NOW + 10**9)
    assert states.connection_delay_ms(0, NOW) == 10_000
    states.checking_api_versions(0)
    assert states.is_preparing_connection(0)
    assert not states.is_connecting(0)
    assert not states.is_ready(0, NOW)
    assert states.connection_delay_ms(0, NOW) == NO_LIMIT_MS
    assert states.api_versions(0) is None
    states.ready(0, VERSIONS)
    assert states.is_ready(0, NOW)
    assert not states.is_any_node_connecting()
    assert states.connection_delay_ms(0, NOW) == NO_LIMIT_MS
    assert states.api_versions(0) is VERSIONS


def test_reconnecting_backs_off_exponentially_from_the_disconnect(
    states: ClusterConnectionStates,
) -> None:
    """P-G.4.2; P-L.174 testExponentialReconnectBackoff, testMaxReconnectBackoff."""
    delays = []
    now = NOW
    for _ in range(7):
        states.connecting(B0, now)
        now += 7
        states.disconnected(0, now)
        delays.append(states.connection_delay_ms(0, now))
        assert not states.can_connect(0, now + delays[-1] - 1)
        now += delays[-1]
        assert states.can_connect(0, now)
    assert delays == [50, 100, 200, 400, 800, 1000, 1000]
    states.connecting(B0, now)
    states.checking_api_versions(0)
    states.disconnected(0, now)
    assert states.connection_delay_ms(0, now) == 1000
    now += 1000
    make_ready(states, B0, now_ms=now)
    states.disconnected(0, now)
    assert states.connection_delay_ms(0, now) == 50


def test_a_failed_authentication_backs_off_for_longer(states: ClusterConnectionStates) -> None:
    """P-G.4.6: at most five connections in three seconds, until one is ready."""
    starts = []
    now = NOW
    while now < NOW + 3_000:
        starts.append(now)
        states.connecting(B0, now)
        states.authentication_failed(0, now)
        assert states.state(0) is ConnectionState.AUTHENTICATION_FAILED
        assert states.is_disconnected(0)
        assert not states.can_connect(0, now)
        assert not states.is_preparing_connection(0)
        states.authentication_failed(0, now + 5)
        states.disconnected(0, now + 5)
        assert states.state(0) is ConnectionState.AUTHENTICATION_FAILED
        now += states.connection_delay_ms(0, now)
        assert states.can_connect(0, now)
    assert 4 <= len(starts) <= 5
    make_ready(states, B0, now_ms=now)
    states.disconnected(0, now)
    assert states.connection_delay_ms(0, now) == 50
    with pytest.raises(IllegalStateError, match="node 1"):
        states.authentication_failed(1, now)


def test_a_second_disconnect_does_not_renew_the_backoff(states: ClusterConnectionStates) -> None:
    """P-G.4.7; P-L.173 testCallDisconnect."""
    states.connecting(B0, NOW)
    states.disconnected(0, NOW)
    states.disconnected(0, NOW + 40)
    assert states.connection_delay_ms(0, NOW + 40) == 10
    assert states.can_connect(0, NOW + 50)


def test_the_setup_timeout_grows_with_failures_to_connect(
    states: ClusterConnectionStates,
) -> None:
    """P-G.4.4; P-L.174 testExponentialConnectionSetupTimeout, P-L.166
    testConnectionSetupTimeout.
    """
    now = NOW
    timeouts = []
    for _ in range(4):
        states.connecting(B0, now)
        timeouts.append(states.connection_delay_ms(0, now))
        assert states.nodes_with_setup_timeout(now + timeouts[-1]) == []
        assert states.nodes_with_setup_timeout(now + timeouts[-1] + 1) == [0]
        states.disconnected(0, now)
        now += 1000
    assert timeouts == [10_000, 20_000, 30_000, 30_000]
    make_ready(states, B0, now_ms=now)
    states.disconnected(0, now)
    states.connecting(B0, now + 50)
    assert states.connection_delay_ms(0, now + 50) == 10_000


def test_losing_an_established_connection_does_not_grow_the_setup_timeout(
    states: ClusterConnectionStates,
) -> None:
    """P-G.4.4: READY -> disconnected."""
    for _ in range(3):
        make_ready(states, B0)
        states.disconnected(0, NOW)
    states.connecting(B0, NOW)
    assert states.connection_delay_ms(0, NOW) == 10_000


def test_only_connecting_nodes_time_out(states: ClusterConnectionStates) -> None:
    """P-L.174 testTimedOutConnections."""
    states.connecting(B0, NOW)
    states.connecting(B1, NOW + 6000)
    states.connecting(B2, NOW)
    states.checking_api_versions(2)
    assert states.nodes_with_setup_timeout(NOW + 10_001) == [0]
    assert states.nodes_with_setup_timeout(NOW + 16_001) == [0, 1]
    states.disconnected(0, NOW + 16_001)
    states.checking_api_versions(1)
    assert states.nodes_with_setup_timeout(NOW + 10**6) == []


def test_the_next_setup_timeout_is_known_and_none_is_told_twice(
    states: ClusterConnectionStates,
) -> None:
    """P-G.4.4"""
    assert states.setup_delay_ms(NOW) > 10**9
    states.connecting(B0, NOW)
    states.connecting(B1, NOW + 6000)
    assert states.setup_delay_ms(NOW + 6000) == 4001
    assert states.nodes_with_setup_timeout(NOW + 10_001) == [0]
    states.overdue(0)
    assert states.nodes_with_setup_timeout(NOW + 10_001) == []
    assert states.setup_delay_ms(NOW + 10_001) == 6000
    assert states.setup_delay_ms(NOW + 20_000) == 1
    states.disconnected(0, NOW + 10_002)
    states.connecting(B0, NOW + 11_000)
    assert states.nodes_with_setup_timeout(NOW + 31_001) == [0, 1]


def test_attempts_go_through_the_addresses_and_a_lost_connection_asks_dns_again(
    states: ClusterConnectionStates, dns: Dns
) -> None:
    """P-G.4.5; P-L.172 testFailedConnectionToFirstAddress(AfterReconnect)."""
    tried = []
    for _ in range(2):
        states.connecting(B0, NOW)
        tried.append(states.current_address(0).ip)
        states.disconnected(0, NOW)
    assert tried == ["10.0.0.1", "10.0.0.2"]
    assert dns.questions == 1
    make_ready(states, B0)
    assert states.current_address(0).ip == "10.0.0.1"
    assert dns.questions == 2
    states.disconnected(0, NOW)
    states.connecting(B0, NOW)
    assert states.current_address(0).ip == "10.0.0.2"
    assert dns.questions == 3


def test_an_address_that_was_connected_to_and_is_no_broker_is_left_for_the_next(
    states: ClusterConnectionStates, dns: Dns
) -> None:
    """P-G.4.5: it takes connections, and ends them before it has said what it speaks."""
    tried = []
    for _ in range(4):
        states.connecting(B0, NOW)
        tried.append(states.current_address(0).ip)
        states.checking_api_versions(0)
        states.disconnected(0, NOW)
    assert tried == ["10.0.0.1", "10.0.0.2"] * 2
    assert dns.questions == 2


def test_a_node_that_moved_begins_anew(states: ClusterConnectionStates, dns: Dns) -> None:
    """P-G.4.5: a changed host name; a changed port as well."""
    for moved in (B0, B0._replace(host="elsewhere"), B0._replace(host="elsewhere", port=1)):
        states.connecting(moved, NOW)
        assert states.current_address(0).port == moved.port
        states.disconnected(0, NOW)
        assert states.connection_delay_ms(0, NOW) == 50
    assert dns.questions == 3


def test_a_throttled_node_is_not_ready_and_the_deadline_never_regresses(
    states: ClusterConnectionStates,
) -> None:
    """P-G.8; P-L.167 testConnectionThrottling (100, 50, 0), P-L.174 testThrottled."""
    make_ready(states, B0)
    states.throttle(0, NOW + 100)
    assert not states.is_ready(0, NOW + 99)
    states.throttle(0, NOW + 60)
    assert not states.is_ready(0, NOW + 99)
    assert states.is_ready(0, NOW + 100)


def test_versions_are_forgotten_with_the_connection(states: ClusterConnectionStates) -> None:
    """P-G.5.5."""
    make_ready(states, B0, B1)
    states.disconnected(0, NOW)
    assert [states.api_versions(number) for number in range(3)] == [None, VERSIONS, None]


def least(
    states: ClusterConnectionStates,
    in_flight: dict[int, int] | None = None,
    *,
    now_ms: int = NOW,
    full: frozenset[int] = frozenset(),
) -> tuple[Node | None, bool]:
    found = states.least_loaded_node(
        NODES,
        now_ms,
        in_flight_count=lambda number: (in_flight or {}).get(number, 0),
        can_send_more=lambda number: number not in full,
    )
    return found.node, found.has_node_or_ready_connection


def test_an_idle_ready_node_is_the_least_loaded(states: ClusterConnectionStates) -> None:
    """P-G.6."""
    make_ready(states, B0, B1, B2)
    assert least(states, {0: 2, 1: 0, 2: 0}) == (B1, True)
    assert least(states, {0: 2, 1: 3, 2: 1}) == (B2, True)
    assert least(states, {0: 2, 1: 2, 2: 2}) == (B0, True)
    assert least(states, {0: 1, 1: 0, 2: 2}, full=frozenset({1})) == (B0, True)


def test_ready_goes_before_connecting_before_connectable(states: ClusterConnectionStates) -> None:
    """P-G.6: nothing new is started while something is under way (P-H.2.7)."""
    assert least(states) == (B0, True)
    states.connecting(B1, NOW)
    assert least(states) == (B1, True)
    states.checking_api_versions(1)
    assert least(states) == (B1, True)
    make_ready(states, B2)
    assert least(states, {2: 4}) == (B2, True)


def test_of_connectable_nodes_the_one_tried_longest_ago_is_taken(
    states: ClusterConnectionStates,
) -> None:
    """P-G.6; P-L.168 ...PrioritizedByLastConnectionTimestamp: a round visits every node once."""
    now = NOW
    for _ in range(3):
        visited = []
        for _ in NODES:
            node, _ = least(states, now_ms=now)
            assert node is not None
            visited.append(node.id)
            states.connecting(node, now)
            states.disconnected(node.id, now)
            now += 2000
        assert sorted(visited) == [0, 1, 2]


def test_no_node_may_be_left_while_a_connection_is_ready(states: ClusterConnectionStates) -> None:
    """P-G.6, P-H.5.2; P-L.168 testHasNodeAvailableOrConnectionReady: none, but the flag is true."""
    make_ready(states, B0)
    for node in (B1, B2):
        states.connecting(node, NOW)
        states.disconnected(node.id, NOW)
    assert least(states, full=frozenset({0})) == (None, True)
    states.disconnected(0, NOW)
    assert least(states) == (None, False)
    assert least(states, now_ms=NOW + 50)[1]


def test_a_connection_that_is_being_closed_takes_no_request(
    states: ClusterConnectionStates,
) -> None:
    """P-G.4.7: it has answered, though: no reason to look for other brokers yet."""
    make_ready(states, B0)
    states.closing(0)
    assert states.state(0) is ConnectionState.CLOSING
    assert not states.is_ready(0, NOW)
    assert not states.can_connect(0, NOW)
    assert not states.is_any_node_connecting()
    assert states.api_versions(0) is not None
    assert states.least_loaded_node(
        [B0], NOW, in_flight_count=lambda _: 0, can_send_more=lambda _: True
    ) == (None, True)
    states.disconnected(0, NOW)
    assert states.is_disconnected(0)
    states.closing(0)
    assert states.is_disconnected(0), "there is nothing left to close"


def test_throttled_nodes_are_not_chosen(states: ClusterConnectionStates) -> None:
    """P-L.167 testLeastLoadedNodeConsidersThrottledConnections; nor are they lost, which would send
    us back to the bootstrap servers (in Java it does)."""
    make_ready(states, B0, B1, B2)
    states.throttle(0, NOW + 100)
    states.throttle(1, NOW + 100)
    assert least(states) == (B2, True)
    states.throttle(2, NOW + 100)
    assert least(states) == (None, True)


def test_the_search_starts_anywhere(dns: Dns) -> None:
    """P-G.6: a random index."""
    starts = iter([2, 1])
    states = ClusterConnectionStates(
        ExponentialBackoff(50, 1000),
        ExponentialBackoff(10_000, 30_000),
        random_index=lambda count: next(starts) % count,
        resolver=dns,
    )
    make_ready(states, *NODES)
    assert least(states)[0] is B2
    assert least(states)[0] is B1


def test_a_cluster_without_nodes_is_an_error(states: ClusterConnectionStates) -> None:
    """P-G.6."""
    with pytest.raises(IllegalStateError, match="no nodes"):
        states.least_loaded_node(
            [], NOW, in_flight_count=lambda number: 0, can_send_more=lambda number: True
        )
