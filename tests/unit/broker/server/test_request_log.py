"""The visible request log."""

from __future__ import annotations

from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from fastprod.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from support.broker.world import BrokerWorld, batch_of


def test_requests_are_told_in_order_and_by_api() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        world.ask("Metadata", 9, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        world.produce(batch_of(b"a"), version=7)
        found = world.state.request_log.entries()
        assert [(each.number, each.api, each.version) for each in found] == [
            (0, "Metadata", 9),
            (1, "Produce", 7),
        ]
        assert found[0].client_id == "test"
        assert found[0].connection_id == "a:1-b:2-0-0"
        assert found[0].message.topics[0].name == "t"
        assert world.state.request_log.entries("Produce") == found[1:]
        assert world.state.request_log.entries(3) == found[:1]
        assert world.state.request_log.entries("Fetch") == []
        world.state.request_log.clear()
        assert world.state.request_log.entries() == []


def test_records_of_a_produce_are_not_kept_alive() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        world.produce(batch_of(b"a"))
        (entry,) = world.state.request_log.entries()
        assert entry.message is None


def test_only_the_last_requests_are_remembered() -> None:
    with BrokerWorld(topics={"t": 1}, request_log_size=2) as world:
        for _ in range(5):
            world.produce(batch_of(b"a"))
        assert [each.number for each in world.state.request_log.entries()] == [3, 4]


def test_large_requests_push_out_the_others() -> None:
    """4 MiB of requests are remembered, and each takes a multiple of its bytes."""
    topics = [MetadataRequestTopic(name="x" * 32_000) for _ in range(30)]
    with BrokerWorld(topics={"t": 1}) as world:
        for _ in range(10):
            world.ask("Metadata", 9, MetadataRequest(topics=topics))
        assert [each.number for each in world.state.request_log.entries()] == [6, 7, 8, 9]
        world.state.request_log.clear()
        for _ in range(5):
            world.ask("Metadata", 9, MetadataRequest(topics=topics))
        assert [each.number for each in world.state.request_log.entries()] == [11, 12, 13, 14]


def test_salted_passwords_are_not_kept() -> None:
    """Whoever has one can log in by SCRAM."""
    user = ScramCredentialUpsertion(
        name="ada", mechanism=2, iterations=4_096, salt=b"salt", salted_password=b"s4lted"
    )
    with BrokerWorld() as world:
        message = AlterUserScramCredentialsRequest(upsertions=[user])
        world.ask("AlterUserScramCredentials", 0, message)
        (entry,) = world.state.request_log.entries("AlterUserScramCredentials")
        assert entry.message is None
