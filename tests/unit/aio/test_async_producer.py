"""AsyncProducer against a scripted broker, in every loop (P-A.3 to P-A.7, P-A.9)."""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fastprod import ProducerRecord, RecordMetadata
from fastprod.aio import AsyncProducer, AsyncRecordFuture
from fastprod.errors import (
    BufferExhaustedError,
    ConfigError,
    FlushTimeoutError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    ProducerClosedError,
    SerializationError,
    UndeliveredError,
)
from fastprod.interceptors import ProducerInterceptor
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer, settle
from support.engine.quick_producer import WAIT_S
from support.engine.thread_refusal import no_thread
from support.peer.scripted_peer import Peer

RECORD_BYTES = 10_000


def let_go(peer: Peer) -> None:
    peer.clear_script()
    peer.release()


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, WAIT_S)


@EVERY_LOOP
def test_a_record_is_sent_and_awaited(peer: Peer, run: Run) -> None:
    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            found = await soon(
                producer.send("t", b"value", b"key", {"h": b"1"}, partition=2, timestamp_ms=77)
            )
            assert found == RecordMetadata("t", 2, 0, 77, 3, 5)
            assert (await soon(producer.send(ProducerRecord("t", b"v", partition=2)))).offset == 1
            (batch, _) = peer.batches("t", 2)
            (record,) = batch.records
            assert (record.key, record.value, record.headers) == (b"key", b"value", (("h", b"1"),))
        assert producer.closed

    run(main())


def test_it_is_ready_without_a_loop_and_a_start(peer: Peer) -> None:
    producer = quick_async_producer(peer)
    assert "open" in repr(producer)

    async def main() -> None:
        await producer.start()
        assert (await soon(producer.send("t", b"x"))).topic == "t"

    asyncio.run(main())
    asyncio.run(main())  # it belongs to no loop
    asyncio.run(producer.stop())
    assert producer.closed


def test_a_name_that_is_more_than_text_is_its_text(peer: Peer) -> None:
    class Topics(str, enum.Enum):  # noqa: UP042
        FIRST = "t"

    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            await soon(producer.warmup("t", timeout=math.inf))
            record = ProducerRecord(Topics.FIRST, b"v")
            for found in (
                await soon(producer.send(Topics.FIRST, b"v")),
                await soon(producer.send(record)),
                await soon(producer.send_nowait(Topics.FIRST, b"v")),
                await soon(producer.send_many(Topics.FIRST, [b"v"])),
            ):
                assert (type(found.topic), found.topic) == (str, "t")

    asyncio.run(main())


def test_a_timeout_may_be_any_number_and_nothing_else(peer: Peer) -> None:
    wrong: Any = timedelta(seconds=20)
    exact: Any = Decimal(20)

    async def main() -> None:
        producer = quick_async_producer(peer)
        for call in (producer.flush, producer.close):
            with pytest.raises(TypeError, match="timeout must be a number of seconds"):
                await soon(call(wrong))
        await soon(producer.warmup("t", timeout=exact))
        future = producer.send_nowait("t", b"x")
        await soon(producer.flush(exact))
        await soon(producer.close(exact))
        assert (await soon(future)).topic == "t"

    asyncio.run(main())


def test_settings_are_those_of_the_other_producer() -> None:
    with pytest.raises(ConfigError, match="lingr_ms"):
        AsyncProducer(bootstrap_servers="localhost:1", lingr_ms=1)


@EVERY_LOOP
def test_many_tasks_send_and_each_has_its_own_offset(peer: Peer, run: Run) -> None:
    async def main() -> None:
        async with quick_async_producer(peer) as producer:

            async def send_some(partition: int) -> list[int]:
                return [
                    (await producer.send("t", b"x", partition=partition)).offset for _ in range(5)
                ]

            found = await soon(asyncio.gather(*(send_some(n % 3) for n in range(90))))
            for partition in range(3):
                offsets = sorted(n for each in found[partition::3] for n in each)
                assert offsets == list(range(150))
            assert all(each == sorted(each) for each in found)

    run(main())


@EVERY_LOOP
def test_send_nowait_returns_a_future(peer: Peer, run: Run) -> None:
    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            refused = producer.send_nowait("t", b"x")
            assert isinstance(refused, AsyncRecordFuture)
            with pytest.raises(MetadataTimeoutError):
                await refused
            await soon(producer.warmup("t"))
            futures = [producer.send_nowait("t", b"x", partition=0) for _ in range(20)]
            await soon(producer.flush())
            assert [future.done() for future in futures] == [True] * 20
            assert [each.offset for each in await soon(asyncio.gather(*futures))] == [*range(20)]
            with pytest.raises(TypeError):
                producer.send_nowait("t", "no bytes")

    run(main())


@EVERY_LOOP
def test_the_metadata_of_a_new_topic_is_awaited_without_holding_up_the_loop(
    peer: Peer, run: Run
) -> None:
    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            peer.on(METADATA).hold().always()
            sends = asyncio.gather(*(producer.send("t", b"x") for _ in range(20)))
            await settle(20)
            assert not sends.done()
            let_go(peer)
            await soon(sends)
            assert len(await soon(producer.partitions_for("t"))) == 3

    run(main())


