"""SASL to our own broker: refusals, users that are replaced, tokens and sessions that end."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.errors import (
    AuthenticationError,
    ConfigError,
    DeliveryTimeoutError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
)
from support.broker.sockets import until

USER, PASSWORD, WRONG = "ada", "wonderland", "looking-glass"
WAIT_S = 20.0
"""Shorter than max_block_ms: what takes that long fails the test."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}, sasl_users={USER: PASSWORD}) as made:
        yield made


def producer(broker: Broker, password: str = PASSWORD, **config: Any) -> KafkaProducer:
    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": USER,
        "sasl_password": password,
    }
    return KafkaProducer(settings | config)


def metric(made: KafkaProducer, name: str) -> float:
    return float(made.metrics()["producer-metrics"][name])


def error_of_send(made: KafkaProducer) -> AuthenticationError:
    """What `send` comes to, long before max_block_ms."""
    with pytest.raises(AuthenticationError) as caught:
        made.send("t", b"x").result(WAIT_S)
    return caught.value


def test_a_user_is_let_in(broker: Broker) -> None:
    """P-L.181, P-G.10.1, P-G.10.3"""
    with producer(broker) as made:
        assert made.send("t", b"x").result(WAIT_S).offset == 0
        assert metric(made, "successful-authentication-total") >= 1
        assert metric(made, "failed-authentication-total") == 0


