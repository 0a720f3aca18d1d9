"""A loop of reading, working and writing, which may be killed at any time.

python tests/support/broker/transform_loop.py <client> <bootstrap servers> <count>

It copies `count` records from topic "source" to topic "target", in transactions of a few, with the
group's offsets. After each transaction it prints how many it has copied.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaException, Message, Producer

from fastprod import KafkaProducer

AT_ONCE = 20
WAIT_S = 30.0
GROUP, TRANSACTIONAL_ID = "loop", "loop-1"

Copy = Callable[[Consumer, Sequence[Message]], None]


def with_confluent(servers: str) -> Copy:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(WAIT_S)

    def copy(consumer: Consumer, messages: Sequence[Message]) -> None:
        producer.begin_transaction()
        for message in messages:
            producer.produce("target", message.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        producer.commit_transaction(WAIT_S)

    return copy


def with_fastprod(servers: str) -> Copy:
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=TRANSACTIONAL_ID)
    producer.init_transactions(WAIT_S)

    def copy(consumer: Consumer, messages: Sequence[Message]) -> None:
        with producer.transaction():
            for message in messages:
                producer.send("target", message.value())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
            )

    return copy


CLIENTS = {"confluent-kafka": with_confluent, "fastprod": with_fastprod}


def main(client: str, servers: str, count: int) -> None:
    # Before it reads: what its predecessor has left open is ended, and offsets are stable.
    copy = CLIENTS[client](servers)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # The next one takes the place of one that was killed, at once.
            "group.instance.id": "loop",
            "log_level": 0,
        }
    )
    consumer.subscribe(["source"])
    copied = 0
    while copied < count:
        messages = [each for each in consumer.consume(AT_ONCE, 0.2) if each.error() is None]
        if not messages:
            # Nothing more for a while: who came before may have copied them.
            with contextlib.suppress(KafkaException):
                places = consumer.committed(consumer.assignment(), WAIT_S)
                if places and sum(max(each.offset, 0) for each in places) >= count:
                    break
            continue
        copy(consumer, messages)
        copied += len(messages)
        print(copied, flush=True)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
