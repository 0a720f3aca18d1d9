"""Other people's clients against the embedded broker with TLS, with SASL, and with ACLs."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import kafka.net.sasl.oauth
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AioPartition
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider  # type: ignore[import-untyped]
from aiokafka.errors import KafkaConnectionError  # type: ignore[import-untyped]
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import kafka_jars
from fastprod.broker import Broker
from fastprod.cli.options.broker_security import BrokerSecurityOptions
from support.broker import certificates
from support.broker.certificates import Certificate

TIMEOUT_S = 30.0
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD, WRONG = "alice", "wonderland", "looking-glass"
# Some are larger than a record of TLS.
VALUES = [b"%d " % number + b"x" * (number % 20 * 2_000) for number in range(400)]
SESSION_MS = 1_500

Secured = tuple[Broker, str]
Values = list[bytes | None]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.make(tmp_path_factory.mktemp("certificate"))


def start(protocol: str, certificate: Certificate, **config: Any) -> Broker:
    if protocol.endswith("SSL"):
        config |= {"ssl_certfile": certificate.certfile, "ssl_keyfile": certificate.keyfile}
    if protocol.startswith("SASL"):
        config |= {"sasl_users": {USER: PASSWORD}}
    return Broker(topics={"t": 1}, **config)


@pytest.fixture(params=PROTOCOLS)
def secured(
    request: pytest.FixtureRequest, certificate: Certificate
) -> Iterator[tuple[Broker, str]]:
    with start(request.param, certificate) as broker:
        yield broker, request.param


def for_confluent(broker: Broker, mechanism: str | None = None) -> dict[str, Any]:
    settings = broker.client_settings(USER, mechanism=mechanism, flavour="librdkafka")
    return {**settings, "log_level": 0}


def with_confluent(broker: Broker, mechanism: str | None = None) -> Values:
    settings = for_confluent(broker, mechanism)
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce("t", value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g"})
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        return [each.value() for each in consumer.consume(len(VALUES), TIMEOUT_S)]
    finally:
        consumer.close()


def for_kafka_python(broker: Broker, mechanism: str | None = None) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_oauth_token_provider": Tokens(),
        }
    return broker.client_settings(USER, mechanism=mechanism, flavour="kafka-python")


class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    """Tokens without a signature, for kafka-python and aiokafka."""

    def token(self) -> str:
        now_s = int(time.time())
        claims = {"sub": USER, "iat": now_s, "exp": now_s + 60}
        parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
        return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."


def with_kafka_python(broker: Broker, mechanism: str | None = None) -> Values:
    settings = for_kafka_python(broker, mechanism)
    producer = kafka.KafkaProducer(**settings)
    for value in VALUES:
        producer.send("t", value)
    producer.close(TIMEOUT_S)
    consumer = kafka.KafkaConsumer(
        auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT_S * 1000), **settings
    )
    try:
        consumer.assign([kafka.TopicPartition("t", 0)])
        return [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()


def for_aiokafka(broker: Broker, mechanism: str | None = None) -> dict[str, Any]:
    if mechanism != "OAUTHBEARER":
        return broker.client_settings(USER, mechanism=mechanism, flavour="aiokafka")

    class Provider(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return Tokens().token()

    settings = for_kafka_python(broker, mechanism)
    return {**settings, "sasl_oauth_token_provider": Provider()}


def with_aiokafka(broker: Broker, mechanism: str | None = None) -> Values:
    async def both() -> Values:
        settings = for_aiokafka(broker, mechanism)
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send("t", value, partition=0)
            await producer.flush()
        async with AIOKafkaConsumer(auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign([AioPartition("t", 0)])
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(asyncio.wait_for(both(), TIMEOUT_S))


CLIENTS: dict[str, Callable[[Broker, str | None], Values]] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_write_and_read(client: str, secured: Secured) -> None:
    """B-A4.7, B-A7.5."""
    assert CLIENTS[client](secured[0], None) == VALUES
    assert [each.value for each in secured[0].records("t")] == VALUES


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_clients_authenticate_by_every_mechanism(client: str, mechanism: str) -> None:
    """B-A7.5, B-D6.1."""
    with Broker(
        topics={"t": 1}, sasl_users={USER: PASSWORD}, sasl_mechanisms=[mechanism]
    ) as broker:
        assert CLIENTS[client](broker, mechanism) == VALUES


def properties(path: Path, settings: Mapping[str, str]) -> Path:
    """A property file of Java."""
    lines = (
        f"{name}={value}".replace("\\", "\\\\").replace("\n", "\\n")
        for name, value in settings.items()
    )
    path.write_text("\n".join(lines))
    return path


def test_the_java_producer_writes(secured: Secured, tmp_path: Path) -> None:
    """B-A4.7, B-A7.5."""
    broker, _ = secured
    kafka_jars.resolve()
    mechanism = None if secured[1] == "SSL" else "SCRAM-SHA-512"
    java = broker.client_settings(USER, mechanism=mechanism, flavour="java")
    settings = properties(tmp_path / "producer.properties", java)
    done = kafka_jars.run_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "t", "--num-records", "2000", "--throughput", "-1"),
        *("--record-size", "1000", "--command-config", str(settings)),
        timeout_s=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert broker.end_offset("t", 0) == 2_000


def test_a_wrong_password_is_told(certificate: Certificate) -> None:
    """B-A7.5: the client hears why, and nothing is written."""
    errors: list[str] = []
    with start("SASL_PLAINTEXT", certificate) as broker:
        settings = for_confluent(broker)
        producer = confluent_kafka.Producer(
            {**settings, "sasl.password": WRONG, "error_cb": lambda each: errors.append(each.str())}
        )
        producer.produce("t", b"never")
        deadline = time.monotonic() + TIMEOUT_S
        while not errors and time.monotonic() < deadline:
            producer.poll(0.1)
        assert "Invalid username or password" in errors[0]
        producer.purge()

        async def aio() -> None:
            settings = for_aiokafka(broker)
            refused = AIOKafkaProducer(**settings | {"sasl_plain_password": WRONG})
            try:
                await refused.start()
            finally:
                await refused.stop()

        with pytest.raises(KafkaConnectionError):
            asyncio.run(aio())
        assert broker.end_offset("t", 0) == 0


def test_librdkafka_authenticates_again_on_the_same_connection(certificate: Certificate) -> None:
    """KIP-368: more authentications than connections, and nothing is lost."""
    with start("SASL_SSL", certificate, connections_max_reauth_ms=SESSION_MS) as broker:
        producer = confluent_kafka.Producer(for_confluent(broker))
        server = broker._servers[0].server
        assert server is not None

        def authentications() -> int:
            return broker._servers[0].metrics.snapshot()["36"].request_count

        def connected() -> int:
            return sum(each.created_count for each in server.processors)

        began = time.monotonic()
        sent = 0
        # Who is late once with a session of so short a time connects again, and has the next ones.
        while time.monotonic() < began + 3 * SESSION_MS / 1000 or authentications() <= connected():
            assert time.monotonic() < began + TIMEOUT_S
            producer.produce("t", b"x")
            sent += 1
            assert producer.flush(TIMEOUT_S) == 0
            time.sleep(0.01)
        assert broker.end_offset("t", 0) == sent


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_of_scram_is_told(mechanism: str) -> None:
    """B-A7.5: in Kafka's words, which do not tell whether there is such a user."""
    with Broker(topics={"t": 1}, sasl_users={USER: PASSWORD}) as broker:
        errors: list[str] = []
        settings = for_confluent(broker, mechanism) | {
            "sasl.password": WRONG,
            "error_cb": lambda each: errors.append(each.str()),
        }
        producer = confluent_kafka.Producer(settings)
        deadline = time.monotonic() + TIMEOUT_S
        while not errors and time.monotonic() < deadline:
            producer.poll(0.1)
        assert f"invalid credentials with SASL mechanism {mechanism}" in errors[0]


