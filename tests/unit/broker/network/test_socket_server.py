"""SocketServer with real clients: what Kafka's SocketServerTest asserts (contract B-A10)."""

from __future__ import annotations

import socket
import struct
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from fastprod.broker.network.acceptor import Acceptor, Listener
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.processor import Processor
from fastprod.broker.network.socket_server import SocketServer
from fastprod.broker.threads.clock import FakeClock
from fastprod.errors import IllegalStateError
from support.broker.sockets import (
    PATIENCE_S,
    Echo,
    EchoWorld,
    any_header,
    ask,
    frame,
    is_ended,
    until,
)
from support.oracle.loopback import read_exactly
from support.processes.child_python import run_python
from support.processes.leak_guard import nothing_is_left as nothing_is_left

TWO_WINDOWS = {"quota_window_num": 2, "quota_window_size_seconds": 1}
BROKERS = "REPLICATION"


class TestStarting:
    def test_listeners_are_enabled_one_after_another(self) -> None:
        """B-A10.5, B-A2.8: until its turn a listener accepts TCP but serves nothing."""
        with EchoWorld("EXTERNAL", "CONTROLLER", started=False) as world:
            external: Future[None] = Future()
            enabled = world.server.enable_request_processing({"EXTERNAL": external})
            early = world.connect("EXTERNAL")
            early.sendall(b"\0\0\0\4ping")
            world.served("CONTROLLER")
            assert not enabled.done()
            assert world.server.quotas.listener_count("EXTERNAL") == 0

            external.set_result(None)
            assert enabled.result(PATIENCE_S) is None
            assert early.recv(8, socket.MSG_WAITALL) == b"\0\0\0\4ping"

    def test_an_authorizer_that_fails_fails_the_start_and_closes_its_listener(self) -> None:
        """B-A10.55."""
        with EchoWorld("EXTERNAL", "CONTROLLER", started=False) as world:
            ready: Future[None] = Future()
            enabled = world.server.enable_request_processing({"EXTERNAL": ready})
            early = world.connect("EXTERNAL")
            ready.set_exception(RuntimeError("no authorizer"))
            with pytest.raises(RuntimeError, match="no authorizer"):
                enabled.result(PATIENCE_S)
            assert is_ended(early)
            with pytest.raises(ConnectionRefusedError):
                world.connect("EXTERNAL")
            world.served("CONTROLLER")

    def test_an_authorizer_that_is_cancelled_fails_the_start(self) -> None:
        """B-A10.55."""
        with EchoWorld(started=False) as world:
            ready: Future[None] = Future()
            enabled = world.server.enable_request_processing({"PLAINTEXT": ready})
            ready.cancel()
            assert "CancelledError" in repr(enabled.exception(PATIENCE_S))

    def test_a_listener_that_cannot_start_fails_the_start(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """B-A10.56."""

        def no_thread(_processor: Processor) -> None:
            raise RuntimeError("can't start new thread")

        with EchoWorld(started=False) as world:
            monkeypatch.setattr(Processor, "start", no_thread)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                world.server.enable_request_processing().result(PATIENCE_S)
            with pytest.raises(ConnectionRefusedError):
                world.connect()

    def test_a_port_that_is_taken_is_named_and_nothing_stays_open(self) -> None:
        """B-A10.56: here the constructor finds it out."""
        clock = FakeClock()
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with pytest.raises(OSError, match=f"SECOND cannot listen on 127.0.0.1:{port}"):
                SocketServer(
                    [Listener("FIRST"), Listener("SECOND", port=port)],
                    handler=Echo(),
                    parse_header=any_header,
                    clock=clock,
                )
        # Neither an Acceptor nor a Processor is left.
        assert clock._subscribers == []

    def test_a_port_is_open_once_the_server_is_made(self) -> None:
        """B-A10.57, B-A2.2: whether the system chose it or not."""
        with EchoWorld(started=False) as world:
            port = world.server.bound_port()
            assert port > 0
            early = world.connect()
            world.server.start()
            ask(early)
        with EchoWorld(Listener("FIXED", port=port), started=False) as world:
            assert world.server.bound_port("FIXED") == port
            early = world.connect()
            world.server.start()
            ask(early)

    def test_it_starts_once_and_not_after_its_end(self) -> None:
        with EchoWorld() as world:
            with pytest.raises(IllegalStateError, match="before"):
                world.server.start()
            world.server.shutdown()
            with pytest.raises(IllegalStateError, match="stopped"):
                world.server.start()

    def test_what_makes_no_sense_is_refused(self) -> None:
        with pytest.raises(ValueError, match="one listener or more"):
            SocketServer([], handler=Echo(), parse_header=any_header)
        with pytest.raises(ValueError, match="A is there already"):
            EchoWorld("A", "A")
        with EchoWorld("A", "B", started=False) as world:
            with pytest.raises(ValueError, match="no listener C; there are A, B"):
                world.server.bound_port("C")
            with pytest.raises(ValueError, match="no listener C; there are A, B"):
                world.server.enable_request_processing({"C": Future()})


class TestStopping:
    def test_sockets_are_closed_and_the_port_with_them(self) -> None:
        """B-A10.18."""
        with EchoWorld() as world:
            clients = [world.served() for _ in range(5)]
            world.server.shutdown()
            assert all(map(is_ended, clients))
            with pytest.raises(ConnectionRefusedError):
                world.connect()
            assert world.server.quotas.total_count == 0

    def test_it_can_be_stopped_without_having_been_enabled(self) -> None:
        """B-A10.30."""
        with EchoWorld("A", "B", started=False) as world:
            early = world.connect("A")
            world.server.shutdown()
            assert is_ended(early)
            world.server.shutdown()

    def test_a_start_that_still_waits_fails_when_the_server_stops(self) -> None:
        """B-A10.30."""
        with EchoWorld(started=False) as world:
            ready: Future[None] = Future()
            enabled = world.server.enable_request_processing({"PLAINTEXT": ready})
            world.server.shutdown()
            with pytest.raises(IllegalStateError, match="stopped"):
                enabled.result(PATIENCE_S)
            ready.set_result(None)

    def test_the_acceptor_ends_although_it_waits_for_a_full_processor(self) -> None:
        """B-A10.6, B-A2.9; B-A3.16: what was queued is closed and uncounted too."""
        with EchoWorld(new_connections_capacity_count=1) as world:
            busy = world.served()
            world.handler.stall = True
            busy.sendall(b"\0\0\0\4ping")
            assert world.handler.is_stalled.wait(PATIENCE_S)
            queued = [world.connect(), world.connect()]
            until(lambda: world.acceptor.is_blocked)

            world.server.begin_shutdown()
            until(lambda: not world.acceptor.is_blocked)
            until(lambda: world.server.quotas.total_count == 2)
            with pytest.raises(TimeoutError, match="has not ended"):
                world.server.shutdown(timeout_s=0)
            world.handler.go_on.set()
            world.server.shutdown(PATIENCE_S)
            assert all(map(is_ended, queued))
            assert world.server.quotas.total_count == 0

    def test_parked_sockets_are_closed(self) -> None:
        """B-A10.24."""
        with EchoWorld(config=TWO_WINDOWS, clock=FakeClock()) as world:
            world.server.quotas.update_ip_rate("127.0.0.1", 1)
            world.served()
            parked = [world.connect(), world.connect()]
            until(lambda: len(world.acceptor._parked) == 2)
            world.server.shutdown()
            assert all(map(is_ended, parked))
            assert len(world.acceptor._parked) == world.server.quotas.total_count == 0

    @pytest.mark.parametrize("threads", [0, 3])
    def test_a_request_that_is_being_handled_is_finished_first(self, threads: int) -> None:
        """B-A5.5."""
        with EchoWorld(config={"num_io_threads": threads}) as world:
            world.handler.stall = True
            client = world.connect()
            client.sendall(b"\0\0\0\4ping")
            assert world.handler.is_stalled.wait(PATIENCE_S)
            stopping = threading.Thread(target=world.server.shutdown, args=(PATIENCE_S,))
            stopping.start()
            until(lambda: world.server.acceptors["PLAINTEXT"]._stopping.is_set())
            assert stopping.is_alive()
            world.handler.go_on.set()
            stopping.join(PATIENCE_S)
            assert not stopping.is_alive()

    @pytest.mark.parametrize("stop", ["the client", "the server"])
    def test_disconnect_listeners_are_told_exactly_once(self, stop: str) -> None:
        """B-A3.13, B-A10.58."""
        told: list[Connection] = []
        with EchoWorld(disconnect_listeners=[told.append]) as world:
            client = world.served()
            assert told == []
            if stop == "the client":
                client.close()
                world.await_count(0)
            world.server.shutdown()
            assert [each.client_address for each in told] == ["127.0.0.1"]
            assert not told[0].is_open


class TestLimits:
    def test_an_address_has_its_limit(self) -> None:
        """B-A10.19."""
        with EchoWorld(config={"max_connections_per_ip": 5}) as world:
            clients = [world.served() for _ in range(5)]
            assert is_ended(world.connect())
            world.await_count(5)
            clients[0].close()
            world.await_count(4)
            world.served()

    def test_only_addresses_with_an_override_may_connect(self) -> None:
        """B-A10.20."""
        config = {
            "max_connections_per_ip": 0,
            "max_connections_per_ip_overrides": "127.0.0.1:5",
        }
        with EchoWorld(config=config) as world:
            for _ in range(5):
                world.served()
            assert is_ended(world.connect())
            assert is_ended(world.connect(source="127.0.0.2"))
            world.await_count(5)

    def test_an_override_by_host_name_is_one_more(self) -> None:
        """B-A10.21."""
        config = {"max_connections_per_ip": 5, "max_connections_per_ip_overrides": "localhost:6"}
        with EchoWorld(config=config) as world:
            for _ in range(6):
                world.served()
            assert is_ended(world.connect())
            world.await_count(6)

    def test_a_failure_while_a_socket_is_configured_costs_that_socket_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """B-A10.22, B-A2.7."""

        def fail(_acceptor: Acceptor, _sock: socket.socket) -> None:
            raise OSError("injected")

        with EchoWorld() as world:
            with monkeypatch.context() as patch:
                patch.setattr(Acceptor, "_configure", fail)
                assert is_ended(world.connect())
                world.await_count(0)
                assert world.server.quotas.total_count == 0
            world.served()

    def test_an_address_that_connects_too_fast_is_kept_waiting_and_then_closed(self) -> None:
        """B-A10.23, B-A2.5."""
        clock = FakeClock()
        with EchoWorld(config=TWO_WINDOWS, clock=clock) as world:
            world.server.quotas.update_ip_rate("127.0.0.1", 5)
            for _ in range(5):
                world.served()
            parked = [world.connect(), world.connect()]
            until(lambda: len(world.acceptor._parked) == 2)
            clock.advance(199)
            other = world.served(source="127.0.0.2")
            assert len(world.acceptor._parked) == 2
            clock.advance(1)
            assert all(map(is_ended, parked))
            assert len(world.acceptor._parked) == 0
            clock.advance(1000)
            world.served()
            ask(other)
            assert world.server.quotas.total_count == 7

    def test_a_storm_waits_for_the_processors_turns(self) -> None:
        """B-A10.49, B-A3.1: one connection a turn, and the time that the acceptor waits is
        known.
        """
        with EchoWorld(new_connections_capacity_count=1) as world:
            busy = world.served()
            (processor,) = world.server.processors
            world.handler.stall = True
            busy.sendall(b"\0\0\0\4ping")
            assert world.handler.is_stalled.wait(PATIENCE_S)
            turns = processor.turn_count
            assert world.acceptor.blocked_ns == 0
            clients = [world.connect() for _ in range(5)]
            until(lambda: world.acceptor.is_blocked)
            assert world.acceptor.blocked_ratio > 0

            world.handler.stall = False
            world.handler.go_on.set()
            for client in clients:
                ask(client)
            assert processor.turn_count - turns >= 4
            assert world.acceptor.blocked_ns > 0
            blocked = [g for g in world.server.gauges() if g.name == "AcceptorBlockedPercent"]
            assert [gauge.tags for gauge in blocked] == [{"listener": "PLAINTEXT"}]
            assert blocked[0].value > 0

    @pytest.mark.parametrize(
        ("names", "privileged"),
        [
            ({"control_plane_listener_name": "CONTROL"}, "CONTROL"),
            ({"inter_broker_listener_name": BROKERS}, BROKERS),
            (
                {"control_plane_listener_name": "CONTROL", "inter_broker_listener_name": BROKERS},
                "CONTROL",
            ),
        ],
        ids=["B-A10.50 control plane", "B-A10.51 inter-broker", "B-A10.52 precedence"],
    )
    def test_a_privileged_listener_makes_room_for_itself(
        self, names: dict[str, Any], privileged: str
    ) -> None:
        """B-A10.50-52, B-A8.2, B-A3.14: the least recently used of the others goes; they wait."""
        listeners = ["EXTERNAL", BROKERS, "CONTROL"]
        with EchoWorld(*listeners, config={"max_connections": 2}, **names) as world:
            oldest, newest = world.served("EXTERNAL"), world.served("EXTERNAL")
            chosen = world.served(privileged)
            assert is_ended(oldest)
            ask(newest)
            world.await_count(2)

            (other,) = {BROKERS, "CONTROL"} - {privileged}
            waiting = world.connect(other)
            until(lambda: world.server.acceptors[other].is_blocked)
            newest.close()
            ask(waiting)
            ask(chosen)

    def test_lowering_the_limit_closes_the_least_recently_used(self) -> None:
        """B-A3.14, B-A8.5."""
        with EchoWorld() as world:
            clients = [world.served() for _ in range(5)]
            for client in clients[:2]:
                ask(client)
            world.server.quotas.update_max_connections(2)
            assert all(map(is_ended, clients[2:]))
            for client in clients[:2]:
                ask(client)
            assert world.server.quotas.total_count == 2


class TestGauges:
    def test_every_processor_has_its_own_with_its_tags(self) -> None:
        """B-A10.35, B-A2.1."""
        config = {"num_network_threads": 2}
        with EchoWorld("A", "B", config=config) as world:
            gauges = world.server.gauges()
            counts = [each.tags for each in gauges if each.name == "connection-count"]
            assert counts == [
                {"listener": "A", "networkProcessor": "0"},
                {"listener": "A", "networkProcessor": "1"},
                {"listener": "B", "networkProcessor": "2"},
                {"listener": "B", "networkProcessor": "3"},
            ]
            idle = [each.tags for each in gauges if each.name == "IdlePercent"]
            assert idle == [{"networkProcessor": str(number)} for number in range(4)]
            seen = [(each.name, tuple(each.tags.items())) for each in gauges]
            assert len(seen) == len(set(seen))

    @pytest.mark.parametrize("threads", [0, 2])
    def test_they_tell_what_is_so(self, threads: int) -> None:
        """B-A9 NetworkProcessorAvgIdlePercent, IdlePercent, RequestHandlerAvgIdlePercent,
        RequestQueueSize, ResponseQueueSize, AcceptorBlockedPercent, selector-totals, accept-rate.
        """
        with EchoWorld(config={"num_io_threads": threads}) as world:
            for _ in range(3):
                world.served()
            values = {each.name: each.value for each in world.server.gauges()}
            assert values["connection-count"] == values["connection-creation-total"] == 3
            assert values["connection-accept-rate"] > 0
            assert values["broker-connection-accept-rate"] > 0
            assert values["incoming-byte-total"] == 3 * 8
            assert values["ExpiredConnectionsKilledCount"] == values["RequestQueueSize"] == 0
            assert values["ResponseQueueSize"] == 0
            assert ("RequestHandlerAvgIdlePercent" in values) == (threads > 0)
            for name in ("NetworkProcessorAvgIdlePercent", "IdlePercent", "AcceptorBlockedPercent"):
                assert 0 <= values[name] <= 1

    def test_an_address_with_a_rate_has_a_gauge(self) -> None:
        """B-A9 accept-rate."""
        with EchoWorld(config=TWO_WINDOWS, clock=FakeClock()) as world:
            world.server.quotas.update_ip_rate("127.0.0.1", 5)
            for source in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
                world.served(source=source)
            rates = [
                (each.tags["ip"], each.value) for each in world.server.gauges() if "ip" in each.tags
            ]
            assert rates == [("127.0.0.1", 2)]

    def test_a_request_takes_its_room_until_it_is_answered(self) -> None:
        """B-A9 MemoryPoolAvailable and MemoryPoolUsed, B-A4.6."""
        config = {"queued_max_request_bytes": 1_000_000, "socket_request_max_bytes": 300_000}

        def pool() -> list[float]:
            values = {each.name: each.value for each in world.server.gauges()}
            return [values["MemoryPoolAvailable"], values["MemoryPoolUsed"]]

        with EchoWorld(config={**config, "num_io_threads": 1}) as world:
            client = world.served()
            until(lambda: pool() == [1_000_000, 0], "room for requests")
            world.handler.stall = True
            client.sendall(frame(bytes(100_000)))
            assert world.handler.is_stalled.wait(PATIENCE_S)
            assert pool() == [900_000, 100_000]
            world.handler.go_on.set()
            assert len(read_exactly(client, 100_004)) == 100_004
            until(lambda: pool() == [1_000_000, 0], "room for requests")

    def test_an_idle_connection_that_is_closed_is_counted(self) -> None:
        """B-A9 ExpiredConnectionsKilledCount, B-A4.4."""
        with EchoWorld(config={"connections_max_idle_ms": 1}) as world:
            assert is_ended(world.connect())
            world.await_count(0)
            assert world.server.expired_connections_killed_count == 1

    def test_after_the_end_there_are_none_and_reading_them_is_harmless(self) -> None:
        """B-A10.33, B-A10.34."""
        with EchoWorld("A", "B", config={"num_io_threads": 2}) as world:
            world.served("A")
            assert world.server.gauges()
            world.server.shutdown()
            assert world.server.gauges() == []
            assert world.server.network_processor_avg_idle_ratio == 1.0
            assert world.server.connection_count == 0
            assert world.server.expired_connections_killed_count == 0
            assert world.server.request_channel.response_queue_size == 0
            assert 0 <= world.acceptor.blocked_ratio <= 1
            assert world.server.bound_port("A") > 0

    def test_before_the_start_they_are_harmless_too(self) -> None:
        with EchoWorld(started=False) as world:
            values = {each.name: each.value for each in world.server.gauges()}
            assert values["NetworkProcessorAvgIdlePercent"] == 1.0
            assert values["AcceptorBlockedPercent"] == 0.0


class TestScale:
    @pytest.mark.parametrize("threads", [0, 2])
    def test_ten_thousand_connections_are_served_and_none_is_lost(self, threads: int) -> None:
        """B-G3: they come and go, so many at a time."""
        at_a_time = 250
        told: list[Connection] = []
        config = {"socket_listen_backlog_size": at_a_time, "num_io_threads": threads}
        with EchoWorld(config=config, disconnect_listeners=[told.append]) as world:
            address = ("127.0.0.1", world.server.bound_port())
            for wave in range(10_000 // at_a_time):
                clients = [socket.create_connection(address, PATIENCE_S) for _ in range(at_a_time)]
                for number, client in enumerate(clients):
                    client.sendall(frame(b"%d %d" % (wave, number)))
                for number, client in enumerate(clients):
                    expected = frame(b"%d %d" % (wave, number))
                    assert client.recv(len(expected), socket.MSG_WAITALL) == expected
                    # No port stays in TIME_WAIT: the next test needs some too.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.close()
            world.await_count(0)
            (processor,) = world.server.processors
            until(lambda: len(told) == 10_000)
            assert (processor.created_count, processor.closed_count) == (10_000, 10_000)
            assert world.server.request_channel.request_queue_size == 0

    def test_a_thousand_idle_connections_cost_less_than_20_mb(self) -> None:
        """B-G3: each has been served once; the clients' sockets are counted too."""
        told = run_python(
            """
            import gc, json, os, subprocess
            from support.broker.sockets import EchoWorld

            def rss_kb():
                gc.collect()
                return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())]))

            with EchoWorld() as world:
                world.served()
                before_kb = rss_kb()
                for _ in range(1000):
                    world.served()
                grown_kb = rss_kb() - before_kb
                print(json.dumps({"count": world.server.connection_count, "grown_kb": grown_kb}))
            """
        ).told
        assert told["count"] == 1001
        assert told["grown_kb"] < 20 * 1024


class TestForking:
    def test_the_child_of_a_fork_lets_go_and_the_parents_connections_stay(self) -> None:
        """A child that ends, or keeps running, must not hold a port or a connection."""
        told = run_python(
            """
            import json
            from support.broker.sockets import EchoWorld, ask, is_ended
            from support.processes.forking import Child
            from support.processes.leak_guard import Census

            def abandoned():
                world.server.abandon()
                world.server.abandon()
                for client in world.clients:
                    client.close()
                return [each for each in before.left_over() if each.startswith("descriptor")]

            before = Census()
            with EchoWorld(config={"num_network_threads": 2}) as world:
                clients = [world.served() for _ in range(4)]
                left = Child(abandoned).result()
                for client in clients:
                    ask(client)
                world.served()
                world.server.shutdown()
                print(json.dumps({"left": left, "ended": all(map(is_ended, clients))}))
            """
        ).told
        assert told == {"left": [], "ended": True}