def test_a_wrong_password_ends_every_wait(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """P-L.181, P-A.4.6, P-G.4.6, P-G.10.2, P-G.10.8, P-H.7.2: of all callers, few connections."""
    began_s = time.monotonic()
    with producer(broker, WRONG) as made:
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                made.partitions_for("t")
            except KafkaError as error:
                errors.append(error)

        callers = [threading.Thread(target=ask) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(WAIT_S)
        errors.append(error_of_send(made))
        with pytest.raises(AuthenticationError) as caught:
            made.warmup("t")
        errors.append(caught.value)
        for error in errors:
            assert isinstance(error, AuthenticationError)
            text = str(error)
            assert f"broker {broker.bootstrap_servers} refused user 'ada' by PLAIN" in text
            assert "Invalid username or password" in text
        assert len(errors) == 6
        while time.monotonic() < began_s + 3 or metric(made, "failed-authentication-total") < 2:
            assert time.monotonic() < began_s + 2 * WAIT_S
            time.sleep(0.1)
        failed = metric(made, "failed-authentication-total")
        assert failed <= 2 + (time.monotonic() - began_s) / 0.8, "five in 3 s"
    shown = caplog.text + "".join([repr(error) for error in errors])
    assert WRONG not in shown
    assert "refused user 'ada'" in caplog.text


def test_a_wrong_password_ends_init_transactions_which_may_be_called_again(broker: Broker) -> None:
    """P-G.4.6, P-I.6: as often as it is wrong; Java's producer tells it at once, too."""
    with producer(broker, WRONG, transactional_id="ledger") as made:
        for _ in range(2):
            with pytest.raises(AuthenticationError, match="refused user 'ada' by PLAIN") as caught:
                made.init_transactions(WAIT_S)
            assert not caught.value.fatal
            assert not caught.value.abortable
        with pytest.raises(IllegalStateError, match=r"init_transactions\(\) comes first"):
            made.begin_transaction()
        made.set_sasl_credentials(USER, PASSWORD)
        made.init_transactions(WAIT_S)
        with made.transaction(WAIT_S):
            made.send("t", b"x")
    assert [record.value for record in broker.records("t")] == [b"x"]


def wait_for_unseen_refusal(made: KafkaProducer) -> None:
    """Of an init_transactions() that nobody waits for any more."""
    with pytest.raises(KafkaTimeoutError):
        made.init_transactions(0)
    manager = made._network_client.transactions
    assert manager is not None
    result = manager.pending_result
    assert result is not None
    until(lambda: result.is_completed, "it is refused")


def test_init_transactions_forgets_a_refusal_that_nobody_waited_for(broker: Broker) -> None:
    """P-I.2.5: once the user is replaced; else it is told when it is called again."""
    with producer(broker, WRONG, transactional_id="ledger") as made:
        wait_for_unseen_refusal(made)
        with pytest.raises(AuthenticationError, match="refused user 'ada' by PLAIN"):
            made.init_transactions(0)
        wait_for_unseen_refusal(made)
        made.set_sasl_credentials(USER, PASSWORD)
        made.init_transactions(WAIT_S)


def test_a_commit_that_timed_out_names_a_refusal_and_goes_on_when_it_ends(broker: Broker) -> None:
    """P-I.8.2: metadata still come by the connection to the bootstrap server."""
    with producer(broker, transactional_id="ledger") as made:
        made.init_transactions(WAIT_S)
        made.begin_transaction()
        made.send("t", b"x").result(WAIT_S)
        broker.remove_user(USER)
        broker.faults.close("EndTxn", n=1)
        with pytest.raises(KafkaTimeoutError, match="refused user 'ada' by PLAIN"):
            made.commit_transaction(1)
        broker.add_user(USER, PASSWORD)
        made.commit_transaction(WAIT_S)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_is_let_in_by_scram(broker: Broker, mechanism: str) -> None:
    """P-L.181, P-G.10.4"""
    with producer(broker, sasl_mechanism=mechanism) as made:
        assert made.send("t", b"x").result(WAIT_S).offset == 0
    with producer(broker, WRONG, sasl_mechanism=mechanism) as made:
        assert f"refused user 'ada' by {mechanism}" in str(error_of_send(made))


def test_a_mechanism_that_is_not_offered() -> None:
    """P-L.181, P-G.10.2"""
    users = {USER: PASSWORD}
    with (
        Broker(topics={"t": 1}, sasl_users=users, sasl_mechanisms=["PLAIN"]) as broker,
        producer(broker, sasl_mechanism="SCRAM-SHA-512") as made,
    ):
        text = str(error_of_send(made))
    assert "does not offer the mechanism SCRAM-SHA-512: it offers PLAIN" in text
    assert broker.bootstrap_servers in text


def test_a_listener_without_sasl() -> None:
    """P-G.10.2"""
    with Broker(topics={"t": 1}) as plain, producer(plain) as made:
        text = str(error_of_send(made))
    assert "takes no SASL on this listener" in text
    assert plain.bootstrap_servers in text


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_client_without_sasl_at_a_listener_with_it(protocol: str) -> None:
    """Such a listener answers ApiVersions, and closes the connection at any other request."""
    with Broker(topics={"t": 1}, sasl_users={USER: PASSWORD}, tls=protocol == "SSL") as asks:
        settings = {"bootstrap_servers": asks.bootstrap_servers, "security_protocol": protocol}
        if protocol == "SSL":
            settings["enable_ssl_certificate_verification"] = "false"
        text, ends_s = "", time.monotonic() + WAIT_S
        with KafkaProducer(settings, max_block_ms=300) as made:
            while "closed the connection" not in text and time.monotonic() < ends_s:
                with pytest.raises(MetadataTimeoutError) as caught:
                    made.partitions_for("t")
                text = str(caught.value)
    assert f"security_protocol is {protocol}; then set it to SASL_{protocol}" in text
    assert asks.bootstrap_servers in text


def test_a_user_who_is_replaced_is_tried_at_once(broker: Broker) -> None:
    """Users 20: no new producer, and no wait for a backoff."""
    with producer(broker, WRONG) as made:
        error_of_send(made)
        made.set_sasl_credentials(USER, PASSWORD)
        assert made.send("t", b"x").result(WAIT_S).offset == 0
        assert PASSWORD not in repr(vars(made))
        with pytest.raises(ConfigError, match="sasl_password is empty"):
            made.set_sasl_credentials(USER, "")
        for wrong in (PASSWORD + "\0", PASSWORD + "\udcff", PASSWORD * 4_000):
            with pytest.raises(ConfigError, match="sasl_password") as raised:
                made.set_sasl_credentials(USER, wrong)
            assert PASSWORD not in str(raised.value)


def test_a_producer_without_a_password_has_none_to_replace() -> None:
    refusal = pytest.raises(IllegalStateError, match="security_protocol = PLAINTEXT has no user")
    with KafkaProducer(bootstrap_servers="127.0.0.1:1") as made, refusal:
        made.set_sasl_credentials(USER, PASSWORD)


def test_a_pickled_producer_authenticates_too(broker: Broker) -> None:
    with producer(broker) as made:
        data = pickle.dumps(made)
        assert PASSWORD.encode() not in data
        with pickle.loads(data) as copy:
            assert copy.send("t", b"x").result(WAIT_S).offset == 0


@pytest.mark.usefixtures("early_renewals")
def test_sessions_are_prolonged_with_nothing_lost(caplog: pytest.LogCaptureFixture) -> None:
    """P-L.181, P-G.10.7, KIP-368: on idle connections too, on one connection after the other."""
    with (
        Broker(
            topics={"t": 1}, sasl_users={USER: PASSWORD}, connections_max_reauth_ms=10_000
        ) as broker,
        caplog.at_level(logging.WARNING),
        producer(broker) as made,
    ):
        sent = 0
        while metric(made, "successful-reauthentication-total") < 4:
            made.send("t", b"x").result(WAIT_S)
            sent += 1
        idle_until = metric(made, "successful-reauthentication-total") + 4
        deadline_s = time.monotonic() + WAIT_S
        while metric(made, "successful-reauthentication-total") < idle_until:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        made.send("t", b"x").result(WAIT_S)
        assert broker.end_offset("t", 0) == sent + 1
        assert metric(made, "failed-reauthentication-total") == 0
        assert metric(made, "reauthentication-latency-max") >= 0
        made_total, closed_total = "connection-creation-total", "connection-close-total"
        assert metric(made, made_total) >= metric(made, "successful-reauthentication-total")
        deadline_s = time.monotonic() + WAIT_S
        while metric(made, "connection-count") > 2:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        assert metric(made, made_total) - metric(made, closed_total) <= 4, "two may be on their way"
    assert "session" not in caplog.text


def test_records_that_wait_name_a_refusal_as_their_cause(broker: Broker) -> None:
    """P-G.4.6: they are tried until delivery_timeout_ms, as in Kafka."""
    with producer(broker, delivery_timeout_ms=5_000, request_timeout_ms=2_000, linger_ms=0) as made:
        made.send("t", b"x").result(WAIT_S)
        made.set_sasl_credentials(USER, WRONG)
        broker.faults.close("Produce")
        error = made.send("t", b"y").exception(WAIT_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert "refused user 'ada' by PLAIN" in str(error)
        assert WRONG not in str(error)


def test_records_that_wait_go_when_the_user_is_let_in_again(broker: Broker) -> None:
    """A password that was changed at both sides: no record is lost."""
    with producer(broker, linger_ms=0) as made:
        made.send("t", b"x").result(WAIT_S)
        made.set_sasl_credentials(USER, WRONG)
        broker.faults.close("Produce")
        future = made.send("t", b"y")
        deadline_s = time.monotonic() + WAIT_S
        while metric(made, "failed-authentication-total") == 0:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert not future.done()
        made.set_sasl_credentials(USER, PASSWORD)
        assert future.result(WAIT_S).offset == 1
