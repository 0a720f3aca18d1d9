"""What is sent again in a transaction: done late, behind later calls, in front of an epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.api_table import APIS
from fastprod.broker.faults import Park
from fastprod.errors import KafkaTimeoutError, ProducerClosedError, ProducerFencedError
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from fastprod.records import TopicPartition
from support.broker.sasl_client import SaslClient
from support.broker.transaction_asker import TransactionAsker
from support.records.readers import read_with_confluent

WAIT_S = 20.0
FENCED = (47, 90)  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
BEFORE_KIP_890 = "3.0"
WITHOUT_EPOCHS_ON_DEMAND = "2.1"
GROUP = "readers"
PLACE = TopicPartition("t", 0)
KEYS = {api.name: key for key, api in APIS.items()}
REQUESTS: dict[str, Callable[[TransactionAsker], Any]] = {
    "AddPartitionsToTxn": lambda late: late.add(0)[0],
    "AddOffsetsToTxn": lambda late: late.add_offsets(GROUP),
    "TxnOffsetCommit": lambda late: late.commit_offset(GROUP, 1),
    "EndTxn": lambda late: late.end(),
}


@contextmanager
def begun(max_versions: str | None) -> Iterator[tuple[Broker, KafkaProducer]]:
    """A broker, and a producer that is ready for transactions."""
    with (
        Broker(topics={"t": 1}, max_versions=max_versions) as broker,
        KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="ledger"
        ) as producer,
    ):
        producer.init_transactions(WAIT_S)
        yield broker, producer


def commit(producer: KafkaProducer, position: int) -> None:
    with producer.transaction():
        producer.send("t", b"record %d" % position)
        producer.send_offsets_to_transaction({PLACE: position}, GROUP)


def epoch_in(broker: Broker) -> tuple[int, int]:
    """Producer id and epoch of the latest transaction."""
    with SaslClient(broker.nodes[0].port) as client:
        state = asker(client).describe()
    return state.producer_id, state.producer_epoch


def asker(client: SaslClient) -> TransactionAsker:
    return TransactionAsker(
        lambda name, version, message: client.ask(KEYS[name], version, message), "ledger", "t"
    )


@pytest.mark.parametrize("lost", REQUESTS)
def test_it_is_refused(lost: str) -> None:
    """P-I.6.7: a late EndTxn would commit half of it, late offsets take the group back."""
    with (
        begun(BEFORE_KIP_890) as (broker, producer),
        SaslClient(broker.nodes[0].port) as client,
    ):
        late = asker(client)
        late.producer = epoch_in(broker)
        broker.faults.lose_reply(lost)
        commit(producer, 1)
        producer.begin_transaction()
        producer.send("t", b"aborted").result(WAIT_S)
        producer.send_offsets_to_transaction({PLACE: 2}, GROUP, WAIT_S)
        assert REQUESTS[lost](late) in FENCED
        producer.abort_transaction(WAIT_S)
        commit(producer, 3)
        (records,) = read_with_confluent(broker.bootstrap_servers, "t", committed=True).values()
        assert [record.value for record in records] == [b"record 1", b"record 3"]


@pytest.mark.parametrize(("max_versions", "refusals"), [(None, 3), (BEFORE_KIP_890, 4)])
def test_offsets_count_in_the_order_of_the_calls(max_versions: str | None, refusals: int) -> None:
    """P-I.3.10: the first ones are repeated, while their caller goes on with later ones."""
    with (
        begun(max_versions) as (broker, producer),
        SaslClient(broker.nodes[0].port) as client,
    ):
        broker.faults.fail("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", refusals)
        with producer.transaction():
            producer.send("t", b"1")
            with pytest.raises(KafkaTimeoutError):
                producer.send_offsets_to_transaction({PLACE: 1}, GROUP, 0.15)
            producer.send_offsets_to_transaction({PLACE: 2}, GROUP, WAIT_S)
        asked = OffsetFetchRequest(
            group_id=GROUP, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        )
        (topic,) = client.ask(KEYS["OffsetFetch"], 5, asked).topics
        assert topic.partitions[0].committed_offset == 2


def fence(broker: Broker, producer: KafkaProducer) -> None:
    with SaslClient(broker.nodes[0].port) as client:
        assert asker(client).init() == 0


@pytest.mark.parametrize(
    "end", [fence, lambda broker, producer: producer.close(0)], ids=["fenced", "closed"]
)
def test_a_commit_that_is_done_does_not_fail_with_the_epoch_behind_it(
    end: Callable[[Broker, KafkaProducer], None],
) -> None:
    """P-I.6.8: who were told that nothing is committed would send it once more."""
    park, asked = Park(), threading.Event()

    def hold_next_epoch(request: Any) -> Park | None:
        if request.api != "InitProducerId" or request.message.producer_id < 0:
            return None
        asked.set()
        return park

    with (
        begun(BEFORE_KIP_890) as (broker, producer),
        ThreadPoolExecutor(1) as pool,
    ):
        broker.faults.intercept(hold_next_epoch)
        broker.faults.lose_reply("EndTxn")
        producer.begin_transaction()
        producer.send("t", b"committed")
        committing = pool.submit(producer.commit_transaction, WAIT_S)
        assert asked.wait(WAIT_S)
        end(broker, producer)
        park.release()
        committing.result(WAIT_S)
        (records,) = read_with_confluent(broker.bootstrap_servers, "t", committed=True).values()
        assert [record.value for record in records] == [b"committed"]
        with pytest.raises((ProducerFencedError, ProducerClosedError)):
            producer.begin_transaction()


def test_transactions_without_a_loss_keep_their_epoch() -> None:
    """P-I.6.2: the next one costs a request."""
    with begun(BEFORE_KIP_890) as (broker, producer):
        before = epoch_in(broker)
        commit(producer, 1)
        commit(producer, 2)
        assert epoch_in(broker) == before


def test_an_old_broker_gives_no_epoch_and_all_goes_on() -> None:
    """KIP-360: before Kafka 2.5."""
    with begun(WITHOUT_EPOCHS_ON_DEMAND) as (broker, producer):
        broker.faults.lose_reply("EndTxn")
        with producer.transaction():
            producer.send("t", b"1")
        with producer.transaction():
            producer.send("t", b"2")
        (records,) = read_with_confluent(broker.bootstrap_servers, "t", committed=True).values()
        assert [record.value for record in records] == [b"1", b"2"]