def test_clients_show_their_certificates(certificate: Certificate, tmp_path: Path) -> None:
    """B-D6.5: and rules are about the names in them."""
    ada = certificates.make(tmp_path, "ada")
    with Broker(
        topics={"t": 1, "other": 1},
        ssl_certfile=certificate.certfile,
        ssl_keyfile=certificate.keyfile,
        ssl_cafile=ada.certfile,
        ssl_client_auth="required",
    ) as broker:
        broker.allow("User:CN=ada", ["read", "write"], topic="t")
        context = certificate.client_context()
        context.load_cert_chain(ada.certfile, ada.keyfile)
        own: dict[str, dict[str, Any]] = {
            "confluent-kafka": {
                "ssl.certificate.location": str(ada.certfile),
                "ssl.key.location": str(ada.keyfile),
            },
            "kafka-python": {"ssl_context": context},
        }
        rdkafka = {**broker.client_settings(flavour="librdkafka"), **own["confluent-kafka"]}
        producer = confluent_kafka.Producer(rdkafka)
        producer.produce("t", b"one")
        assert producer.flush(TIMEOUT_S) == 0
        python = {**broker.client_settings(flavour="kafka-python"), **own["kafka-python"]}
        sender = kafka.KafkaProducer(**python)
        try:
            assert sender.send("t", b"two").get(TIMEOUT_S).offset == 1
            with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
                sender.send("other", b"three").get(TIMEOUT_S)
        finally:
            sender.close(TIMEOUT_S)
        assert [each.value for each in broker.records("t")] == [b"one", b"two"]


