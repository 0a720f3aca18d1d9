"""A listener is asked in the protocol that was not used, once, and not for long."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.connections import protocol_probe
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.protocol_probe import (
    VERDICT_MS,
    ProtocolProbes,
    speaks_kafka,
    speaks_tls,
)
from support.broker.sockets import until
from support.engine.thread_refusal import no_thread
from support.security.authority import CertificateAuthority
from support.security.tls_listener import CountingListener
from support.security.tls_peer import server_context


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    identity = CertificateAuthority(tmp_path).issue("probed")
    with CountingListener(server_context(identity, request.param)) as listener:
        yield Address(socket.AF_INET, *listener.address)


@pytest.fixture
def plain() -> Iterator[Address]:
    with CountingListener(None) as listener:
        yield Address(socket.AF_INET, *listener.address)


PATIENT = pytest.mark.usefixtures("patience")


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe waits for a listener on a busy machine."""
    monkeypatch.setattr(protocol_probe, "PROBE_S", 20.0)


@PATIENT
def test_tls_is_told_from_plain_text(tls: Address) -> None:
    assert speaks_tls(tls)
    assert not speaks_kafka(tls)


@PATIENT
def test_plain_text_is_told_from_tls(plain: Address) -> None:
    assert speaks_kafka(plain)
    assert not speaks_tls(plain)


EVENT = ControlEvent(EventKind.ON_DISCONNECTED, slot=7)


def no_probe_runs() -> bool:
    return all(each.name != "fastprod-protocol-probe" for each in threading.enumerate())


class Probes:
    """ProtocolProbes with a clock of the test's."""

    def __init__(self, uses_tls: bool) -> None:
        self.now_ms = 0
        self.woken = threading.Event()
        self.probes = ProtocolProbes(uses_tls, lambda: self.now_ms, self.woken.set)

    def run(self, address: Address) -> bool:
        """Probe node 1, and tell whether it speaks the other protocol."""
        self.woken.clear()
        assert self.probes.start(1, address, EVENT)
        assert self.probes.is_running(1)
        assert self.woken.wait(30)
        assert list(self.probes.take()) == [(1, EVENT)]
        assert not self.probes.is_running(1)
        return self.probes.speaks_other(1)


@PATIENT
def test_a_thread_tells_what_the_other_protocol_is(plain: Address) -> None:
    assert Probes(uses_tls=True).run(plain) is True
    assert Probes(uses_tls=False).run(plain) is False


@PATIENT
def test_what_was_found_is_believed_for_a_while(plain: Address) -> None:
    stage = Probes(uses_tls=True)
    assert stage.run(plain)
    stage.now_ms += VERDICT_MS - 1
    assert not stage.probes.start(1, plain, EVENT)
    stage.now_ms += 1
    assert stage.run(plain)


@PATIENT
def test_without_a_thread_nothing_is_probed_until_the_next_time(
    plain: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Probes(uses_tls=True)
    with no_thread(monkeypatch, "probe"):
        assert not stage.probes.start(1, plain, EVENT)
    assert not stage.probes.is_running(1), "the end of its connection would never be told"
    assert stage.run(plain)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_probe_that_fails_has_found_nothing(
    plain: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(address: Address) -> bool:
        raise MemoryError

    monkeypatch.setattr(protocol_probe, "speaks_kafka", fail)
    assert not Probes(uses_tls=True).run(plain)
    until(no_probe_runs, "the failure was told, which is not to be the next test's")


def test_who_has_answered_speaks_as_we_do() -> None:
    stage = Probes(uses_tls=False)
    stage.probes.told(1)
    assert stage.probes.speaks_other(1)
    stage.probes.forget(1)
    assert not stage.probes.speaks_other(1)


def test_nobody_and_somebody_silent_speak_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(socket.AF_INET, *silent.getsockname())
        assert not speaks_tls(address)
    assert not speaks_kafka(address)
