"""SaslConnections: spare connections from their opening to the swap, or to their end (P-G.10.7)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod._core.io.channel import CloseReason
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.connections.control_requests import PendingRequest
from fastprod.client.connections.disconnect_reasons import Limits
from fastprod.client.connections.routes import Routes
from fastprod.client.connections.sasl_connections import SaslConnections
from fastprod.client.metrics.authentication_counters import AuthenticationCounters
from fastprod.client.sasl.credentials import Credentials
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import API_VERSIONS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fastprod.records import Node
from support.engine.network_world import AF_INET, RecordedEngine
from support.security.sasl_answers import authenticate_answer, handshake_answer, versions_answer

OFFERED = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2), PRODUCE: (0, 11)}
SPEAKS = ApiVersions({PRODUCE: (0, 11)})
SESSION_MS = 100_000
SLOT, SPARE = 0, 1


class Owner:
    """Takes down what is asked of it."""

    def __init__(self) -> None:
        self.sent: list[PendingRequest] = []
        self.asked: list[tuple[int, int | None]] = []
        self.told: list[str] = []
        self.swaps: list[ApiVersions] = []

    def new_slot(self, node_id: int) -> int:
        self.told.append("new slot")
        return SPARE

    def node_id(self, slot: int) -> int:
        return 7

    def connected_node(self, node_id: int) -> Node:
        return Node(7, "b7", 9092)

    def where(self, node_id: int) -> str:
        return "b7:9092 (node 7)"

    def send(self, frame: bytes, pending: PendingRequest, releases: bytes = b"") -> int:
        self.sent.append(pending)
        return 1

    def ask_api_versions(self, node_id: int, version: int, spare: int | None = None) -> None:
        self.asked.append((node_id, spare))

    def authenticated(self, node_id: int) -> None:
        self.told.append("authenticated")

    def refuse(self, node_id: int, error: KafkaError, *, was_ready: bool) -> None:
        self.told.append("refuse")

    def swapped(self, node_id: int, versions: ApiVersions) -> None:
        self.swaps.append(versions)


class World:
    """A node whose session is near its end."""

    def __init__(self, **config: Any) -> None:
        settings = ProducerConfig(
            bootstrap_servers="b7:9092",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="ada",
            sasl_password="hush",
            **config,
        )
        assert settings.sasl is not None
        self.now_ms = 1_000_000
        self.engine = RecordedEngine()
        self.owner = Owner()
        self.counters = AuthenticationCounters()
        self.is_resolvable = True
        self.sasl = SaslConnections(
            self.owner,
            self.engine,
            Routes(self.engine, settings, self.resolve),
            Credentials(settings.sasl, lambda: None, "me"),
            settings,
            Limits(30_000, 1 << 20, "SASL_PLAINTEXT"),
            self.counters,
            lambda: self.now_ms,
        )
        self.sasl.begin(SLOT)
        self.exchange()
        self.now_ms += SESSION_MS * 81 // 100

    def resolve(self, node_id: int) -> Address:
        if not self.is_resolvable:
            raise OSError("hush")
        return Address(AF_INET, "127.0.0.1", 9092)

    def exchange(self, steps: int = 3) -> None:
        """The answers to so many frames."""
        payloads = (
            versions_answer(OFFERED),
            handshake_answer(0, "PLAIN"),
            authenticate_answer(2, lifetime_ms=SESSION_MS),
        )
        for payload in payloads[:steps]:
            self.sasl.on_answer(payload, self.owner.sent[-1])

    def renew(self) -> int | None:
        """What is due; returns the slot that was connected to, if there was one."""
        self.sasl.do_due(self.now_ms)
        opened = self.engine.take("connect")
        assert [command[-1] for command in opened] in ([], [SLOT])
        return opened[0][0] if opened else None

    def end(self, slot: int, **fields: Any) -> None:
        event = ControlEvent(EventKind.ON_DISCONNECTED, slot, **fields)
        self.sasl.on_spare_disconnected(event)

    @property
    def repeats(self) -> bool:
        """Whether the first connection has begun to authenticate again since this was asked."""
        return self.engine.take("hold") == [(SLOT, True)]

    @property
    def renewals(self) -> int:
        return self.counters.totals()["reauthentications"]


def test_a_spare_connection_authenticates_asks_and_is_swapped_in() -> None:
    """P-G.10.1, P-G.10.7: all over itself; metrics count a session that was renewed."""
    world = World()
    assert world.owner.told == ["authenticated"]
    assert world.renew() == SPARE
    world.owner.sent.clear()
    world.sasl.begin(SPARE)
    world.exchange()
    assert [pending.spare for pending in world.owner.sent] == [SPARE] * 3
    assert world.owner.asked == [(7, SPARE)]
    world.sasl.spare_ready(SPARE, SPEAKS)
    assert world.engine.take("swap") == [(SPARE, 11)]
    assert world.sasl.is_busy(SLOT)
    world.now_ms += 4
    world.sasl.on_swapped(ControlEvent(EventKind.ON_SWAPPED, SPARE))
    assert not world.sasl.is_busy(SLOT)
    assert world.owner.swaps == [SPEAKS]
    assert (world.renewals, world.counters.longest_ms(False)) == (1, 4)
    assert world.owner.told == ["authenticated", "new slot"]
    assert world.engine.take("hold") == world.engine.take("close_connection") == []
    world.now_ms += SESSION_MS * 81 // 100
    assert world.renew() == SPARE, "in the same slot the next time"
    assert world.owner.told == ["authenticated", "new slot"]


@pytest.mark.parametrize("steps", range(5))
def test_a_spare_connection_that_ends_is_done_without(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    """P-G.10.7: refused, cut after each step, or cut before the swap."""
    world = World()
    assert world.renew() == SPARE
    if steps:
        world.sasl.begin(SPARE)
        world.exchange(steps - 1)
    if steps == 4:
        world.sasl.spare_ready(SPARE, SPEAKS)
    with caplog.at_level(logging.INFO):
        world.end(SPARE, reason=CloseReason.CLOSE_REMOTE)
    assert world.repeats
    assert "as a second one could not be used" in caplog.text
    assert "b7:9092 (node 7) closed the connection" in caplog.text
    assert world.engine.take("close_connection") == [], "it is closed"
    world.end(SPARE, reason=CloseReason.CLOSE_REMOTE)
    world.sasl.on_swapped(ControlEvent(EventKind.ON_SWAPPED, SPARE))
    assert not world.repeats
    assert world.owner.swaps == []


def test_a_spare_connection_of_no_use_is_closed() -> None:
    """P-G.10.7, P-G.5.4: the broker there takes no Produce requests that we can make."""
    world = World()
    world.renew()
    world.sasl.begin(SPARE)
    world.exchange()
    world.sasl.spare_ready(SPARE, ApiVersions({API_VERSIONS: (0, 4)}))
    assert world.engine.take("close_connection") == [(SPARE,)]
    assert world.engine.take("swap") == []
    assert world.repeats
    world.sasl.spare_ready(SPARE, SPEAKS)
    assert world.engine.take("swap") == [], "an answer from before it was closed"
    world.sasl.begin(SPARE)
    world.sasl.lose_spare(SPARE, "again")
    world.end(SPARE, reason=CloseReason.CLOSE_LOCAL)
    assert not world.repeats


def test_a_spare_connection_ends_with_the_first_one() -> None:
    """P-G.10.7"""
    world = World()
    world.renew()
    world.sasl.begin(SPARE)
    assert world.sasl.forget(SLOT) == ""
    assert world.engine.take("close_connection") == [(SPARE,)]
    assert not world.repeats


def test_a_spare_connection_that_cannot_be_opened_is_done_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-G.10.7: whatever the error is; its text may be secret."""
    world = World()
    world.is_resolvable = False
    with caplog.at_level(logging.INFO):
        assert world.renew() is None
    assert world.repeats
    assert "no second connection to broker b7:9092 (node 7) can be opened: OSError" in caplog.text
    assert "hush" not in caplog.text


def test_without_answers_there_is_no_second_connection() -> None:
    """P-G.10.7, acks=0: what is in flight, which nobody knows, might be overtaken."""
    world = World(acks=0, enable_idempotence=False)
    assert world.renew() is None
    assert world.repeats
