"""Groups of confluent-kafka's whose members come and go while records come (B-E2, B-E3)."""

from __future__ import annotations

import threading
import time

import pytest

from fastprod import KafkaProducer
from fastprod.broker import Broker
from support.clients.client_table import ClientRow
from support.groups.group_members import AssignedConfluentMember, ConfluentMember, Ledger, churn
from support.processes.scale import scaled

PARTITIONS = 6
COUNT = scaled(30_000, default_percent=10)
PARTS = 10
MEMBERS = 3
# Each of the members leaves three times or more.
TURN = COUNT // 12
TIMEOUT_S = 60.0


def send_all(servers: str, ledger: Ledger, stopped: threading.Event) -> None:
    """A part more whenever the group is less than a part behind: it always has something to do."""
    with KafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in range(COUNT):
            producer.send("t", b"%d" % number, partition=number % PARTITIONS)
            if number % (COUNT // PARTS):
                continue
            producer.flush(TIMEOUT_S)
            while sum(ledger.positions.values()) < number - COUNT // PARTS:
                if stopped.is_set():
                    return
                time.sleep(0.01)


@pytest.mark.parametrize(
    ("protocol", "member"), [("classic", ConfluentMember), ("consumer", AssignedConfluentMember)]
)
def test_each_record_is_read_once_while_records_and_members_come_and_go(
    protocol: str, member: type[ConfluentMember], client_row: ClientRow
) -> None:
    """B-E2, B-E3, B-B2.1: what was committed is not read again, nothing is left out."""
    ledger = Ledger({each: len(range(each, COUNT, PARTITIONS)) for each in range(PARTITIONS)})
    with Broker(topics={"t": PARTITIONS}, group_consumer_heartbeat_interval_ms=100) as broker:
        servers, stopped = broker.bootstrap_servers, threading.Event()
        sender = threading.Thread(target=send_all, args=(servers, ledger, stopped))
        sender.start()
        try:
            counts = churn(lambda number: member(servers, "t", "g"), ledger, MEMBERS, TURN)
        finally:
            stopped.set()
            sender.join(TIMEOUT_S)
    assert ledger.faults == []
    assert sorted(map(int, ledger.values)) == list(range(COUNT))
    assert len(counts) > 2 * MEMBERS
    client_row(
        "confluent-kafka",
        f"a group by the {protocol} protocol reads {COUNT:,} records while they come and its "
        "members leave and come again: each committed once",
    )
