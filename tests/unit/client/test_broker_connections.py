"""BrokerConnections: opened, asked what they speak, and why they ended."""

from __future__ import annotations

import logging

import pytest

from fastprod._core.engine.control_queue import EventKind
from fastprod._core.io.channel import CloseReason
from fastprod.client.connection_states import ConnectionState
from fastprod.error_codes import UNSUPPORTED_VERSION
from fastprod.protocol.api_keys import API_VERSIONS, METADATA
from support.engine.network_world import BOOTSTRAP_SLOT, World


def test_api_versions_is_the_first_request_and_ready_comes_after_its_answer() -> None:
    """P-G.5.1, P-G.5.7"""
    world = World()
    world.turn()
    world.tell(EventKind.ON_CONNECTED)
    assert world.states.state(-1) is ConnectionState.CHECKING_API_VERSIONS
    assert world.engine.take("connection_ready") == []
    world.answer_api_versions()
    assert world.states.state(-1) is ConnectionState.READY
    assert world.engine.take("connection_ready") == [(BOOTSTRAP_SLOT, 12)]
    assert world.listener.changed == ["connections"]


def test_refused_api_versions_are_asked_for_again_in_version_0() -> None:
    """P-G.5.3; P-L.164 testUnsupportedApiVersionsRequestWithoutVersionProvidedByTheBroker."""
    world = World()
    world.turn()
    world.tell(EventKind.ON_CONNECTED)
    ((slot, token, header),) = world.sent()
    assert header.version == 4
    world.tell(EventKind.ON_RESPONSE, slot, token=token, data=b"\0\0\0\0\0\x23")
    ((_, _, again),) = world.sent()
    assert (again.api_key, again.version) == (API_VERSIONS, 0)
    assert world.engine.take("close_connection") == []


def test_a_node_with_data_is_connected_to_once_its_backoff_is_over() -> None:
    """P-F.2, P-G.4.2"""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    ((_, _, leaders),) = world.engine.take("set_topic")
    slot = leaders[0][0]
    world.tell(EventKind.ON_CONNECT_WANTED, slot)
    world.turn()
    assert [command[:2] for command in world.engine.take("connect")] == [(slot, 1)]
    world.tell(EventKind.ON_DISCONNECTED, slot, reason=CloseReason.CLOSE_NOT_CONNECTED, err=111)
    world.tell(EventKind.ON_CONNECT_WANTED, slot)
    assert world.turn() <= 50
    assert [c for c in world.engine.take("connect") if c[0] == slot] == []
    world.now_ms += 60
    world.turn()
    assert [command[:2] for command in world.engine.take("connect")] == [(slot, 1)]


def test_a_connection_that_takes_too_long_is_closed_as_timed_out() -> None:
    """P-G.4.4; P-L.166 testConnectionSetupTimeout."""
    world = World()
    world.turn()
    world.now_ms += 10_001
    world.turn()
    assert world.engine.take("close_connection") == [(BOOTSTRAP_SLOT, True)]
    ((text, _),) = world.engine.take("set_disconnect_reason")
    assert "b0:9092" in text
    assert "10,000 ms (socket_connection_setup_timeout_ms)" in text
    world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_LOCAL, timed_out=True)
    assert world.engine.take("set_disconnect_reason") == [], "it was no request that timed out"


def test_a_broker_that_cannot_take_produce_requests_is_ready_and_says_why() -> None:
    """P-G.2.7, P-G.5.4: what is sent to it fails with this."""
    world = World()
    world.turn()
    world.tell(EventKind.ON_CONNECTED)
    world.answer(
        API_VERSIONS,
        error_code=0,
        api_keys=[{"api_key": METADATA, "min_version": 0, "max_version": 12}],
        throttle_time=0,
        zk_migration_ready=False,
    )
    assert world.engine.take("connection_ready") == [(BOOTSTRAP_SLOT, -1)]
    ((text, _),) = world.engine.take("set_disconnect_reason")
    assert "b0:9092" in text
    assert "Produce" in text
    world.tell(EventKind.ON_FATAL, code=UNSUPPORTED_VERSION)
    ((error),) = world.listener.fatal
    assert str(error) == text


def test_why_brokers_cannot_be_reached_is_kept_for_the_errors_of_callers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Design 6: time-outs name their cause and the broker."""
    world = World()
    world.turn()
    with caplog.at_level(logging.WARNING):
        world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_NOT_CONNECTED, err=111)
    ((text, slot),) = world.engine.take("set_disconnect_reason")
    assert slot == BOOTSTRAP_SLOT
    assert "b0:9092" in text
    assert "refused" in text
    assert text in caplog.text
    world.now_ms += 60
    world.turn()
    world.connect()
    assert world.engine.take("set_disconnect_reason") == [("", BOOTSTRAP_SLOT)]


def test_a_host_that_dns_does_not_know_is_tried_again_after_the_backoff() -> None:
    """P-G.4.5"""
    world = World()
    world.unresolvable.add("b0")
    world.turn()
    assert world.engine.take("connect") == []
    ((text, _),) = world.engine.take("set_disconnect_reason")
    assert text.startswith("DNS does not know the host of broker b0:9092")
    world.unresolvable.clear()
    world.now_ms += 200
    world.turn()
    assert len(world.engine.take("connect")) == 1


def test_an_idle_connection_that_was_closed_asks_for_nothing() -> None:
    """P-G.3.1"""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    world.answer_metadata({})
    world.turn()
    world.engine.commands.clear()
    world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_EXPIRED)
    world.turn()
    assert world.engine.take("connect") == []
    assert world.sent() == []