def test_a_topic_that_does_not_come_is_told_in_time(peer: Peer) -> None:
    """P-A.4.5: the same error as `send`'s future has."""

    async def main() -> None:
        async with quick_async_producer(peer, max_block_ms=200) as producer:
            for call in (producer.send("nope"), producer.partitions_for("nope")):
                with pytest.raises(MetadataTimeoutError, match="not present in metadata after"):
                    await soon(call)
            await soon(producer.warmup("t", timeout=WAIT_S))
            with pytest.raises(MetadataTimeoutError, match="partition count 3"):
                await soon(producer.send("t", partition=3))
            with pytest.raises(InvalidTopicError):
                await soon(producer.send("t" * 250))
            with pytest.raises(KafkaError):
                await soon(producer.warmup("nope", timeout=0.05))

    asyncio.run(main())


def test_warmup_says_what_did_not_come() -> None:
    async def main() -> None:
        async with quick_async_producer("127.0.0.1:1") as producer:
            with pytest.raises(KafkaTimeoutError, match="producer id"):
                await soon(producer.warmup(timeout=0.05))

    asyncio.run(main())


async def fill(producer: AsyncProducer) -> list[AsyncRecordFuture]:
    await soon(producer.warmup("t", timeout=WAIT_S))
    futures = []
    while not (future := producer.send_nowait("t", bytes(RECORD_BYTES), partition=0)).done():
        futures.append(future)
    assert isinstance(future.exception(), BufferExhaustedError)
    return futures


@EVERY_LOOP
def test_memory_is_awaited_without_holding_up_the_loop(peer: Peer, run: Run) -> None:
    """P-D.3.3: in line, each once."""

    async def main() -> None:
        async with quick_async_producer(
            peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0
        ) as producer:
            peer.on(PRODUCE).hold().always()
            futures = await fill(producer)
            tasks = [
                asyncio.create_task(producer.send("t", b"%04d" % n + bytes(RECORD_BYTES), None))
                for n in range(30)
            ]
            await settle(20)
            counters = producer._producer._engine.counters
            assert counters()["waiting_threads"] == 30
            assert not any(task.done() for task in tasks)
            let_go(peer)
            await soon(asyncio.gather(*futures, *tasks))
            assert counters()["waiting_threads"] == 0
        values = [value or b"" for n in range(3) for value in peer.values("t", n)]
        assert sorted(int(value[:4]) for value in values if value[:4].isdigit()) == [*range(30)]

    run(main())


def test_memory_that_does_not_come_is_told_in_time(peer: Peer) -> None:
    """P-A.3.9, P-D.3.4"""

    async def main() -> None:
        async with quick_async_producer(
            peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0, max_block_ms=150
        ) as producer:
            peer.on(PRODUCE).hold().always()
            await fill(producer)
            with pytest.raises(BufferExhaustedError) as caught:
                await soon(producer.send("t", bytes(RECORD_BYTES), partition=0))
            assert caught.value.waited_ms == 150
            counters = producer._producer._engine.counters()
            assert counters["waiting_threads"] == 0
            let_go(peer)

    asyncio.run(main())


@EVERY_LOOP
def test_a_task_that_is_cancelled_leaves_the_line(peer: Peer, run: Run) -> None:
    async def main() -> None:
        async with quick_async_producer(
            peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0
        ) as producer:
            peer.on(PRODUCE).hold().always()
            await fill(producer)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send("t", bytes(RECORD_BYTES)), 0.02)
            assert producer._producer._engine.counters()["waiting_threads"] == 0
            let_go(peer)
            assert (await soon(producer.send("t", bytes(RECORD_BYTES), partition=1))).offset == 0

    run(main())


