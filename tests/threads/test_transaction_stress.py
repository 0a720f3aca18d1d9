"""Many transactional producers at once, while their coordinators and leaders move (B-E1, B-E4)."""

from __future__ import annotations

import random
import threading
import time

from fastprod import KafkaProducer
from fastprod.broker import Broker
from support.processes.scale import scaled
from support.records.readers import read_with_confluent

PRODUCERS = 3
NODES = 3
PARTITIONS = 4
PER_TRANSACTION = 8
WAIT_S = 30.0


class Worker(threading.Thread):
    """Sends transactions, one after the other, of which some are aborted."""

    def __init__(self, servers: str, number: int, count: int) -> None:
        super().__init__()
        self._servers = servers
        self._number = number
        self._count = count
        self.committed: list[bytes] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error

    def _run(self) -> None:
        chosen = random.Random(self._number)
        with KafkaProducer(
            bootstrap_servers=self._servers, transactional_id=f"id {self._number}", linger_ms=0
        ) as producer:
            producer.init_transactions(WAIT_S)
            for turn in range(self._count):
                values = [b"%d-%d-%d" % (self._number, turn, n) for n in range(PER_TRANSACTION)]
                producer.begin_transaction()
                for n, value in enumerate(values):
                    producer.send("t", value, partition=n % PARTITIONS)
                if chosen.random() < 0.3:
                    producer.abort_transaction(WAIT_S)
                else:
                    producer.commit_transaction(WAIT_S)
                    self.committed += values


def test_each_transaction_is_there_once_and_whole() -> None:
    """B-E4, B-C7.3: what was committed is read, nothing else, and nothing stays open."""
    chosen = random.Random(1)
    with Broker(brokers=NODES, topics={"t": PARTITIONS}) as broker:
        servers = broker.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers, transactional_id="first") as producer:
            producer.init_transactions(WAIT_S)
        workers = [Worker(servers, each, scaled(150, at_least=30)) for each in range(PRODUCERS)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            broker.move_leader("__transaction_state", chosen.randrange(50), chosen.randrange(NODES))
            broker.move_leader("t", chosen.randrange(PARTITIONS), chosen.randrange(NODES))
            time.sleep(0.005)
        for worker in workers:
            worker.join()
        assert [worker.error for worker in workers] == [None] * PRODUCERS
        found = read_with_confluent(servers, "t", committed=True)
        values = [each.value for records in found.values() for each in records]
        assert sorted(map(bytes, values)) == sorted(  # type: ignore[arg-type]
            value for worker in workers for value in worker.committed
        )
        for index in range(PARTITIONS):
            log = broker._partition("t", index).log
            assert log.last_stable_offset == log.log_end_offset
