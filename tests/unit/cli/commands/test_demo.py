"""fastprod.cli.commands.demo: how it ends; the whole of it is in tests/interop/test_cli.py.

The reader here is the peer's own log, so that it can be made to lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fastprod.cli.commands import demo as demo_module
from fastprod.cli.records.read_back import ForeignReader, ReadRecord
from fastprod.protocol.api_keys import CREATE_TOPICS, DELETE_TOPICS, PRODUCE
from support.peer.fixtures import PeerFactory
from support.peer.journal import Request
from support.peer.scripted_peer import Peer
from unit.cli.conftest import Run

COUNT = 500
Lie = Callable[[list[ReadRecord]], None]


@pytest.fixture
def willing(new_peer: PeerFactory) -> Peer:
    """A peer that lets topics be created and deleted."""
    peer = new_peer(versions={CREATE_TOPICS: (2, 7), DELETE_TOPICS: (1, 6)})

    def create(request: Request) -> dict[str, object]:
        asked = request.message.topics[0]
        peer.add_topic(asked.name, asked.num_partitions)
        row = {"name": asked.name, "topic_id": bytes(16), "error_code": 0, "error_message": None}
        return {"throttle_time": 0, "topics": [row | {"configs": None}]}

    peer.on(CREATE_TOPICS).reply(create).always()
    deleted = [{"name": "whichever", "error_code": 0}]
    peer.on(DELETE_TOPICS).reply(lambda _: {"throttle_time": 0, "responses": deleted}).always()
    return peer


def read_from(monkeypatch: pytest.MonkeyPatch, peer: Peer, lie: Lie = lambda records: None) -> None:
    """Let the demo read the peer's log, after `lie` has had it."""

    def read(
        servers: str, topic: str, partition_count: int, timeout_s: float
    ) -> Iterator[list[ReadRecord]]:
        records = [
            (index, each.key, each.value)
            for index in range(partition_count)
            for each in peer.log(topic, index)
        ]
        lie(records)
        yield records

    monkeypatch.setattr(demo_module, "installed_reader", lambda: ForeignReader("a log", read))


def arguments(peer: Peer) -> list[str]:
    return ["demo", "--records", str(COUNT), "-b", peer.bootstrap_servers]


def test_records_that_come_back_as_sent_are_exit_code_0(
    run: Run, monkeypatch: pytest.MonkeyPatch, willing: Peer
) -> None:
    read_from(monkeypatch, willing)
    result = run(*arguments(willing), "--compression", "gzip")
    assert (result.exit_code, result.stderr) == (0, "")
    told = " ".join(result.stdout.split())
    assert "sent 500 records of 100 bytes, 1,000 keys, 4 partitions" in told
    assert "read back 500 records by a log in" in told
    assert "count, content and order of each key are the same" in told
    for part in ("throughput", "p99.9", "(one by one)", "CPU", "peak memory", "CRC-32C", "gzip:"):
        assert part in told
    assert len(willing.requests(DELETE_TOPICS)) == 1


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (lambda records: records.pop(), "499 of 500 records: 1 missing"),
        (lambda records: records.append(records[0]), "501 of 500 records: 1 more than once"),
        (lambda records: records.append((0, None, None)), "1 with other content"),
    ],
)
def test_any_difference_is_exit_code_1(
    run: Run, monkeypatch: pytest.MonkeyPatch, willing: Peer, lie: Lie, told: str
) -> None:
    read_from(monkeypatch, willing, lie)
    result = run(*arguments(willing))
    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert len(willing.requests(DELETE_TOPICS)) == 1


def test_records_that_are_not_delivered_are_exit_code_1_and_the_topic_goes(
    run: Run, monkeypatch: pytest.MonkeyPatch, willing: Peer
) -> None:
    read_from(monkeypatch, willing)
    willing.on(PRODUCE).error(29).always()
    result = run(*arguments(willing))
    assert result.exit_code == 1
    assert "450 of 450 records were not delivered; the first error:" in result.stderr
    assert len(willing.requests(DELETE_TOPICS)) == 1


def test_a_reader_that_gets_no_further_is_exit_code_1(
    run: Run, monkeypatch: pytest.MonkeyPatch, willing: Peer
) -> None:
    def stall(records: list[ReadRecord]) -> None:
        raise TimeoutError("nothing came for 30 s")

    read_from(monkeypatch, willing, stall)
    result = run(*arguments(willing))
    assert result.exit_code == 1
    assert "nothing came for 30 s; 0 of 500 records were read" in result.stderr


def test_a_cluster_where_no_topic_can_be_created_is_exit_code_3(run: Run, peer: Peer) -> None:
    result = run(*arguments(peer))
    assert result.exit_code == 3
    assert "cannot create the topic fastprod-demo-" in result.stderr
    assert "does not offer CreateTopics" in result.stderr


def test_an_unknown_host_and_a_refused_port_are_exit_code_3(run: Run, free_port: int) -> None:
    assert run("demo", "-b", "no.invalid:9092").exit_code == 3
    assert run("demo", "-b", f"127.0.0.1:{free_port}").exit_code == 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-b", "h:1", "--records", "0"], "0 is not in the range"),
        (["-b", "h:1", "--record-size", "11"], "11 is not in the range"),
        (["-b", "h:1", "--partitions", "0"], "0 is not in the range"),
        (["-b", "nowhere"], "must be host:port"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    run: Run, options: list[str], told: str
) -> None:
    result = run("demo", *options)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_reader_nothing_is_sent(
    run: Run, monkeypatch: pytest.MonkeyPatch, willing: Peer
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run(*arguments(willing))
    assert result.exit_code == 2
    assert "install confluent-kafka or kafka-python" in result.stderr
    assert willing.requests() == []
