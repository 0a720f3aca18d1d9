"""Leaders of partitions with three replicas are killed while two idempotent producers send.

What was acknowledged with acks=all is there once, where it was said to be. With acks=1 records are
lost: the count would notice it.

The whole has 100 kills.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import confluent_kafka
import pytest

from fastprod import KafkaProducer
from fastprod.broker import Broker
from support.broker.world import wait_for
from support.processes.scale import scaled

KILLS = scaled(100)
PARTITIONS = 3
PAUSE_S = 0.002

Acknowledged = dict[bytes, tuple[int, int]]
"""Values, and the partitions and offsets that producers were told."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(
        brokers=3,
        topics={"t": PARTITIONS},
        default_replication_factor=3,
        min_insync_replicas=2,
        request_log_size=0,
    ) as opened:
        yield opened


def send_ours(
    broker: Broker, ended: threading.Event, sent: dict[bytes, Any], found: Acknowledged
) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=1) as producer:
        while not ended.is_set():
            value = b"ours %d" % len(sent)
            sent[value] = producer.send("t", value, partition=len(sent) % PARTITIONS)
            time.sleep(PAUSE_S)
        for value, future in sent.items():
            told = future.result(60)
            found[value] = (told.partition, told.offset)


def send_theirs(
    broker: Broker, ended: threading.Event, found: Acknowledged, **settings: Any
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, **settings}
    )

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            found[message.value()] = (message.partition(), message.offset())

    number = 0
    while not ended.is_set():
        producer.produce(
            "t", b"theirs %d" % number, partition=number % PARTITIONS, on_delivery=delivered
        )
        producer.poll(0)
        number += 1
        time.sleep(PAUSE_S)
    assert producer.flush(60) == 0


class HighWatermarks:
    """What consumers are told is the end; it never falls."""

    def __init__(self, broker: Broker) -> None:
        self._partitions = [broker._partition("t", each) for each in range(PARTITIONS)]
        self.seen = [0] * PARTITIONS

    def look(self) -> None:
        for each in self._partitions:
            with each.lock:
                leader = each.leader
                if leader < 0 or not each.leads(leader) or not each.is_settled_at(leader):
                    continue
                now = each.log_at(leader).high_watermark
            assert now >= self.seen[each.index]
            self.seen[each.index] = now


def kill_leaders(broker: Broker, count: int, have_sent: Callable[[int], bool]) -> None:
    """Kill a leader, `count` times; the next goes as soon as the last is in sync.

    Args:
        broker: of the partitions.
        count: of kills.
        have_sent: whether the producers have done enough for so many kills.
    """
    chosen = random.Random(11)
    ends = HighWatermarks(broker)
    for number in range(1, count + 1):
        partition = chosen.randrange(PARTITIONS)
        leader = broker.leader("t", partition)
        broker.nodes[leader].kill()
        assert broker.leader("t", partition) not in (leader, -1)
        deadline = time.monotonic() + chosen.uniform(0.02, 0.1)
        while time.monotonic() < deadline:
            ends.look()
            time.sleep(0.001)
        broker.nodes[leader].up()
        wait_for(lambda: all(len(broker._partition("t", n).isr) == 3 for n in range(PARTITIONS)))
        ends.look()
        wait_for(partial(have_sent, number))


def run(kills: Callable[[], None], *senders: Callable[[threading.Event], None]) -> None:
    """Have the senders send while leaders are killed."""
    ended = threading.Event()
    errors: list[BaseException] = []

    def guarded(send: Callable[[threading.Event], None]) -> None:
        try:
            send(ended)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in senders]
    for each in threads:
        each.start()
    try:
        time.sleep(0.1)
        kills()
    finally:
        ended.set()
        for each in threads:
            each.join(120)
    assert not errors
    assert not any(each.is_alive() for each in threads)


def stored(broker: Broker) -> tuple[dict[tuple[int, int], bytes | None], Counter[bytes | None]]:
    """Values by place, and how often each is there."""
    records = broker.records("t")
    places = {(each.partition, each.offset): each.value for each in records}
    return places, Counter(each.value for each in records)


def test_nothing_that_all_replicas_acknowledged_is_lost_or_twice(broker: Broker) -> None:
    """B-B2, B-C6.2: kill after kill."""
    sent: dict[bytes, Any] = {}
    ours: Acknowledged = {}
    theirs: Acknowledged = {}

    def have_sent(kills: int) -> bool:
        return len(sent) > 20 * kills and len(theirs) > 5 * kills

    run(
        lambda: kill_leaders(broker, KILLS, have_sent),
        lambda ended: send_ours(broker, ended, sent, ours),
        lambda ended: send_theirs(broker, ended, theirs, **{"enable.idempotence": True}),
    )
    places, counts = stored(broker)
    assert len(ours) > 20 * KILLS
    assert len(theirs) > 5 * KILLS
    told = {**ours, **theirs}
    assert {place: places.get(place) for place in told.values()} == {
        place: value for value, place in told.items()
    }
    assert [value for value, count in counts.items() if count > 1] == []
    print(f"{KILLS} kills, {len(ours)} + {len(theirs)} acknowledged, none lost, none twice")


def test_what_only_the_leader_acknowledged_is_lost_and_counted(broker: Broker) -> None:
    """B-B2: the count above can fail."""
    found: Acknowledged = {}

    def kill_once() -> None:
        wait_for(lambda: len(found) > PARTITIONS)
        leader = broker.leader("t", 0)
        for node in broker.nodes:
            if node.id != leader:
                broker.faults.stop_fetching(node.id)
        # An end that moves on although no follower fetches: these are acknowledged, and lost.
        end = broker.end_offset("t", 0)
        wait_for(lambda: any(place[0] == 0 and place[1] > end for place in list(found.values())))
        broker.nodes[leader].kill()
        broker.faults.reset()
        broker.nodes[leader].up()

    run(kill_once, lambda ended: send_theirs(broker, ended, found, acks=1))
    _, counts = stored(broker)
    lost = [value for value in found if counts[value] == 0]
    assert 1 <= len(lost) < len(found)
    print(f"acks=1: {len(lost)} of {len(found)} acknowledged are lost")
