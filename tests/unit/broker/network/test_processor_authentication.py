"""SASL over real sockets: what Kafka's SocketServerTest and KIP-368 ask (B-A7.5, B-A10.26,
B-A10.27).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from fastprod.broker import Broker
from fastprod.broker.threads.clock import FakeClock
from fastprod.protocol.messages.api_versions import ApiVersionsRequest
from fastprod.protocol.messages.metadata import MetadataRequest
from fastprod.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from support.broker.sasl_client import (
    ALICE,
    AUTHENTICATE,
    HANDSHAKE,
    PLAIN,
    USERS,
    SaslClient,
    payload,
)
from support.broker.sockets import until
from support.processes.leak_guard import nothing_is_left as nothing_is_left

API_VERSIONS, METADATA = 18, 3
WRONG = b"\0alice\0looking-glass"
DELAY_MS, SESSION_MS = 100, 60_000


class World:
    """A broker with a clock that stands still, and clients of it."""

    def __init__(self, **config: Any) -> None:
        self.clock = FakeClock()
        self.broker = Broker(
            topics={"t": 1},
            sasl_users=USERS,
            clock=self.clock,
            connections_max_reauth_ms=SESSION_MS,
            connection_failed_authentication_delay_ms=DELAY_MS,
            **config,
        )

    def connect(self) -> SaslClient:
        return SaslClient(self.broker.nodes[0].port)

    def expired_count(self) -> int:
        server = self.broker._servers[0].server
        assert server is not None
        return server.expired_connections_killed_count

    def has_refused(self) -> bool:
        """Whether somebody waits for the end of the delay."""
        server = self.broker._servers[0].server
        assert server is not None
        return any(len(each._throttles) for each in server.processors)

    def connection_count(self) -> int:
        server = self.broker._servers[0].server
        assert server is not None
        return server.connection_count


@pytest.fixture(params=[0, 1], ids=["inline", "handlers"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(num_io_threads=request.param)
    with made.broker:
        yield made


def topics_of(client: SaslClient) -> list[str]:
    answer = client.ask(METADATA, 5, MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return [topic.name for topic in answer.topics]


def test_who_has_authenticated_is_served(world: World) -> None:
    """B-A7.5."""
    with world.connect() as client:
        software = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        listed = {row.api_key for row in client.ask(API_VERSIONS, 3, software).api_keys}
        assert {HANDSHAKE, AUTHENTICATE} <= listed
        assert client.authenticate().session_lifetime_ms == SESSION_MS
        assert topics_of(client) == ["t"]
        assert client.authenticate().error_code == 0
        assert topics_of(client) == ["t"]


def test_who_has_not_is_closed(world: World) -> None:
    """B-A7.5."""
    with world.connect() as client:
        client.say(payload(METADATA, 5, MetadataRequest(topics=None)))
        assert client.is_ended()
    with world.connect() as client:
        client.say(b"\x60\x82\x02 a token of GSSAPI")
        assert client.is_ended()


def test_a_large_frame_is_refused_by_its_size_until_the_client_is_known(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """B-A7.5: sasl.server.max.receive.size, also while a client authenticates again."""
    announced = struct.pack(">i", 524_289)
    with world.connect() as client:
        client.sock.sendall(announced)
        assert client.is_ended()
    # The thread closes first, and says so afterwards.
    until(lambda: "announced a request of 524,289 bytes" in caplog.text)
    with world.connect() as client:
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.sock.sendall(announced)
        assert client.is_ended()
    with world.connect() as client:
        assert client.authenticate().error_code == 0
        client.say(payload(METADATA, 5, MetadataRequest(topics=[])) + bytes(600_000))
        assert client.hear()
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.sock.sendall(announced)
        assert client.is_ended()


def test_a_failed_authentication_is_answered_and_closed_after_the_delay(world: World) -> None:
    """connection.failed.authentication.delay.ms, B-A1."""
    with world.connect() as client:
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.say(payload(AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=WRONG)))
        until(world.has_refused)
        world.clock.advance(DELAY_MS)
        assert b"Invalid username or password" in client.hear()
        assert client.is_ended()
    until(lambda: world.connection_count() == 0)


def test_a_failed_reauthentication_closes_after_the_delay(world: World) -> None:
    """B-A10.26 testSaslReauthenticationFailureWithKip152SaslAuthenticate."""
    with world.connect() as client:
        assert client.authenticate().error_code == 0
        assert topics_of(client) == ["t"]
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.say(payload(AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=WRONG)))
        until(world.has_refused)
        world.clock.advance(DELAY_MS - 1)
        assert client.is_silent()
        world.clock.advance(1)
        assert b"Invalid username or password" in client.hear()
        assert client.is_ended()
    until(lambda: world.connection_count() == 0)


def test_a_failed_reauthentication_with_bare_tokens_closes_after_the_delay(world: World) -> None:
    """B-A10.27 testSaslReauthenticationFailureNoKip152SaslAuthenticate."""
    with world.connect() as client:
        assert client.ask(HANDSHAKE, 0, PLAIN).error_code == 0
        client.say(ALICE)
        assert client.hear() == b""
        assert topics_of(client) == ["t"]
        assert client.ask(HANDSHAKE, 0, PLAIN).error_code == 0
        client.say(WRONG)
        until(world.has_refused)
        world.clock.advance(DELAY_MS)
        assert client.is_ended()
    until(lambda: world.connection_count() == 0)


def test_a_client_that_leaves_before_its_refusal_is_forgotten(world: World) -> None:
    """B-A3.5: nothing waits for the end of the delay."""
    with world.connect() as client:
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.say(payload(AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=WRONG)))
        until(world.has_refused)
    world.clock.advance(DELAY_MS)
    until(lambda: world.connection_count() == 0)


def test_a_session_that_has_ended_is_closed_and_counted(world: World) -> None:
    """KIP-368: ExpiredConnectionsKilledCount."""
    with world.connect() as client:
        assert client.authenticate().error_code == 0
        world.clock.advance(SESSION_MS + 1)
        client.say(payload(METADATA, 5, MetadataRequest(topics=None)))
        assert client.is_ended()
    until(lambda: world.connection_count() == 0)
    assert world.expired_count() == 1


def test_a_session_goes_on_with_a_new_authentication(world: World) -> None:
    """KIP-368."""
    with world.connect() as client:
        for _ in range(3):
            assert client.authenticate().session_lifetime_ms == SESSION_MS
            assert topics_of(client) == ["t"]
            world.clock.advance(SESSION_MS + 1)
    assert world.expired_count() == 0
