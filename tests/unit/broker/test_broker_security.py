"""Users, rules and the settings of clients, through `Broker`'s own methods."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from fastprod.broker import Broker
from fastprod.broker.listeners import BrokerListener
from fastprod.broker.server.acl import Acl, Operation, PatternType, Permission, ResourceType
from fastprod.errors import ConfigError, IllegalStateError
from fastprod.protocol.messages.metadata import MetadataRequest
from support.broker.sasl_client import SaslClient

METADATA = 3


def test_users_come_and_go_while_the_broker_runs() -> None:
    """B-A7.5: a change holds for who logs in after it."""
    with Broker(sasl_users={}, connection_failed_authentication_delay_ms=0) as broker:

        def logs_in(token: bytes) -> bool:
            with SaslClient(broker.nodes[0].port) as client:
                return bool(client.authenticate(token).error_code == 0)

        assert not logs_in(b"\0ada\0one")
        broker.add_user("ada", "one")
        assert broker.users == ["ada"]
        with SaslClient(broker.nodes[0].port) as early:
            assert early.authenticate(b"\0ada\0one").error_code == 0
            broker.add_user("ada", "two")
            assert [logs_in(b"\0ada\0one"), logs_in(b"\0ada\0two")] == [False, True]
            broker.remove_user("ada")
            assert not logs_in(b"\0ada\0two")
            assert early.ask(METADATA, 5, MetadataRequest(topics=[])).topics == []
        with pytest.raises(ConfigError, match="no user 'ada'; there are none"):
            broker.remove_user("ada")


def test_users_need_a_listener_that_asks_for_them() -> None:
    with pytest.raises(ConfigError, match="start the broker with sasl_users"):
        Broker().add_user("ada", "x")


def test_rules_are_said_in_words() -> None:
    """They hold before the start, too."""
    broker = Broker(super_users="User:root")
    broker.allow("ada", ["read", "write"], topic="orders", prefix=True)
    broker.allow("User:*", "DESCRIBE", cluster=True, host="10.0.0.1")
    broker.deny("User:bob", "all", group="g")
    broker.allow("User:bob", "idempotent_write", transactional_id="t")
    ada = Acl(
        "User:ada",
        Permission.ALLOW,
        Operation.READ,
        ResourceType.TOPIC,
        "orders",
        PatternType.PREFIXED,
    )
    assert broker.acls[:2] == [ada, ada._replace(operation=Operation.WRITE)]
    assert [str(each) for each in broker.acls[2:]] == [
        "User:* may describe cluster kafka-cluster from 10.0.0.1",
        "User:bob may not all group g",
        "User:bob may idempotent write transactional id t",
    ]
    assert broker.remove_acls("bob") == 2
    assert broker.remove_acls(topic="orders") == 2
    assert broker.remove_acls() == 1
    assert broker.acls == []


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        (("ada", "fly"), {"topic": "t"}, "operation 'fly'; there are all, read"),
        (("ada", "any"), {"topic": "t"}, "operation 'any'"),
        (("", "read"), {"topic": "t"}, "principal is ''"),
        (("User:", "read"), {"topic": "t"}, "principal is 'User:'"),
        (("ada", "read"), {}, "give one of topic"),
        (("ada", "read"), {"topic": ""}, "give one of topic"),
        (("ada", "read"), {"topic": "t", "cluster": True}, "give one of topic"),
    ],
)
def test_rules_that_cannot_be_are_refused(arguments: Any, named: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Broker().allow(*arguments, **named)


def test_super_users_are_principals() -> None:
    with pytest.raises(ConfigError, match="super_users has 'root'"):
        Broker(super_users="User:a;root")


def test_who_has_authenticated_is_who_the_rules_are_about() -> None:
    """B-D6.3: the principal is the connection's."""
    with Broker(
        topics={"mine": 1, "other": 1},
        sasl_users={"ada": "x", "root": "y"},
        super_users="User:root",
    ) as broker:
        broker.allow("User:ada", "read", topic="mine")

        def topics(token: bytes) -> set[str]:
            with SaslClient(broker.nodes[0].port) as client:
                assert client.authenticate(token).error_code == 0
                answer = client.ask(METADATA, 5, MetadataRequest(topics=None))
                return {each.name for each in answer.topics}

        assert topics(b"\0ada\0x") == {"mine"}
        assert topics(b"\0root\0y") == {"mine", "other"}


def test_a_client_is_told_all_that_it_needs() -> None:
    listeners: dict[str, str | BrokerListener] = {
        "OPEN": "PLAINTEXT",
        "CLOSED": BrokerListener("SASL_PLAINTEXT"),
    }
    broker = Broker(listeners=listeners, sasl_users={"ada": 'pass"word'})
    with pytest.raises(IllegalStateError):
        broker.client_settings()
    with broker:
        broker.add_user("bob", "b", ["SCRAM-SHA-512"])
        servers = broker.bootstrap_servers_of("CLOSED")
        assert broker.client_settings() == {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "PLAINTEXT",
        }
        assert broker.client_settings("ada", listener="CLOSED") == {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "sasl.password": 'pass"word',
        }
        assert broker.client_settings("bob", listener="CLOSED", flavour="kafka-python") == {
            "bootstrap_servers": servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "bob",
            "sasl_plain_password": "b",
        }
        java = broker.client_settings(
            "ada", listener="CLOSED", mechanism="SCRAM-SHA-256", flavour="java"
        )
        assert java["sasl.jaas.config"] == (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="ada" password="pass\\"word";'
        )
        assert "sasl.password" not in java
        for arguments, said in (
            ({"user": None}, "give a user"),
            ({"user": "eve"}, "no user 'eve' with a password; there are ada, bob"),
            ({"user": "bob", "mechanism": "PLAIN"}, "user 'bob' has SCRAM-SHA-512, not PLAIN"),
            ({"user": "ada", "mechanism": "GSSAPI"}, "is not offered; PLAIN, SCRAM"),
            ({"user": "ada", "flavour": "franz"}, "flavour is 'franz'; there are kafka, java"),
            ({"user": "ada", "listener": "X"}, "no listener 'X'; there are OPEN, CLOSED"),
        ):
            with pytest.raises(ConfigError, match=said):
                broker.client_settings(**{"listener": "CLOSED"} | arguments)


def test_librdkafka_makes_its_own_tokens() -> None:
    with Broker(sasl_mechanisms=["OAUTHBEARER"]) as broker:
        found = broker.client_settings("ada", flavour="librdkafka")
        assert found["sasl.mechanism"] == "OAUTHBEARER"
        assert found["sasl.oauthbearer.config"] == "principal=ada"
        with pytest.raises(ConfigError, match="needs a token"):
            broker.client_settings("ada")


def test_a_rule_about_what_is_no_text_is_refused() -> None:
    """It would hold for nobody."""

    class Names(str, enum.Enum):  # noqa: UP042
        ADA = "ada"

    wrong: Any = 5
    with Broker(topics={"t": 1}) as broker:
        for rule in ({"topic": wrong}, {"group": wrong}, {"topic": "t", "host": wrong}):
            with pytest.raises(ConfigError, match="is 5; it must be text"):
                broker.deny("ada", "write", **rule)
        assert broker.acls == []
        broker.allow(Names.ADA, "write", topic=Names.ADA)
        (made,) = broker.acls
        assert (type(made.principal), made.principal) == (str, "User:ada")
        assert (type(made.name), made.name) == (str, "ada")
