"""Clients that mean no good, against `fastprod broker`: the others are served all the time, memory
stays bounded, nothing is logged but that they were closed, and nothing remains of them.

Every test has a witness beside it, who sends a record every few milliseconds, and whose answer is
never late by more than the patience of a client. What was measured stands in
build/broker-hostile.md.
"""

from __future__ import annotations

import contextlib
import gzip
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard

from fastprod import KafkaProducer
from fastprod.broker.api_table import APIS, SERVICES
from fastprod.protocol.api_keys import API_VERSIONS
from fastprod.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from fastprod.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from fastprod.protocol.messages.init_producer_id import InitProducerIdRequest
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from fastprod.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from support.broker.hostile_stage import (
    MIB,
    Siege,
    Witness,
    answer,
    api_versions_listed,
    ask,
    decoded,
    framed,
    head,
    is_closed,
    one_record,
    produce,
    request,
)
from support.oracle.record_batch import assemble
from support.processes.scale import scaled, time_limit

pytestmark = time_limit(1_200.0)

POOL_BYTES = 512 * MIB
LIMIT_BYTES = 104_857_600
HELLO = framed(head(API_VERSIONS, 0))
BOMB_BYTES = 120_000_000
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def bomb(codec: str) -> bytes:
    """A batch of some kilobytes whose records take 120 MB, or say so."""
    packed = {
        "gzip": lambda: gzip.compress(bytes(BOMB_BYTES), 9),
        # A raw block cannot be much smaller than its content: this one lies.
        "snappy": lambda: b"\xff\xff\xff\xff\x07" + b"\xfe\x01\x00" * 30_000,
        "lz4": lambda: bytes(lz4.frame.compress(bytes(BOMB_BYTES))),
        "zstd": lambda: zstandard.compress(bytes(BOMB_BYTES), 1),
    }[codec]()
    return assemble(packed, attributes=CODECS[codec])


