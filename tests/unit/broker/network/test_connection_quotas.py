"""ConnectionQuotas: contract B-A8, and what Kafka's ConnectionQuotasTest asserts (B-A10).

Rates are watched with a clock that leaps to the end of every wait; who waits for a slot is a
thread, and the test knows from the clock that it waits.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from fastprod.broker.network.connection_quotas import (
    ConnectionQuotas,
    ConnectionThrottledError,
    TooManyConnectionsError,
    WaitAbandonedError,
    parse_overrides,
    resolved_overrides,
)
from fastprod.broker.network.rate_quota import UNLIMITED
from fastprod.broker.threads.clock import FakeClock
from support.broker.quota_world import (
    ADDRESSES,
    KNOWN_HOST,
    OTHER_HOST,
    PATIENCE_S,
    LeapingClock,
    Starter,
    World,
    all_listeners,
)


@pytest.fixture
def start() -> Iterator[Starter]:
    starter = Starter()
    yield starter
    starter.join()


class TestCounts:
    def test_a_listener_that_is_not_known_is_refused(self) -> None:
        """ConnectionQuotasTest.testFailWhenNoListeners."""
        quotas = ConnectionQuotas(FakeClock())
        with pytest.raises(ValueError, match="no listener EXTERNAL is known"):
            quotas.inc("EXTERNAL", KNOWN_HOST)
        assert quotas.total_count == 0

    def test_an_address_without_connections_cannot_lose_one(self) -> None:
        """ConnectionQuotasTest.testFailDecrementForUnknownIp, B-A8.3."""
        world = World()
        with pytest.raises(ValueError, match=KNOWN_HOST):
            world.quotas.dec("EXTERNAL", KNOWN_HOST)
        world.inc("EXTERNAL")
        world.dec("EXTERNAL")
        with pytest.raises(ValueError, match="no connection"):
            world.dec("EXTERNAL")

    def test_nothing_is_limited_by_default(self, start: Starter) -> None:
        """ConnectionQuotasTest.testNoConnectionLimitsByDefault, B-A8.6."""
        world = World()
        for name in ADDRESSES:
            start(world.accept, name, 10_000)
        start.join()
        assert world.counts() == all_listeners(10_000)
        assert world.quotas.total_count == 30_000
        assert world.quotas.accept_rate() > 0
        assert all(world.quotas.accept_rate(name) > 0 for name in ADDRESSES)
        for name in ADDRESSES:
            world.dec(name)
            assert world.quotas.listener_count(name) == 9_999
        assert world.counts() == all_listeners(9_999)
        assert not world.blocked_ns

    def test_an_address_has_its_limit_and_what_is_refused_is_counted_until_it_ends(self) -> None:
        """ConnectionQuotasTest.testMaxConnectionsPerIp, B-A8.1."""
        world = World(max_connections_per_ip=17)
        world.accept("EXTERNAL", 17)
        for _ in range(2):
            with pytest.raises(TooManyConnectionsError, match="17") as raised:
                world.inc("EXTERNAL")
            assert (raised.value.address, raised.value.limit_count) == (ADDRESSES["EXTERNAL"], 17)
        assert world.quotas.listener_count("EXTERNAL") == 19
        world.accept("EXTERNAL", 17, KNOWN_HOST)

        for _ in range(4):
            world.dec("EXTERNAL")
        assert world.quotas.listener_count("EXTERNAL") == 15 + 17
        world.accept("EXTERNAL", 2)
        assert world.quotas.listener_count("EXTERNAL") == 17 + 17

    def test_an_override_by_host_name_replaces_the_limit_of_an_address(self) -> None:
        """B-A1 max.connections.per.ip.overrides: hosts are resolved; 0 needs overrides."""
        world = World(max_connections_per_ip=0, max_connections_per_ip_overrides={"localhost": 2})
        world.accept("EXTERNAL", 2, "127.0.0.1")
        with pytest.raises(TooManyConnectionsError, match="its 2 connections"):
            world.inc("EXTERNAL", "127.0.0.1")
        with pytest.raises(TooManyConnectionsError, match="its 0 connections"):
            world.inc("EXTERNAL", KNOWN_HOST)

    def test_overrides_are_read_as_kafka_writes_them(self) -> None:
        """B-A1 max.connections.per.ip.overrides: host:count,host:count."""
        read = parse_overrides("127.0.0.1:5, localhost:0,[::1]:7,")
        assert read == {"127.0.0.1": 5, "localhost": 0, "::1": 7}
        assert parse_overrides("") == {}
        for damaged in ("localhost", ":5", "localhost:", "localhost:-1", "localhost:five"):
            with pytest.raises(ValueError, match="is not host:count"):
                parse_overrides(damaged)

    def test_an_ipv4_client_of_an_ipv6_socket_is_the_same_client(self) -> None:
        world = World(max_connections_per_ip=1)
        world.inc("EXTERNAL", f"::ffff:{KNOWN_HOST}")
        with pytest.raises(TooManyConnectionsError):
            world.inc("EXTERNAL", KNOWN_HOST)
        world.quotas.dec("EXTERNAL", f"::ffff:{KNOWN_HOST}")
        assert world.quotas.listener_count("EXTERNAL") == 1

    def test_a_full_broker_makes_all_wait_but_the_protected_listener(self, start: Starter) -> None:
        """ConnectionQuotasTest.testMaxBrokerWideConnectionLimit, B-A8.2."""
        world = World(max_connections=800)
        world.accept("EXTERNAL", 800)
        assert not world.blocked_ns
        assert not world.quotas.max_connections_exceeded("EXTERNAL")

        one_more = start(world.inc, "EXTERNAL")
        world.clock.await_waiters(1)
        world.clock.advance(5)
        world.dec("EXTERNAL")
        one_more.join(PATIENCE_S)
        assert world.quotas.listener_count("EXTERNAL") == 800
        assert world.blocked_ns == {"EXTERNAL": 5_000_000}

        world.inc("REPLICATION")
        assert world.quotas.max_connections_exceeded("EXTERNAL")
        assert not world.quotas.max_connections_exceeded("REPLICATION")
        waiting = start(world.inc, "ADMIN")
        world.clock.await_waiters(1)
        world.inc("REPLICATION")
        for _ in range(2):
            world.dec("EXTERNAL")
            assert world.quotas.listener_count("ADMIN") == 0
        assert waiting.is_alive()
        world.dec("EXTERNAL")
        waiting.join(PATIENCE_S)
        assert world.counts() == {"EXTERNAL": 797, "ADMIN": 1, "REPLICATION": 2}

    def test_a_full_listener_makes_everybody_wait(self, start: Starter) -> None:
        """ConnectionQuotasTest.testMaxListenerConnectionLimits."""
        world = World(max_connections=800, listener_max=200)
        for name in ADDRESSES:
            world.accept(name, 200)
            assert not world.quotas.max_connections_exceeded(name)
        for name in ADDRESSES:
            start(world.inc, name)
        world.clock.await_waiters(3)
        assert world.counts() == all_listeners(200)
        for name in ADDRESSES:
            world.dec(name)
        start.join()
        assert world.counts() == all_listeners(200)

    def test_a_control_plane_listener_is_protected_in_place_of_the_brokers(self) -> None:
        """B-A10.52, B-A8.2."""
        quotas = ConnectionQuotas(
            FakeClock(),
            max_connections=1,
            inter_broker_listener_name="REPLICATION",
            control_plane_listener_name="CONTROL",
        )
        for name in ("EXTERNAL", "REPLICATION", "CONTROL"):
            quotas.add_listener(name)
        quotas.inc("EXTERNAL", KNOWN_HOST)
        quotas.inc("CONTROL", OTHER_HOST)
        exceeded = {name: quotas.max_connections_exceeded(name) for name in ("EXTERNAL", "CONTROL")}
        assert exceeded == {"EXTERNAL": True, "CONTROL": False}
        assert quotas.max_connections_exceeded("REPLICATION")

    def test_the_only_listener_is_not_protected(self) -> None:
        """B-A8.2: the inter-broker listener is protected when more than one listener exists."""
        quotas = ConnectionQuotas(FakeClock(), inter_broker_listener_name="REPLICATION")
        quotas.add_listener("REPLICATION")
        quotas.inc("REPLICATION", KNOWN_HOST)
        quotas.update_max_connections(0)
        assert quotas.max_connections_exceeded("REPLICATION")

    def test_whoever_must_make_room_is_told_once_there_is_no_room(self) -> None:
        """B-A3.14: nobody asks periodically."""
        world = World(max_connections=2)
        told: list[bool] = []
        world.quotas.on_excess(
            lambda: told.append(world.quotas.max_connections_exceeded("EXTERNAL"))
        )
        world.accept("EXTERNAL", 2)
        assert told == []
        world.inc("REPLICATION")
        assert told == [True]
        world.dec("EXTERNAL")
        world.quotas.update_max_connections(1)
        assert told == [True, True]


class TestRates:
    def test_a_broker_below_its_rate_never_blocks(self) -> None:
        """ConnectionQuotasTest.testBrokerConnectionRateLimitWhenActualRateBelowLimit."""
        world = World(LeapingClock(), max_connection_creation_rate=125)
        world.accept_at_intervals(25, 200, *ADDRESSES)
        assert not world.blocked_ns
        assert world.counts() == all_listeners(200)

    def test_a_broker_above_its_rate_blocks_all_but_the_protected_listener(self) -> None:
        """ConnectionQuotasTest.testBrokerConnectionRateLimitWhenActualRateAboveLimit."""
        world = World(LeapingClock(), max_connection_creation_rate=90)
        seconds, _ = world.accept_at_intervals(10, 400, *ADDRESSES)
        assert set(world.blocked_ns) == {"EXTERNAL", "ADMIN"}
        assert world.counts() == all_listeners(400)
        # The first window is empty when it begins, so that 90 come for nothing.
        assert (800 - 90) / seconds == pytest.approx(90, abs=8)
        assert world.quotas.accept_rate() <= 90

    def test_a_listener_below_its_rate_never_blocks(self) -> None:
        """ConnectionQuotasTest.testListenerConnectionRateLimitWhenActualRateBelowLimit."""
        world = World(LeapingClock(), max_connection_creation_rate=125, listener_rate=50)
        world.accept_at_intervals(25, 200, *ADDRESSES)
        assert not world.blocked_ns
        assert world.counts() == all_listeners(200)

    @pytest.mark.parametrize("name", ADDRESSES)
    def test_a_listener_above_its_rate_blocks_even_if_protected(self, name: str) -> None:
        """ConnectionQuotasTest.testListenerConnectionRateLimitWhenActualRateAboveLimit; B-A9
        accept-rate and accept-throttle-time.
        """
        world = World(LeapingClock(), max_connection_creation_rate=125, listener_rate=30)
        seconds, _ = world.accept_at_intervals(25, 600, name)
        assert 600 / seconds == pytest.approx(30, abs=7)
        assert set(world.blocked_ns) == {name}
        assert world.quotas.throttle_time_ms(name) > 0
        assert world.quotas.listener_count(name) == 600

    def test_all_listeners_above_their_rates_block(self) -> None:
        """ConnectionQuotasTest.testListenerConnectionRateLimitWhenActualRateAboveLimit."""
        world = World(LeapingClock(), max_connection_creation_rate=125, listener_rate=30)
        seconds, _ = world.accept_at_intervals(25, 200, *ADDRESSES)
        assert 200 / seconds <= 37
        assert set(world.blocked_ns) == set(ADDRESSES)
        assert world.counts() == all_listeners(200)

    def test_an_address_below_its_rate_is_let_in(self) -> None:
        """ConnectionQuotasTest.testIpConnectionRateWhenActualRateBelowLimit."""
        world = World()
        world.quotas.update_ip_rate(ADDRESSES["EXTERNAL"], 30)
        seconds, refused = world.accept_at_intervals(40, 200, "EXTERNAL")
        assert (200 / seconds, refused) == (25, {})
        seconds, refused = world.accept_at_intervals(20, 200, "ADMIN")
        assert (200 / seconds, refused) == (50, {})
        assert not world.blocked_ns
        assert all(world.quotas.ip_throttle_time_ms(name) == 0 for name in ADDRESSES)

    def test_what_an_address_has_above_its_rate_is_refused_and_nobody_blocks(self) -> None:
        """ConnectionQuotasTest.testIpConnectionRateWhenActualRateAboveLimit; the default is for all
        others. B-A9 accept-rate and accept-throttle-time, of an address.
        """
        world = World()
        quotas = world.quotas
        for address, name in ((ADDRESSES["EXTERNAL"], "EXTERNAL"), (None, "ADMIN")):
            quotas.update_ip_rate(address, 20)
            assert quotas.ip_throttle_time_ms(name) == 0
            seconds, refused = world.accept_at_intervals(25, 80, name)
            accepted = quotas.listener_count(name)
            assert accepted + refused[name] == 80
            assert accepted / seconds == pytest.approx(20, abs=1)
            assert quotas.ip_accept_rates()[ADDRESSES[name]] <= 20
            assert quotas.ip_throttle_time_ms(name) > 0
        assert quotas.ip_throttle_time_ms("REPLICATION") == 0
        assert not world.blocked_ns

    def test_two_addresses_share_a_listeners_rate(self) -> None:
        """ConnectionQuotasTest.testIpConnectionRateWithListenerConnectionRate."""
        world = World(LeapingClock(), listener_rate=35)
        world.quotas.update_ip_rate(None, 25)
        refused = set()
        for _ in range(35):
            for address in (KNOWN_HOST, OTHER_HOST):
                try:
                    world.inc("EXTERNAL", address)
                except ConnectionThrottledError as error:
                    refused.add(error.address)
        assert world.blocked_ns["EXTERNAL"] > 0
        assert len(refused) < 2

    def test_a_refused_address_leaves_no_trace_in_the_other_rates(self) -> None:
        """ConnectionQuotasTest.testRejectedIpConnectionUnrecordedFromConnectionRateQuotas,
        B-A8.4.
        """
        world = World()
        for name in ("EXTERNAL", "REPLICATION"):
            address = ADDRESSES[name]
            world.quotas.update_ip_rate(address, 0.5)
            with pytest.raises(ConnectionThrottledError, match=address):
                world.inc(name)
            assert world.quotas.ip_accept_rates()[address] == 0
            assert world.quotas.accept_rate(name) == 0
            assert world.quotas.accept_rate() == 0
            assert world.quotas.listener_count(name) == 0

    def test_no_throttle_is_longer_than_a_window(self) -> None:
        """B-A8.4."""
        world = World()
        world.quotas.update_ip_rate(None, 0.001)
        with pytest.raises(ConnectionThrottledError) as raised:
            world.inc("EXTERNAL")
        assert raised.value.throttle_ms == 1000
        assert raised.value.end_ns == world.clock.monotonic_ns() + 1_000_000_000

    def test_who_waits_for_the_rate_goes_on_at_the_very_end_of_the_throttle(
        self, start: Starter
    ) -> None:
        """B-A8.4 with a thread: nothing moves it on before, and nothing else has to."""
        world = World(max_connection_creation_rate=10)
        world.accept("EXTERNAL", 10)
        waiting = start(world.inc, "EXTERNAL")
        world.clock.await_waiters(1)
        # 11 in a window of 1 s are 0.1 s too early.
        world.clock.advance(99)
        world.quotas.wake_waiters()
        world.clock.await_waiters(1)
        assert world.quotas.total_count == 10
        world.clock.advance(1)
        waiting.join(PATIENCE_S)
        assert world.quotas.total_count == 11
        assert world.blocked_ns == {"EXTERNAL": 100_000_000}

    def test_a_slot_and_a_rate_hold_together(self, start: Starter) -> None:
        """ConnectionQuotasTest.testNonDefaultConnectionCountLimitAndRateLimit."""
        world = World(LeapingClock(), max_connections=350, max_connection_creation_rate=25)
        seconds, _ = world.accept_at_intervals(10, 350, "EXTERNAL")
        assert 350 / seconds == pytest.approx(25, abs=8)
        assert world.blocked_ns["EXTERNAL"] > 0
        assert world.quotas.listener_count("EXTERNAL") == 350

        world.clock.advance(2000)
        waiting = start(world.inc, "EXTERNAL")
        world.clock.await_waiters(1)
        world.dec("EXTERNAL")
        waiting.join(PATIENCE_S)
        assert world.quotas.listener_count("EXTERNAL") == 350

    def test_a_wait_can_be_given_up_and_counts_nowhere(self, start: Starter) -> None:
        """B-A2.9: a blocked Acceptor must still exit."""
        world = World(max_connections=1)
        world.inc("EXTERNAL")
        goes_on = True
        given_up = threading.Event()

        def wait() -> None:
            with pytest.raises(WaitAbandonedError):
                world.quotas.inc("ADMIN", KNOWN_HOST, keep_waiting=lambda: goes_on)
            given_up.set()

        start(wait)
        world.clock.await_waiters(1)
        goes_on = False
        world.quotas.wake_waiters()
        assert given_up.wait(PATIENCE_S)
        assert world.quotas.listener_count("ADMIN") == 0
        assert world.quotas.accept_rate("ADMIN") == 0


class TestChanges:
    @pytest.mark.parametrize("rate", [0, -1])
    def test_a_rate_must_be_above_zero(self, rate: float) -> None:
        """ConnectionQuotasTest.testMaxListenerConnectionListenerMustBeAboveZero."""
        quotas = World().quotas
        for change in (
            lambda: quotas.update_listener_rate("EXTERNAL", rate),
            lambda: quotas.update_broker_rate(rate),
            lambda: quotas.update_ip_rate(None, rate),
            lambda: ConnectionQuotas(FakeClock(), max_connection_creation_rate=rate),
            lambda: quotas.add_listener("NEW", max_connection_creation_rate=rate),
        ):
            with pytest.raises(ValueError, match="above 0"):
                change()

    def test_counts_have_their_ranges(self) -> None:
        quotas = World().quotas
        with pytest.raises(ValueError, match="1 or more"):
            quotas.update_listener_max_connections("EXTERNAL", 0)
        with pytest.raises(ValueError, match="0 or more"):
            quotas.update_max_connections(-1)
        with pytest.raises(ValueError, match="nobody could connect"):
            quotas.update_max_connections_per_ip(0)
        with pytest.raises(ValueError, match="there already"):
            quotas.add_listener("EXTERNAL")
        with pytest.raises(ValueError, match="0 or more"):
            resolved_overrides({"127.0.0.1": -1})
        with pytest.raises(ValueError, match="quota_window_num"):
            ConnectionQuotas(FakeClock(), quota_window_num=0)
        with pytest.raises(ValueError, match="quota_window_size_seconds"):
            ConnectionQuotas(FakeClock(), quota_window_size_seconds=0)

    def test_a_host_that_nobody_knows_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(*_arguments: object, **_keywords: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(ValueError, match=r"nowhere.* is no known host"):
            ConnectionQuotas(FakeClock(), max_connections_per_ip_overrides={"nowhere.invalid": 1})

    def test_a_listeners_rate_is_changed(self) -> None:
        """ConnectionQuotasTest.testMaxListenerConnectionRateReconfiguration."""
        world = World(LeapingClock())
        world.quotas.update_listener_rate("EXTERNAL", 20)
        world.quotas.update_listener_rate("EXTERNAL", UNLIMITED)
        world.accept("EXTERNAL", 1000)
        assert not world.blocked_ns
        world.clock.advance(2000)

        world.quotas.update_listener_rate("EXTERNAL", 10)
        seconds, _ = world.accept_at_intervals(5, 200, "EXTERNAL")
        assert 200 / seconds == pytest.approx(10, abs=3)
        assert world.blocked_ns["EXTERNAL"] > 0

    def test_the_brokers_rate_is_changed(self) -> None:
        """ConnectionQuotasTest.testMaxBrokerConnectionRateReconfiguration."""
        world = World(LeapingClock())
        world.quotas.update_broker_rate(50)
        seconds, _ = world.accept_at_intervals(5, 400, "EXTERNAL")
        assert 400 / seconds == pytest.approx(50, abs=20)
        assert world.blocked_ns["EXTERNAL"] > 0

    def test_an_address_is_told_its_rate_as_it_changes(self) -> None:
        """ConnectionQuotasTest.testIpConnectionRateMetricUpdate."""
        world = World()
        quotas = world.quotas
        external, admin = ADDRESSES["EXTERNAL"], ADDRESSES["ADMIN"]

        def limits() -> tuple[float, float]:
            return quotas._ip_rates.limit(external), quotas._ip_rates.limit(admin)

        quotas.update_ip_rate(None, 50)
        world.inc("EXTERNAL")
        world.inc("ADMIN")
        assert quotas.ip_accept_rates() == {external: 1, admin: 1}
        assert limits() == (50, 50)
        quotas.update_ip_rate(external, 30)
        assert limits() == (30, 50)
        quotas.update_ip_rate(None, 20)
        assert limits() == (30, 20)
        quotas.update_ip_rate(None, None)
        assert limits() == (30, UNLIMITED)
        quotas.update_ip_rate(external, None)
        assert limits() == (UNLIMITED, UNLIMITED)
        assert quotas.ip_accept_rates() == {}

    def test_a_new_rate_of_an_address_applies_at_once(self) -> None:
        """ConnectionQuotasTest.testEnforcedIpConnectionRateQuotaUpdate."""
        world = World()
        quotas = world.quotas
        external = ADDRESSES["EXTERNAL"]
        for rate in (20, 30):
            quotas.update_ip_rate(external, rate)
            with pytest.raises(ConnectionThrottledError):
                world.accept("EXTERNAL", 40)
            assert quotas.listener_count("EXTERNAL") == rate
        quotas.update_ip_rate(external, None)
        world.accept("EXTERNAL", 40)
        assert quotas.listener_count("EXTERNAL") == 70

        world.accept("ADMIN", 40)
        quotas.update_ip_rate(None, 20)
        with pytest.raises(ConnectionThrottledError):
            world.accept("ADMIN", 40)
        assert quotas.listener_count("ADMIN") == 60
        assert not world.blocked_ns

    @pytest.mark.parametrize(
        ("limits", "raise_limit"),
        [
            ({"max_connections": 10}, lambda quotas: quotas.update_max_connections(11)),
            (
                {"listener_max": 10},
                lambda quotas: quotas.update_listener_max_connections("EXTERNAL", 11),
            ),
            ({"max_connection_creation_rate": 10}, lambda quotas: quotas.update_broker_rate(11)),
            ({"listener_rate": 10}, lambda quotas: quotas.update_listener_rate("EXTERNAL", 11)),
        ],
        ids=["broker count", "listener count", "broker rate", "listener rate"],
    )
    def test_a_raised_limit_lets_the_waiting_in_at_once(
        self, start: Starter, limits: dict[str, int], raise_limit: Callable[..., None]
    ) -> None:
        """B-A8.5: the clock stands still."""
        world = World(FakeClock(), **limits)
        world.accept("EXTERNAL", 10)
        waiting = start(world.inc, "EXTERNAL")
        world.clock.await_waiters(1)
        assert world.quotas.total_count == 10
        raise_limit(world.quotas)
        waiting.join(PATIENCE_S)
        assert world.quotas.total_count == 11

    def test_the_limits_of_addresses_are_changed_and_connections_stay(self) -> None:
        """B-A1: dynamic; with sockets in test_dynamic_connection_quota."""
        world = World(max_connections_per_ip=2)
        world.accept("EXTERNAL", 2)
        world.quotas.update_max_connections_per_ip(3)
        world.inc("EXTERNAL")
        world.quotas.update_max_connections_per_ip_overrides({ADDRESSES["EXTERNAL"]: 4})
        world.inc("EXTERNAL")
        world.quotas.update_max_connections_per_ip_overrides({})
        assert world.quotas.listener_count("EXTERNAL") == 4
        with pytest.raises(TooManyConnectionsError, match="its 3 "):
            world.inc("EXTERNAL")
