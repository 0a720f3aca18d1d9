"""The broker's faults, met by clients over sockets (contract B-G2, B-D1, B-C6)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import Message, Producer

from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.faults.fault_verbs import FaultVerbs
from fastprod.broker.faults.planned_faults import InterceptedRequest
from fastprod.errors import (
    DeliveryTimeoutError,
    InvalidRecordError,
    NetworkError,
    RequestTimedOutError,
)

BOUND_S = 30.0
HOUR_MS = 3_600_000
RECORDS = 40
SOME = 300
STEP = 10

Plan = Callable[[FaultVerbs], None]


@pytest.fixture
def broker() -> Iterator[Broker]:
    """One node, topic "t" of three partitions."""
    with Broker(topics={"t": 3}) as started:
        yield started


def new_producer(broker: Broker, **config: object) -> KafkaProducer:
    settings = {"linger_ms": 0, "retry_backoff_ms": 10, "reconnect_backoff_ms": 10, **config}
    return KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)


def values(broker: Broker, partition: int = 0) -> list[bytes | None]:
    return [each.value for each in broker.records("t", partition)]


# What a producer that tries again survives, whatever is appended meanwhile.
SURVIVED: list[tuple[str, Plan]] = [
    ("fail", lambda faults: faults.fail("Produce", "NOT_ENOUGH_REPLICAS", n=3, after=2)),
    ("fail-late", lambda faults: faults.fail("Produce", 20, n=2, delay_ms=20)),
    ("fail-one-partition", lambda faults: faults.fail("Produce", 6, n=3, topic="t", partition=0)),
    ("delay", lambda faults: faults.delay("Produce", 5)),
    ("drop", lambda faults: faults.drop("Produce", after=1)),
    ("close", lambda faults: faults.close("Produce", n=3, after=2)),
    ("truncate-nothing", lambda faults: faults.truncate("Produce", 0, n=2, after=1)),
    ("truncate-in-size", lambda faults: faults.truncate("Produce", 3, n=2, after=1)),
    ("truncate-in-header", lambda faults: faults.truncate("Produce", 7, n=2, after=1)),
    ("truncate-in-body", lambda faults: faults.truncate("Produce", 20, n=2, after=1)),
    ("dribble", lambda faults: faults.dribble("all", 5, 1)),
    ("lose_reply", lambda faults: faults.lose_reply("Produce", n=3, after=1)),
    ("time_out", lambda faults: faults.time_out_then_append(n=3, delay_ms=0, after=1)),
    ("time_out-late", lambda faults: faults.time_out_then_append(n=3, delay_ms=30)),
    ("before-anything", lambda faults: faults.close("ApiVersions", n=2)),
    ("no-id-yet", lambda faults: faults.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS")),
    ("no-leader-yet", lambda faults: faults.fail("Metadata", 5, n=2, topic="t")),
]


@pytest.mark.parametrize(("name", "plan"), SURVIVED, ids=[name for name, _ in SURVIVED])
def test_each_record_is_there_once_and_in_order(broker: Broker, name: str, plan: Plan) -> None:
    """B-G2 and B-C6.2: with idempotence, whatever happens to requests and answers."""
    plan(broker.faults)
    # Who waits for an answer that is dropped gives up soon; for slow ones nobody does: the first
    # takes more than a second where a piece takes ten milliseconds, and would never be whole.
    settings = {"request_timeout_ms": 1_000} if name == "drop" else {}
    with new_producer(broker, batch_size=1, **settings) as producer:
        sent = [producer.send("t", b"%d" % n, partition=n % 2) for n in range(RECORDS)]
        told = [each.result(BOUND_S) for each in sent]
    broker.faults.reset()
    for partition in (0, 1):
        assert values(broker, partition) == [b"%d" % n for n in range(partition, RECORDS, 2)]
    assert [each.offset for each in told] == [n // 2 for n in range(RECORDS)]


@pytest.mark.parametrize(("is_idempotent", "copies"), [(True, 1), (False, 2)])
def test_what_was_appended_although_the_reply_was_lost_is_there(
    broker: Broker, is_idempotent: bool, copies: int
) -> None:
    """B-G2, B-C6.2: the second attempt is a duplicate, which the broker knows with idempotence
    only.
    """
    broker.faults.lose_reply("Produce")
    with new_producer(broker, enable_idempotence=is_idempotent) as producer:
        producer.send("t", b"a", partition=0).result(BOUND_S)
    assert len(broker.requests("Produce")) == 2
    assert values(broker) == [b"a"] * copies


@pytest.mark.parametrize("delay_ms", [0, HOUR_MS])
@pytest.mark.parametrize(("is_idempotent", "copies"), [(True, 1), (False, 2)])
def test_what_timed_out_is_appended_before_the_second_attempt_or_after_it(
    broker: Broker, delay_ms: int, is_idempotent: bool, copies: int
) -> None:
    """B-G2, B-D1: REQUEST_TIMED_OUT says that the data is appended; B-C6.2: once with
    idempotence.
    """
    broker.faults.time_out_then_append(delay_ms=delay_ms)
    with new_producer(broker, enable_idempotence=is_idempotent) as producer:
        found = producer.send("t", b"a", partition=0).result(BOUND_S)
        assert len(broker.requests("Produce")) == 2
        assert len(values(broker)) == (copies if delay_ms == 0 else 1)
        broker.faults.reset()
        assert values(broker) == [b"a"] * copies
        assert found.offset == (copies - 1 if delay_ms == 0 else 0)
        # The sequence goes on where it was.
        assert producer.send("t", b"b", partition=0).result(BOUND_S).offset == copies


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        (lambda faults: faults.fail("Produce", "INVALID_RECORD"), InvalidRecordError),
        (lambda faults: faults.time_out_then_append(n=None), RequestTimedOutError),
        (lambda faults: faults.close("Produce", n=None), NetworkError),
    ],
)
def test_a_producer_that_does_not_try_again_is_told(
    broker: Broker, plan: Plan, error: type[Exception]
) -> None:
    """B-D1.6."""
    plan(broker.faults)
    settings = {"retries": 0, "enable_idempotence": False}
    with new_producer(broker, **settings) as producer, pytest.raises(error):
        producer.send("t", b"a", partition=0).result(BOUND_S)


def test_one_partition_of_a_request_fails_and_the_others_do_not(broker: Broker) -> None:
    """B-D1.1."""
    broker.faults.fail("Produce", "INVALID_RECORD", n=None, topic="t", partition=1)
    with new_producer(broker, linger_ms=60_000) as producer:
        sent = [producer.send("t", b"a", partition=partition) for partition in range(3)]
        producer.flush(BOUND_S)
        assert sent[0].result(BOUND_S).offset == sent[2].result(BOUND_S).offset == 0
        with pytest.raises(InvalidRecordError):
            sent[1].result(BOUND_S)
    assert len(broker.requests("Produce")) == 1
    assert [values(broker, partition) for partition in range(3)] == [[b"a"], [], [b"a"]]


def test_the_faults_of_one_node_spare_the_other() -> None:
    """B-G2: per node."""
    with Broker(brokers=2, topics={"t": 2}) as broker:
        leaders = [broker.leader("t", partition) for partition in (0, 1)]
        assert sorted(leaders) == [0, 1]
        broker.faults.fail("Produce", "INVALID_RECORD", n=None, node=leaders[1])
        with new_producer(broker) as producer:
            assert producer.send("t", b"a", partition=0).result(BOUND_S).offset == 0
            with pytest.raises(InvalidRecordError):
                producer.send("t", b"a", partition=1).result(BOUND_S)


def test_a_broker_that_stops_reading_takes_nothing_until_it_reads_again(broker: Broker) -> None:
    """B-G2, the slow reader: nothing is lost, and nothing is there before."""
    with new_producer(broker) as producer:
        producer.send("t", b"first", partition=0).result(BOUND_S)
        broker.faults.stop_reading()
        sent = [producer.send("t", bytes(100_000), partition=0) for _ in range(100)]
        with pytest.raises(TimeoutError):
            sent[0].result(0.2)
        assert len(broker.requests("Produce")) == 1
        broker.faults.resume_reading()
        assert [each.result(BOUND_S).offset for each in sent] == list(range(1, 101))


def test_a_broker_that_never_reads_again_is_given_up(broker: Broker) -> None:
    """B-G2: the client's own time-outs hold."""
    impatient = new_producer(broker, request_timeout_ms=500, delivery_timeout_ms=2_500)
    with impatient, new_producer(broker, request_timeout_ms=500) as patient:
        impatient.warmup("t", timeout=BOUND_S)
        patient.send("t", b"first", partition=0).result(BOUND_S)
        broker.faults.stop_reading()
        last = patient.send("t", b"third", partition=0)
        with pytest.raises(DeliveryTimeoutError):
            impatient.send("t", b"second", partition=0).result(BOUND_S)
        assert not last.done()
        broker.faults.reset()
        assert last.result(BOUND_S).partition == 0
    assert values(broker).count(b"third") == 1