def fetch(topic: str, offset: int, *, max_wait_ms: int = 0, max_bytes: int = MIB) -> bytes:
    """A Fetch of partition 0, as a frame."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return request(
        "Fetch",
        12,
        FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics),
    )


def ask_once(siege: Siege) -> bytes:
    """ApiVersions, on a new connection."""
    return ask(siege.connect(), HELLO)


def read_to_the_end(client: socket.socket) -> int:
    """How many bytes come before the broker closes the connection."""
    client.shutdown(socket.SHUT_WR)
    count = 0
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65536):
            count += len(part)
    client.close()
    return count


@pytest.fixture
def siege(tmp_path: Path) -> Iterator[Siege]:
    with Siege(tmp_path) as opened:
        yield opened
        opened.grew_less_than(64 * MIB)


def test_senders_of_single_bytes_are_served_and_nobody_waits_for_them(siege: Siege) -> None:
    """B-A4.2."""
    clients = [siege.connect() for _ in range(50)]
    for at in range(len(HELLO)):
        for client in clients:
            client.sendall(HELLO[at : at + 1])
    for client in clients:
        assert answer(client)[4:6] == b"\0\0"
    siege.note("50 senders of single bytes", "all answered")


def test_large_frames_that_stop_in_the_middle_take_no_more_than_the_pool(tmp_path: Path) -> None:
    """B-A4.6: queued.max.request.bytes; 40 clients announce 100 MB each and send 40 of them."""
    with Siege(tmp_path, witness_bytes=300_000) as siege:
        clients = [siege.connect() for _ in range(40)]
        for client in clients:
            client.sendall(struct.pack(">i", LIMIT_BYTES))
        sent = siege.pump(clients, 40 * MIB, 20.0, POOL_BYTES)
        # Else nothing would have been proved.
        assert sent > POOL_BYTES
        siege.witness.await_more(3)
        # Its own records are kept: 300 kB each.
        kept = siege.witness.served_count * 300_000
        siege.grew_less_than(POOL_BYTES + kept + 100 * MIB)
        siege.note(
            "40 clients send 40 of 100 MB and stop", f"{sent / MIB:.0f} MiB taken, pool 512 MiB"
        )
        siege.release(clients)


def test_announced_megabytes_take_no_memory(siege: Siege) -> None:
    clients = [siege.connect() for _ in range(200)]
    for client in clients:
        client.sendall(struct.pack(">i", LIMIT_BYTES) + bytes(1000))
    siege.await_connections(200)
    siege.witness.await_more()
    siege.note("200 clients announce 100 MB and send 1 kB", "all stay")


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 2**31 - 1, LIMIT_BYTES + 1, 1, 7, 9])
def test_a_size_that_is_none_ends_its_connection_alone(siege: Siege, size: int) -> None:
    """B-A4.1, B-A3.7."""
    for _ in range(20):
        client = siege.connect()
        with contextlib.suppress(ConnectionError):
            client.sendall(struct.pack(">i", size) + bytes(min(max(size, 0), 64)))
        if size > 0 and size <= LIMIT_BYTES:
            client.shutdown(socket.SHUT_WR)
        assert is_closed(client)


def test_random_bytes_end_nothing_but_their_connections(siege: Siege) -> None:
    noise = random.Random(1)
    for number in range(scaled(6_000)):
        client = siege.connect()
        content = noise.randbytes(noise.randrange(1, 2000))
        with contextlib.suppress(ConnectionError):
            client.sendall(framed(content) if number % 2 else content)
        client.close()
    siege.note("random bytes", "served")


def test_garbage_behind_each_valid_header_ends_its_connection_or_is_answered(siege: Siege) -> None:
    """B-D5: nothing, noise, zeros, 0xff, and the counts that they mean."""
    noise = random.Random(2)
    for key, version in api_versions_listed():
        for body in (
            b"",
            bytes(40),
            b"\xff" * 40,
            b"\x7f" * 40,
            b"\xff\xff\xff\xff\x0f" * 8,
            *(noise.randbytes(noise.randrange(1, 300)) for _ in range(scaled(160))),
        ):
            client = siege.connect()
            client.sendall(framed(head(key, version) + body))
            read_to_the_end(client)
    siege.note("garbage behind valid headers", "served")


def _valid_requests() -> Iterator[tuple[int, int, bytes]]:
    for key, version in api_versions_listed():
        api = APIS[key]
        message = api.request.kind()
        yield key, version, request(api.name, version, message)


def test_a_message_may_be_cut_or_go_on_wherever_it_likes(siege: Siege) -> None:
    """B-D5: every prefix of a message, and more bytes than it has."""
    for _, _, valid in _valid_requests():
        content = valid[4:]
        for end in range(len(content)):
            client = siege.connect()
            client.sendall(framed(content[:end]))
            read_to_the_end(client)
        client = siege.connect()
        client.sendall(framed(content + b"trailing"))
        read_to_the_end(client)


@pytest.mark.parametrize(
    "name", ["Metadata", "Fetch", "CreateTopics", "Produce", "DescribeConfigs"]
)
def test_a_message_of_a_million_items_is_refused(siege: Siege, name: str) -> None:
    """Each would become an object, and the frame a hundredfold of itself."""
    api = next(each for each in APIS.values() if each.name == name)
    version = SERVICES[api.key].served.last
    before = {"Fetch": bytes(25), "Produce": b"\0" + bytes(6)}.get(name, b"")
    for size, count in ((3 * MIB, 400_000), (60 * MIB, 10_000_000)):
        body = bytearray(before)
        rest = count + 1
        while rest > 0x7F:
            body.append(rest & 0x7F | 0x80)
            rest >>= 7
        body.append(rest)
        client = siege.connect()
        # The body of a request that is not read leaves a reset behind.
        with contextlib.suppress(ConnectionError):
            client.sendall(framed(head(api.key, version) + body + b"\1" * size))
        assert is_closed(client)
    # The frames themselves were read: 60 MiB, and again as much while they were.
    siege.note(f"{name} with ten million items", "refused")
    siege.grew_less_than(160 * MIB)
    siege.mark_memory()


def test_a_request_without_records_is_no_larger_than_8_mib(siege: Siege) -> None:
    client = siege.connect()
    frame = framed(head(3, 9) + b"\2" + bytes(9 * MIB))
    with contextlib.suppress(ConnectionError):
        client.sendall(frame)
    assert is_closed(client)


def test_each_damage_to_a_batch_has_its_answer(siege: Siege) -> None:
    """B-D1: every byte of a batch turned over, and every length."""
    batch = one_record(b"some value")
    client = siege.connect()
    damaged = [batch[:at] + bytes([batch[at] ^ 0xFF]) + batch[at + 1 :] for at in range(len(batch))]
    damaged += [batch[:at] for at in range(len(batch))]
    damaged += [batch + b"\0", batch + batch]
    for each in damaged:
        response = decoded("Produce", 9, ask(client, produce(each)))
        code = response.responses[0].partition_responses[0].error_code
        # The base offset and the leader epoch are under no checksum.
        assert code != 0 or each[:16] != batch[:16]


@pytest.mark.parametrize(
    "codec",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in ("gzip", "snappy", "lz4")), "zstd"],
)
def test_a_bomb_is_refused_within_a_bound(tmp_path: Path, codec: str) -> None:
    """100 MiB is what the records of a batch may grow to (max.message.bytes has its own)."""
    frame = produce(bomb(codec))
    with Siege(tmp_path) as siege:
        clients = [siege.connect() for _ in range(20)]
        for client in clients:
            client.sendall(frame)
        codes = set()
        for client in clients:
            response = decoded("Produce", 9, answer(client))
            codes.add(response.responses[0].partition_responses[0].error_code)
        assert codes == ({2} if codec == "snappy" else {10})
        # One at a time, in the one network thread; the zstd window is at most 8 MB.
        siege.grew_less_than(160 * MIB)
        siege.note(f"20 {codec} bombs of {len(frame) / 1024:.0f} KiB", f"refused with {codes}")


def test_a_request_of_many_bombs_keeps_nobody_waiting_and_can_be_given_up(tmp_path: Path) -> None:
    """B-A2.9: nor does the end of the broker wait for it."""
    data = [PartitionProduceData(index=0, records=memoryview(bomb("gzip")))] * 300
    topics = [TopicProduceData(name="good", partition_data=data)]
    frame = request("Produce", 9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics))
    with Siege(tmp_path) as siege:
        clients = [siege.connect() for _ in range(3)]
        for client in clients:
            client.sendall(frame)
        siege.witness.await_more(50)
        # The frames themselves are 35 MB each, and one bomb is looked at at a time.
        siege.grew_less_than(300 * MIB)
        siege.note("3 requests of 300 gzip bombs", f"{len(frame) / MIB:.0f} MiB each")
        siege.is_left_busy = True


def test_a_million_small_requests_on_one_connection(siege: Siege) -> None:
    """B-A3.10: one after the other, and others in between."""
    count = scaled(1_000_000)
    client = siege.connect()
    client.setblocking(False)
    block = HELLO * 1000
    size = len(ask_once(siege))
    to_send, to_read, out = count * len(HELLO), count * (size + 4), memoryview(b"")
    began_s = time.monotonic()
    while to_read:
        if to_send and not out:
            out = memoryview(block)[: min(len(block), to_send)]
        with contextlib.suppress(BlockingIOError):
            sent = client.send(out) if out else 0
            out, to_send = out[sent:], to_send - sent
        with contextlib.suppress(BlockingIOError):
            part = client.recv(MIB)
            assert part, "closed"
            to_read -= len(part)
    rate = count / (time.monotonic() - began_s)
    siege.note("small requests, pipelined on one connection", f"{count:,}, {rate:,.0f} a second")


@pytest.mark.slow
def test_a_million_small_requests_on_many_connections(siege: Siege) -> None:
    count = scaled(1_000_000)
    clients = [siege.connect() for _ in range(100)]
    began_s = time.monotonic()
    size = len(ask_once(siege)) + 4
    for _ in range(count // 10_000):
        for client in clients:
            client.sendall(HELLO * 100)
        for client in clients:
            left = size * 100
            while left:
                left -= len(client.recv(left))
    rate = count / (time.monotonic() - began_s)
    siege.note("small requests on 100 connections", f"{count:,}, {rate:,.0f} a second")


def test_clients_that_never_read_keep_nothing_but_one_answer(tmp_path: Path) -> None:
    """B-A3.10, B-A4.3: the answer is slices of the log; the next request stays in the kernel."""
    with Siege(tmp_path) as siege:
        filler = siege.connect()
        for _ in range(40):
            assert ask(filler, produce(one_record(bytes(1_000_000))))
        siege.mark_memory()
        many = fetch("good", 0, max_bytes=50_000_000) * 20
        clients = [siege.connect(receive_buffer_bytes=4096) for _ in range(100)]
        for client in clients:
            client.setblocking(False)
        for _ in range(50):
            for client in clients:
                with contextlib.suppress(BlockingIOError):
                    client.send(many)
        siege.witness.await_more()
        siege.grew_less_than(64 * MIB)
        siege.note("100 clients fetch 40 MB over and over and read nothing", "all wait")


def test_answers_from_files_that_nobody_reads_have_a_bound(tmp_path: Path) -> None:
    """256 MiB of all clients together, but for one batch each; in memory they are no copies."""
    with Siege(tmp_path, "--data-dir", str(tmp_path / "data")) as siege:
        filler = siege.connect()
        for _ in range(40):
            assert ask(filler, produce(one_record(bytes(500_000))))
        siege.mark_memory()
        for _ in range(40):
            siege.connect(receive_buffer_bytes=4096).sendall(fetch("good", 0, max_bytes=50_000_000))
        siege.witness.await_more(20)
        siege.grew_less_than(360 * MIB)
        siege.note("40 clients fetch 20 MB from files and read nothing", "all wait")
        for client in siege.clients:
            client.close()
        siege.await_connections(0)
        # What they did not take is given back.
        (answered,) = decoded(
            "Fetch", 12, ask(siege.connect(), fetch("good", 0, max_bytes=50_000_000))
        ).responses
        assert len(answered.partitions[0].records) > 20_000_000


def test_a_half_closed_client_still_gets_its_answers(siege: Siege) -> None:
    """B-A4.5: every whole request is answered, the half one is not."""
    client = siege.connect()
    client.sendall(HELLO * 50 + HELLO[:9])
    assert read_to_the_end(client) == 50 * (len(ask_once(siege)) + 4)


def test_connections_come_and_go_in_a_storm(siege: Siege) -> None:
    for number in range(scaled(20_000)):
        client = siege.connect()
        if number % 3 == 0:
            client.sendall(HELLO)
        if number % 2:
            siege.reset(client)
        else:
            client.close()
    siege.await_connections(0)
    siege.note("connect and close", "all gone")


def test_without_descriptors_the_broker_waits_and_then_goes_on(tmp_path: Path) -> None:
    """B-A2.7: accept fails with EMFILE; who is in is served, and nothing spins."""
    with Siege(tmp_path, descriptor_limit=64) as siege:
        inside = siege.connect()
        assert ask(inside, HELLO)
        crowd = [siege.connect() for _ in range(80)]
        siege.until(lambda: any("takes nobody in" in line for line in siege.log_lines()), "EMFILE")
        siege.witness.close()
        before_s = siege.cpu_s()
        time.sleep(1.0)
        spent_s = siege.cpu_s() - before_s
        assert spent_s < 0.3, f"{spent_s} s of processor time in a second of nothing"
        assert ask(inside, HELLO)
        siege.release(crowd)
        assert ask(siege.connect(), HELLO)
        siege.witness = Witness(siege.port, one_record())
        siege.note("no descriptor left", f"{spent_s:.2f} s of processor time in a second")


def test_a_topic_that_was_asked_into_being_takes_little(tmp_path: Path) -> None:
    """B-D4.1: Kafka knows no bound, we know `max_partitions`; an idle partition is below 4 KiB."""
    count, block = scaled(20_000, at_least=2_000), 500
    with Siege(tmp_path) as siege:
        client = siege.connect()
        for start in range(0, count, block):
            names = [MetadataRequestTopic(name=f"t{start + n}") for n in range(block)]
            message = MetadataRequest(topics=names, allow_auto_topic_creation=True)
            found = decoded("Metadata", 9, ask(client, request("Metadata", 9, message)))
            assert {each.error_code for each in found.topics} == {0}
        each_bytes = siege.grown_bytes / count
        siege.grew_less_than(4096 * count)
        siege.note(f"{count:,} topics asked into being", f"{each_bytes:.0f} bytes each")


@pytest.mark.slow
def test_partitions_have_an_end(tmp_path: Path) -> None:
    """`max_partitions`: 200,000 of all topics."""
    with Siege(tmp_path) as siege:
        client = siege.connect()
        codes = []
        for name in ("a", "b", "c"):
            topic = CreatableTopic(name=name, num_partitions=90_000, replication_factor=1)
            frame = request("CreateTopics", 7, CreateTopicsRequest(topics=[topic]))
            codes.append(decoded("CreateTopics", 7, ask(client, frame)).topics[0].error_code)
        assert codes == [0, 0, 44]
        each_bytes = siege.grown_bytes / 180_000
        siege.grew_less_than(4096 * 180_000)
        siege.note("180,000 partitions in two topics", f"{each_bytes:.0f} bytes each")


def test_names_of_32_kb_are_refused_and_not_remembered(siege: Siege) -> None:
    long = "\x01" * 32_000
    client = siege.connect()
    message = MetadataRequest(topics=[MetadataRequestTopic(name=long)])
    topics = [CreatableTopic(name=long, num_partitions=1, replication_factor=1)] * 2
    many = request("CreateTopics", 7, CreateTopicsRequest(topics=topics))
    for _ in range(scaled(20_000)):
        frame = request("Metadata", 9, message, client_id=b"c" * 32_000)
        assert decoded("Metadata", 9, ask(client, frame)).topics[0].error_code == 17
        assert decoded("CreateTopics", 7, ask(client, many)).topics[0].error_code == 42
        assert ask(client, produce(one_record(), long))
    siege.note("names of 32 kB", "refused")


def test_a_flood_without_acknowledgements_harms_nobody(siege: Siege) -> None:
    """B-A6.3: no answer; on an error the connection ends."""
    good, bad = produce(one_record(), acks=0), produce(b"damaged", acks=0)
    clients = [siege.connect() for _ in range(10)]
    for number in range(scaled(4_000)):
        for client in clients:
            client.sendall(good * 10)
        if number % 100 == 99:
            # Else a slow machine has minutes of them before it when all have been sent.
            assert all(ask(client, HELLO) for client in clients)
    for client in clients:
        client.sendall(bad)
        assert is_closed(client)
    siege.note("acks=0 flood", "served")


def test_fetches_that_wait_for_weeks_are_forgotten_with_their_connections(siege: Siege) -> None:
    """B-D2.3, B-A3.13: parked by many, and then closed or reset."""
    for offset in range(3):
        clients = [siege.connect() for _ in range(scaled(4_000))]
        for client in clients:
            client.sendall(fetch("quiet", offset, max_wait_ms=2**31 - 1))
        for number, client in enumerate(clients):
            if number % 2:
                siege.reset(client)
            else:
                client.close()
        # A muted connection is not read: its end is seen when there is something to say.
        assert ask(siege.connect(), produce(one_record(), "quiet"))
        siege.until(lambda: siege.connection_count() <= 3, "the waiting ones gone")
    siege.note("fetches of 24 days, closed", "forgotten")


def test_producer_ids_for_everybody_take_nothing(siege: Siege) -> None:
    """B-E4: an id is a number; a partition remembers those that wrote to it."""
    frame = request("InitProducerId", 4, InitProducerIdRequest(transaction_timeout_ms=1000))
    client = siege.connect()
    size = len(ask(client, frame)) + 4
    for _ in range(scaled(2_000)):
        client.sendall(frame * 100)
        left = size * 100
        while left:
            left -= len(client.recv(left))
    siege.note("InitProducerId flood", "answered")


def test_our_own_producer_is_served_amid_all_of_it(siege: Siege) -> None:
    noise = random.Random(9)
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{siege.port}") as producer:
        for _ in range(scaled(4_000)):
            client = siege.connect()
            with contextlib.suppress(ConnectionError):
                client.sendall(noise.randbytes(200))
            producer.send("good", b"mine").result(30.0)
            client.close()
