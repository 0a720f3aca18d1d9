"""Many handlers, several network threads, leaders that move: no record and no wake-up is lost."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fastprod._core.records.record_reader import read_batches
from fastprod.broker import Broker
from fastprod.broker.config import INT32_MAX
from support.broker.hostile_stage import PATIENCE_S, ask, decoded, request
from support.broker.world import batch_of, fetch_request, produce_request

NODES = 2
PARTITIONS = 3
NOT_LEADER = 6
UNKNOWN_TOPIC = 3
# Who is not woken up is not answered: the socket's patience ends long before.
FOREVER_MS = INT32_MAX
END = b"end"


class Client:
    """A connection to each node, for one thread."""

    def __init__(self, broker: Broker) -> None:
        self._sockets = [
            socket.create_connection((node.host, node.port), PATIENCE_S) for node in broker.nodes
        ]
        self.node = 0

    def ask(self, name: str, version: int, message: Any) -> Any:
        """Ask the node that led last, and the next one if it leads no longer."""
        while True:
            content = ask(self._sockets[self.node], request(name, version, message))
            told = decoded(name, version, content).responses[0]
            (answer,) = told.partition_responses if name == "Produce" else told.partitions
            if answer.error_code != NOT_LEADER:
                return answer
            self.node = (self.node + 1) % len(self._sockets)

    def close(self) -> None:
        for each in self._sockets:
            each.close()


class Crowd:
    """Threads of clients; the first failure of any of them is the test's."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        """Call `work` with a client and the arguments in a thread of its own."""

        def run() -> None:
            client = Client(self.broker)
            try:
                work(client, *arguments)
            except BaseException as error:
                self.failures.append(error)
            finally:
                client.close()

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        for each in self._threads:
            each.join()
        if self.failures:
            raise self.failures[0]

    def produce(self, client: Client, seed: int, count: int) -> None:
        chosen = random.Random(seed)
        for number in range(count):
            partition = chosen.randrange(PARTITIONS)
            values = [f"{seed}-{number}-{at}".encode() for at in range(chosen.randrange(1, 4))]
            message = produce_request([("t", partition, batch_of(*values))])
            told = client.ask("Produce", 9, message)
            assert told.error_code == 0
            for at, value in enumerate(values):
                place = (partition, told.base_offset + at)
                assert self.acknowledged.setdefault(place, value) == value

    def consume(self, client: Client, partition: int) -> None:
        """Wait for each record without a bound of time; whoever forgets to tell ends this."""
        offset = 0
        last = b""
        while last != END:
            wanted = [("t", partition, offset)]
            told = client.ask("Fetch", 12, fetch_request(wanted, max_wait_ms=FOREVER_MS))
            assert told.error_code == 0
            assert told.records, "answered without a record, long before its time"
            for batch in read_batches(told.records):
                for record in batch.records():
                    if record.offset >= offset:
                        assert record.offset == offset
                        offset, last = offset + 1, record.value or b""

    def wait_for_the_end(self, client: Client, topic: str) -> None:
        """Wait for a record that never comes, until the topic is deleted."""
        told = client.ask("Fetch", 12, fetch_request([(topic, 0, 0)], max_wait_ms=FOREVER_MS))
        assert told.error_code == UNKNOWN_TOPIC


def disturb(broker: Broker, crowd: Crowd, turns: int, seed: int) -> None:
    """Move leaders, and make and delete topics that somebody waits for."""
    chosen = random.Random(seed)
    for turn in range(turns):
        broker.create_topic(f"d{turn}")
        waiter = crowd.start(crowd.wait_for_the_end, f"d{turn}")
        broker.move_leader("t", chosen.randrange(PARTITIONS), chosen.randrange(NODES))
        broker.delete_topic(f"d{turn}")
        waiter.join()


@pytest.mark.parametrize(("io_threads", "network_threads"), [(8, 2), (0, 2), (0, 1)])
def test_no_record_and_no_wake_up_is_lost(io_threads: int, network_threads: int) -> None:
    """B-A5.6, B-C4.1, B-D2.3, B-D4.3: a fetch ends with a record, a move or a deletion, never too
    late.
    """
    with Broker(
        brokers=NODES,
        topics={"t": PARTITIONS},
        num_io_threads=io_threads,
        num_network_threads=network_threads,
    ) as broker:
        crowd = Crowd(broker)
        for partition in [*range(PARTITIONS)] * 2:
            crowd.start(crowd.consume, partition)
        producers = [crowd.start(crowd.produce, seed, 150) for seed in range(4)]
        disturb(broker, crowd, 25, seed=1)
        for each in producers:
            each.join()
        last = Client(broker)
        for partition in range(PARTITIONS):
            last.ask("Produce", 9, produce_request([("t", partition, batch_of(END))]))
        last.close()
        crowd.join()
        stored = {(each.partition, each.offset): each.value for each in broker.records("t")}
        assert crowd.acknowledged.items() <= stored.items()
        assert len(stored) == len(crowd.acknowledged) + PARTITIONS