def test_librdkafka_manages_credentials_of_scram() -> None:
    """B-D6.1, KIP-554: what it sets lets a client in."""
    with Broker(topics={"t": 1}, sasl_users={"root": "r"}) as broker:
        admin = AdminClient(broker.client_settings("root", flavour="librdkafka"))
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            assert future.result(TIMEOUT_S) is None
        futures: Any = admin.describe_user_scram_credentials([USER])
        (found,) = futures[USER].result(TIMEOUT_S).scram_credential_infos
        assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
        settings = {
            **broker.client_settings("root", flavour="librdkafka"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        producer = confluent_kafka.Producer(settings)
        producer.produce("t", b"in")
        assert producer.flush(TIMEOUT_S) == 0
        assert broker.end_offset("t", 0) == 1


def test_librdkafka_manages_acls() -> None:
    """B-D6.2: what it allows can be done, and nothing else."""
    with Broker(
        topics={"orders": 1, "other": 1},
        sasl_users={"root": "r", USER: PASSWORD},
        super_users="User:root",
    ) as broker:
        admin = AdminClient(broker.client_settings("root", flavour="librdkafka"))
        rule = AclBinding(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            f"User:{USER}",
            "*",
            AclOperation.WRITE,
            AclPermissionType.ALLOW,
        )
        for future in admin.create_acls([rule]).values():
            assert future.result(TIMEOUT_S) is None
        nothing: Any = None  # of each of these: whatever it is
        everything = AclBindingFilter(
            ResourceType.ANY,
            nothing,
            ResourcePatternType.ANY,
            nothing,
            nothing,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        assert admin.describe_acls(everything).result(TIMEOUT_S) == [rule]
        settings = {**for_confluent(broker), "enable.idempotence": True}
        producer = confluent_kafka.Producer(settings)
        outcomes: list[tuple[str | None, int]] = []
        for topic in ("orders", "other"):
            producer.produce(
                topic,
                b"x",
                on_delivery=lambda error, message: outcomes.append(
                    (message.topic(), error.code() if error else 0)
                ),
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert sorted(outcomes) == [
            ("orders", 0),
            ("other", confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ]
        (deleted,) = admin.delete_acls([everything]).values()
        assert deleted.result(TIMEOUT_S) == [rule]
        assert broker.acls == []


@pytest.mark.parametrize(
    "mechanism", [pytest.param("PLAIN", marks=pytest.mark.slow), "SCRAM-SHA-256"]
)
def test_apache_kafkas_tools_take_the_files_for_clients(tmp_path: Path, mechanism: str) -> None:
    """Java's own Properties and JAAS read any password that stands there."""
    kafka_jars.resolve()
    password = " \u00e4\u20ac\U0001d54f\\u00e4\\ = : # ! \"quoted' \ttab ;end "
    options = BrokerSecurityOptions(
        tls=False,
        certificate=None,
        key=None,
        users=[f"ada:{password}"],
        mechanisms=[mechanism],
        listeners=(),
        folder=tmp_path,
    )
    with Broker(topics={"there": 1}, **options.arguments()) as broker, options.files(broker):
        done = kafka_jars.run_class(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", broker.bootstrap_servers, "--list"),
            *("--command-config", str(tmp_path / "ada.properties")),
            timeout_s=TIMEOUT_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "there" in done.stdout.split()


@pytest.mark.slow
def test_apache_kafkas_tools_manage_acls_and_users(tmp_path: Path) -> None:
    """B-D6.1, B-D6.2: kafka-acls and kafka-configs."""
    kafka_jars.resolve()
    with Broker(sasl_users={"root": "r"}, super_users="User:root") as broker:
        settings = properties(
            tmp_path / "admin.properties", broker.client_settings("root", flavour="java")
        )
        where = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(settings))
        done = kafka_jars.run_class(
            "org.apache.kafka.tools.AclCommand",
            *(*where, "--add", "--allow-principal", "User:ada", "--producer", "--topic", "orders"),
            timeout_s=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert {str(each) for each in broker.acls} == {
            f"User:ada may {each} topic orders" for each in ("write", "describe", "create")
        }
        done = kafka_jars.run_class(
            "kafka.admin.ConfigCommand",
            *(*where, "--alter", "--add-config", "SCRAM-SHA-256=[password=lovelace]"),
            *("--entity-type", "users", "--entity-name", "ada"),
            timeout_s=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert broker.users == ["ada", "root"]