@EVERY_LOOP
def test_a_cancelled_task_takes_back_what_has_not_left(peer: Peer, run: Run) -> None:
    """And only its own record; awaiting does not cut the linger short."""

    async def main() -> None:
        async with quick_async_producer(peer, linger_ms=60_000) as producer:
            await soon(producer.warmup("t"))
            tasks = [
                asyncio.create_task(producer.send("t", b"%d" % n, partition=0)) for n in range(9)
            ]
            await settle()
            for task in tasks[::2]:
                task.cancel()
            late = producer.send_nowait("t", b"late", partition=0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(late, 0.01)
            assert late.record.cancelled()
            await soon(producer.flush())
            assert [(await each).offset for each in tasks[1::2]] == [0, 1, 2, 3]
            assert all(each.cancelled() for each in tasks[::2])
        assert peer.values("t", 0) == [b"1", b"3", b"5", b"7"]

    run(main())


def test_flush_has_a_bound_and_says_how_many_are_left(peer: Peer) -> None:
    """P-A.7"""

    async def main() -> None:
        async with quick_async_producer(peer, linger_ms=60_000) as producer:
            await soon(producer.warmup("t"))
            peer.on(PRODUCE).hold().always()
            for _ in range(7):
                producer.send_nowait("t", b"x", partition=0)
            with pytest.raises(FlushTimeoutError) as caught:
                await producer.flush(0.05)
            assert caught.value.undelivered_count == 7
            let_go(peer)
            await soon(producer.flush())
            with pytest.raises(ValueError, match="timeout"):
                await producer.flush(-1)

    asyncio.run(main())


@EVERY_LOOP
def test_close_sends_what_is_queued_while_the_loop_goes_on(peer: Peer, run: Run) -> None:
    async def main() -> None:
        producer = quick_async_producer(peer, linger_ms=60_000)
        await soon(producer.warmup("t"))
        peer.on(PRODUCE).hold()
        sent = asyncio.create_task(producer.send("t", b"x"))
        await settle()
        closes = [asyncio.create_task(producer.close()) for _ in range(3)]
        await settle(20)
        assert not sent.done()
        assert not any(task.done() for task in closes)
        let_go(peer)
        await soon(asyncio.gather(sent, *closes))
        await producer.close()
        with pytest.raises(ProducerClosedError):
            await producer.send("t", b"x")
        assert producer.metrics()["producer-metrics"]["record-send-total"] == 1

    run(main())


@EVERY_LOOP
def test_a_second_close_waits_no_longer_than_its_own_time(peer: Peer, run: Run) -> None:
    async def main() -> None:
        producer = quick_async_producer(peer)
        await soon(producer.warmup("t"))
        peer.on(PRODUCE).hold()
        future = producer.send_nowait("t", b"x")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(producer.close(), 0.05)
        await soon(producer.close(0))
        await soon(producer.close(0.05))
        assert not future.done()
        let_go(peer)
        await soon(asyncio.gather(future, producer.close()))

    run(main())


def test_close_gives_up_in_time_and_says_how_many(peer: Peer) -> None:
    async def main() -> None:
        producer = quick_async_producer(peer)
        await soon(producer.warmup("t"))
        peer.on(PRODUCE).hold().always()
        future = producer.send_nowait("t", b"x")
        with pytest.raises(UndeliveredError) as caught:
            await producer.close(0.05)
        assert caught.value.undelivered_count == 1
        with pytest.raises(KafkaError):
            await soon(future)
        let_go(peer)

    asyncio.run(main())


def test_close_without_a_thread_closes_nothing_and_the_next_one_does(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        producer = quick_async_producer(peer)
        with no_thread(monkeypatch, "close"), pytest.raises(RuntimeError):
            await producer.close()
        assert not producer.closed
        await soon(producer.send("t", b"x", partition=0))
        await soon(producer.close())
        assert producer.closed

    asyncio.run(main())
    assert peer.values("t", 0) == [b"x"]


def test_who_awaits_metadata_hears_of_the_end(peer: Peer) -> None:
    async def main() -> None:
        producer = quick_async_producer(peer)
        peer.on(METADATA).hold().always()
        send = asyncio.create_task(producer.send("t", b"x"))
        await settle(20)
        await soon(producer.close())
        with pytest.raises(ProducerClosedError):
            await soon(send)
        let_go(peer)

    asyncio.run(main())


class Seen(ProducerInterceptor):
    calls: list[tuple[str, Any]]

    def configure(self, config: Mapping[str, Any]) -> None:
        Seen.calls = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        Seen.calls.append(("send", record.value))
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, exception: BaseException | None
    ) -> None:
        Seen.calls.append(("done", type(exception)))


@EVERY_LOOP
def test_plug_ins_see_each_record_once(peer: Peer, run: Run) -> None:
    """P-A.3.16; also a record that waits for metadata, and one that waits for memory."""

    async def main() -> None:
        async with quick_async_producer(
            peer,
            interceptor_classes=[Seen],
            value_serializer=str.encode,
            buffer_memory=200_000,
            batch_size=16_384,
            linger_ms=0,
        ) as producer:
            await soon(producer.send("t", "first", partition=0))
            assert Seen.calls == [("send", "first"), ("done", type(None))]
            peer.on(PRODUCE).hold().always()
            text = "x" * RECORD_BYTES
            sends = [asyncio.create_task(producer.send("t", text)) for _ in range(40)]
            await settle(20)
            assert producer._producer._engine.counters()["waiting_threads"] > 0
            let_go(peer)
            await soon(asyncio.gather(*sends))
            Seen.calls.clear()
            with pytest.raises(SerializationError):
                await soon(producer.send("t", b"no text"))
            assert Seen.calls == [("send", b"no text"), ("done", SerializationError)]

    run(main())


def test_credentials_are_handed_on() -> None:
    async def main() -> None:
        async with quick_async_producer(
            "127.0.0.1:1",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="ada",
            sasl_password="old",
        ) as producer:
            await producer.set_sasl_credentials("ada", "new")
            with pytest.raises(ConfigError, match="sasl_password"):
                await producer.set_sasl_credentials("ada", "")

    asyncio.run(main())
