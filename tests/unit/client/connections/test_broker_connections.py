"""BrokerConnections: opened, asked what they speak, and why they ended."""

from __future__ import annotations

import logging
import socket
import threading
import time
from pathlib import Path

import pytest

from fastprod._core.engine.control_queue import EventKind
from fastprod._core.io.channel import CloseReason
from fastprod._core.tls.tls_context import TlsContext
from fastprod.client.connections import protocol_probe
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.connection_states import ConnectionState
from fastprod.error_codes import UNSUPPORTED_VERSION
from fastprod.errors import AuthenticationError
from fastprod.protocol.api_keys import API_VERSIONS, METADATA
from support.engine.network_world import BOOTSTRAP_SLOT, World
from support.security.authority import CertificateAuthority
from support.security.tls_listener import CountingListener
from support.security.tls_peer import server_context


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
    world.turn()
    assert world.engine.take("close_connection") == [(BOOTSTRAP_SLOT, True)]
    ((text, _),) = world.engine.take("set_disconnect_reason")
    assert "b0:9092" in text
    assert "10,000 ms (socket_connection_setup_timeout_ms)" in text
    world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_LOCAL, timed_out=True)
    assert world.engine.take("set_disconnect_reason") == [], "it was no request that timed out"


def test_a_connection_that_takes_too_long_is_noticed_on_time() -> None:
    """P-G.4.4: also where nothing else is due."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    ((_, _, leaders),) = world.engine.take("set_topic")
    world.tell(EventKind.ON_CONNECT_WANTED, leaders[0][0])
    world.turn()
    world.now_ms += 9_900
    assert world.turn() == 101
    world.now_ms += 101
    world.turn()
    assert world.engine.take("close_connection") == [(leaders[0][0], True)]


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


def test_a_failed_authentication_is_told_to_everybody_who_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-G.4.6, P-H.7.2: and to records that expire; a connection that becomes ready ends it."""
    world = World()
    connections = world.client._connections
    world.turn()
    world.engine.take("connect")
    refused = AuthenticationError("broker b0:9092 refused user 'ada'")
    with caplog.at_level(logging.ERROR):
        connections.authentication_failed(-1, refused)
    assert str(refused) in caplog.text
    assert world.states.state(-1) is ConnectionState.AUTHENTICATION_FAILED
    assert world.engine.take("set_disconnect_reason") == [(str(refused), BOOTSTRAP_SLOT)]
    assert connections.disconnect_reason(-1) == str(refused)
    for found in (world.metadata.standing_error, world.client.refusal(-1)):
        assert isinstance(found, AuthenticationError)
        assert str(found) == str(refused)
    world.now_ms += 390
    world.turn()
    assert world.engine.take("connect") == []
    world.now_ms += 220
    world.turn()
    assert len(world.engine.take("connect")) == 1
    world.connect()
    assert world.client.refusal(-1) is None
    assert world.metadata.standing_error is None


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


def test_a_connection_that_cannot_begin_is_tried_again_and_its_error_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever happens: it must not count as connecting until a time-out."""
    world = World()

    def fails(*_: object, **__: object) -> None:
        raise UnicodeEncodeError("utf-8", "hush", 0, 1, "hush")

    monkeypatch.setattr(world.engine, "connect", fails, raising=False)
    world.turn()
    ((text, _),) = world.engine.take("set_disconnect_reason")
    assert text == "a connection to broker b0:9092 cannot begin: UnicodeEncodeError"
    monkeypatch.undo()
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


def _listener_of(world: World, listener: CountingListener) -> None:
    """The bootstrap server's address is the listener's."""
    world.client._connections._addresses[-1] = Address(socket.AF_INET, *listener.address)


def _turn_until_told(world: World) -> str:
    """Turn until a probe's answer has been told; what records that expire will name."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        world.turn()
        found = world.engine.take("set_disconnect_reason")
        if found:
            return str(found[-1][0])
        time.sleep(0.01)
    raise AssertionError("nothing was told")