def test_a_node_that_comes_back_reads_no_more_than_before(broker: Broker) -> None:
    """B-G2: stop_reading is about the node, not about its connections."""
    broker.faults.stop_reading(node=0)
    broker.nodes[0].down()
    broker.nodes[0].up()
    with new_producer(broker, max_block_ms=200) as producer:
        with pytest.raises(TimeoutError):
            producer.send("t", b"a", partition=0).result(0.2)
        assert broker.requests() == []
        broker.faults.resume_reading(node=0)
        producer.warmup("t", timeout=BOUND_S)
        producer.send("t", b"b", partition=0).result(BOUND_S)


def test_an_interceptor_decides_in_the_middle_of_the_traffic(broker: Broker) -> None:
    """B-G2, B-F3: the third Produce request is refused, and it was seen decoded."""
    seen: list[InterceptedRequest] = []

    def refuse_third(request: InterceptedRequest) -> str | None:
        if request.api != "Produce":
            return None
        seen.append(request)
        return "NOT_ENOUGH_REPLICAS" if len(seen) == 3 else None

    broker.faults.intercept(refuse_third)
    with new_producer(broker, client_id="watched", acks="all") as producer:
        for n in range(5):
            producer.send("t", b"%d" % n, partition=0).result(BOUND_S)
    assert values(broker) == [b"%d" % n for n in range(5)]
    assert len(seen) == 6
    assert {each.client_id for each in seen} == {"watched"}
    assert all(each.message.acks == -1 for each in seen)


