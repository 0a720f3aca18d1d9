"""B-A10 DynamicConnectionQuotaTest: limits change under live sockets."""

from __future__ import annotations

from fastprod.broker.network.acceptor import Listener
from fastprod.broker.network.connection_quotas import resolved_overrides
from fastprod.broker.threads.clock import FakeClock
from support.broker.sockets import EchoWorld, ask, is_ended, until
from support.processes.leak_guard import nothing_is_left as nothing_is_left

TWO_WINDOWS = {"quota_window_num": 2, "quota_window_size_seconds": 1}


def test_the_count_of_an_address() -> None:
    """DynamicConnectionQuotaTest.testDynamicConnectionQuota."""
    with EchoWorld() as world:
        quotas = world.server.quotas
        for _ in range(3):
            world.served()
        quotas.update_max_connections_per_ip(3)
        assert is_ended(world.connect())
        quotas.update_max_connections_per_ip_overrides(resolved_overrides({"localhost": 4}))
        world.served()
        assert is_ended(world.connect())
        world.await_count(4)


def test_the_count_of_a_listener() -> None:
    """DynamicConnectionQuotaTest.testDynamicListenerConnectionQuota."""
    with EchoWorld(Listener("EXTERNAL", max_connections=3), "OTHER") as world:
        for _ in range(3):
            world.served("EXTERNAL")
        waiting = world.connect("EXTERNAL")
        until(lambda: world.acceptor.is_blocked)
        world.served("OTHER")
        world.server.quotas.update_listener_max_connections("EXTERNAL", 4)
        ask(waiting)


def test_the_rate_of_a_listener() -> None:
    """DynamicConnectionQuotaTest.testDynamicListenerConnectionCreationRateQuota.  The clock
    stands still: the new rate alone lets the connection in.
    """
    listener = Listener("EXTERNAL", max_connection_creation_rate=5)
    with EchoWorld(listener, "OTHER", config=TWO_WINDOWS, clock=FakeClock()) as world:
        for _ in range(5):
            world.served("EXTERNAL")
        waiting = world.connect("EXTERNAL")
        until(lambda: world.acceptor.is_blocked)
        world.served("OTHER")
        world.server.quotas.update_listener_rate("EXTERNAL", 100)
        ask(waiting)
        for _ in range(50):
            world.served("EXTERNAL")


def test_the_rate_of_an_address() -> None:
    """DynamicConnectionQuotaTest.testDynamicIpConnectionRateQuota."""
    with EchoWorld(config=TWO_WINDOWS, clock=FakeClock()) as world:
        quotas = world.server.quotas
        quotas.update_ip_rate(None, 2)
        for _ in range(2):
            world.served()
        world.connect()
        until(lambda: len(world.acceptor._parked) == 1)
        quotas.update_ip_rate("127.0.0.1", 4)
        for _ in range(2):
            world.served()
        world.connect()
        until(lambda: len(world.acceptor._parked) == 2)
        quotas.update_ip_rate("127.0.0.1", None)
        quotas.update_ip_rate(None, None)
        for _ in range(10):
            world.served()
        assert quotas.total_count == 14