def test_a_broker_that_closes_without_a_word_is_probed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener with TLS, spoken to in plain text: the next time nobody asks."""
    monkeypatch.setattr("fastprod.client.connections.protocol_probe.PROBE_S", 20.0)
    world = World()
    identity = CertificateAuthority(tmp_path).issue("b")
    with CountingListener(server_context(identity)) as listener:
        for attempt in range(2):
            world.turn()
            world.tell(EventKind.ON_CONNECTED)
            _listener_of(world, listener)
            world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_REMOTE)
            if attempt == 0:
                world.turn()
                world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_LOCAL)
            assert "speaks TLS, and was spoken to in plain text" in _turn_until_told(world)
            assert world.states.state(-1) is ConnectionState.AUTHENTICATION_FAILED
            world.now_ms += 2_000
        assert len(listener.moments) == 1
    assert isinstance(world.metadata.standing_error, AuthenticationError)


def test_a_broker_that_speaks_neither_is_an_ordinary_loss() -> None:
    world = World()
    world.turn()
    world.tell(EventKind.ON_CONNECTED)
    with CountingListener(None) as listener:
        _listener_of(world, listener)
        world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_REMOTE)
        assert "closed the connection before it answered ApiVersions" in _turn_until_told(world)
    assert world.states.is_disconnected(-1)
    assert world.metadata.standing_error is None


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A probe goes on until this is set, and finds nothing."""
    over = threading.Event()

    def speaks_nothing(address: Address) -> bool:
        assert over.wait(60)
        return False

    monkeypatch.setattr(protocol_probe, "speaks_tls", speaks_nothing)
    return over


def test_a_node_that_is_wanted_while_it_is_probed_is_connected_to_behind_that(
    probed: threading.Event,
) -> None:
    """P-F.2: the engine asks once, and its connection has ended already."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    ((_, _, leaders),) = world.engine.take("set_topic")
    slot = leaders[0][0]
    world.tell(EventKind.ON_CONNECT_WANTED, slot)
    world.turn()
    assert len(world.engine.take("connect")) == 1
    world.tell(EventKind.ON_CONNECTED, slot)
    world.tell(EventKind.ON_DISCONNECTED, slot, reason=CloseReason.CLOSE_REMOTE)
    world.tell(EventKind.ON_CONNECT_WANTED, slot)
    world.turn()
    assert world.engine.take("connect") == []
    world.engine.commands.clear()
    probed.set()
    assert "closed the connection before it answered" in _turn_until_told(world)
    world.now_ms += 2_000
    world.turn()
    assert slot in [each[0] for each in world.engine.take("connect")]


def test_a_node_that_is_probed_has_ended_already_and_does_not_time_out(
    probed: threading.Event,
) -> None:
    """P-G.4.4: with SASL it counts as connecting until somebody is let in."""
    world = World(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="ada",
        sasl_password="secret",
    )
    world.turn()
    world.tell(EventKind.ON_CONNECTED)
    world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_REMOTE)
    world.now_ms += 10_001
    world.turn()
    assert world.engine.take("close_connection") == []
    probed.set()
    assert "closed the connection" in _turn_until_told(world)


def test_a_broker_that_has_answered_before_is_not_probed() -> None:
    world = World()
    world.ready()
    world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_REMOTE)
    world.now_ms += 2_000
    world.turn()
    world.engine.take("set_disconnect_reason")
    world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_REMOTE)
    ((text, _),) = world.engine.take("set_disconnect_reason")
    assert "closed the connection" in text


def test_an_answer_in_tls_is_told_at_once() -> None:
    world = World()
    world.turn()
    world.tell(EventKind.ON_CONNECTED)
    world.tell(
        EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_FRAME_TOO_LARGE, bad_size=0x15030300
    )
    assert isinstance(world.metadata.standing_error, AuthenticationError)
    assert "set it to SSL" in str(world.metadata.standing_error)


def _tls_world(tmp_path: Path) -> World:
    authority = CertificateAuthority(tmp_path)
    return World(security_protocol="SSL", ssl_truststore_location=str(authority.certificate))


def test_a_connection_by_tls_asks_for_the_brokers_host(tmp_path: Path) -> None:
    world = _tls_world(tmp_path)
    world.turn()
    ((*_, tls, name, _),) = world.engine.take("connect")
    assert isinstance(tls, TlsContext)
    assert name == "b0"


def test_a_certificate_that_is_refused_is_a_failed_authentication(tmp_path: Path) -> None:
    """P-G.4.6"""
    world = _tls_world(tmp_path)
    world.turn()
    world.tell(
        EventKind.ON_DISCONNECTED,
        reason=CloseReason.CLOSE_TLS,
        tls_verify=10,
        tls_reason=134,
        data=b"reason=r\nverified=v\nnot_after=yesterday\nsubject=/CN=b\n",
    )
    assert world.states.state(-1) is ConnectionState.AUTHENTICATION_FAILED
    assert "b0:9092 failed: its certificate was refused: /CN=b expired on yesterday" in str(
        world.metadata.standing_error
    )


def test_a_damaged_record_is_an_ordinary_loss(tmp_path: Path) -> None:
    world = _tls_world(tmp_path)
    world.ready()
    world.tell(
        EventKind.ON_DISCONNECTED,
        reason=CloseReason.CLOSE_TLS,
        tls_reason=281,
        data=b"reason=bad record mac\n",
    )
    assert world.states.is_disconnected(-1)
    assert world.metadata.standing_error is None
    assert "failed: bad record mac" in world.client._connections.disconnect_reason(-1)