def test_verbs_may_be_called_while_the_broker_is_busy(broker: Broker) -> None:
    """B-G2: by any thread, atomic as far as requests can tell."""
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS")
            broker.faults.lose_reply(after=3)
            stop.wait(0.01)
            broker.faults.reset()
            # Attempts that come ever later must not always meet a new fault.
            stop.wait(0.01)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        with new_producer(broker, batch_size=1000) as producer:
            for start in range(0, SOME, STEP):
                step = range(start, start + STEP)
                sent = [producer.send("t", b"%d" % n, partition=0) for n in step]
                assert [each.result(BOUND_S).offset for each in sent] == list(step)
    finally:
        stop.set()
        disturber.join()
    assert values(broker) == [b"%d" % n for n in range(SOME)]


class Librdkafka:
    """confluent-kafka's producer: each delivery is noted."""

    def __init__(self, broker: Broker, **config: object) -> None:
        self.errors: list[LibrdkafkaError | None] = []
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "log_level": 0,
                **config,
            }
        )

    def _delivered(self, error: LibrdkafkaError | None, message: Message) -> None:
        self.errors.append(error)

    def send(self, count: int) -> None:
        for n in range(count):
            self._producer.produce("t", b"%d" % n, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
        assert self._producer.flush(BOUND_S) == 0

    def close(self) -> None:
        del self._producer
        gc.collect()


@pytest.mark.parametrize(
    "name",
    [
        "fail",
        "fail-one-partition",
        "close",
        "truncate-in-body",
        "dribble",
        "delay",
        "lose_reply",
        "time_out",
    ],
)
def test_librdkafka_gets_each_record_there_once_and_in_order(broker: Broker, name: str) -> None:
    """B-G2 and B-C6.2, by a client that is not ours.

    The first record makes the broker know the producer: else it takes any sequence for the first,
    and librdkafka counts a batch that failed before that as delivered. What is appended long after
    it timed out is no test for it: it gives its records new sequences meanwhile.
    """
    client = Librdkafka(broker, **{"batch.num.messages": 4})
    client.send(1)
    dict(SURVIVED)[name](broker.faults)
    client.send(RECORDS)
    client.close()
    broker.faults.reset()
    assert client.errors == [None] * (1 + RECORDS)
    assert values(broker) == [b"0", *(b"%d" % n for n in range(RECORDS))]


def test_librdkafka_is_told_of_an_error_that_is_final(broker: Broker) -> None:
    """B-D1.6."""
    broker.faults.fail("Produce", "MESSAGE_TOO_LARGE", n=None)
    client = Librdkafka(broker, **{"enable.idempotence": False})
    client.send(1)
    client.close()
    (error,) = client.errors
    assert error is not None
    assert error.code() == LibrdkafkaError.MSG_SIZE_TOO_LARGE
    assert values(broker) == []


def test_librdkafka_without_idempotence_appends_twice_what_it_was_not_told(broker: Broker) -> None:
    """B-G2: the record was appended before its reply was lost."""
    broker.faults.lose_reply("Produce")
    client = Librdkafka(broker, **{"enable.idempotence": False})
    client.send(1)
    client.close()
    assert client.errors == [None]
    assert values(broker) == [b"0", b"0"]
