"""AsyncProducer: KafkaProducer for event loops."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from fastprod._core.delivery.async_record_future import (
    AsyncRecordFuture,
    await_future,
    need_loop,
)
from fastprod._core.delivery.future import RecordFuture
from fastprod._core.producer.bulk_future import BulkFuture
from fastprod._core.producer.flush_turn import FlushTurn
from fastprod._core.producer.memory_turn import MemoryTurn
from fastprod.aio.async_transactions import AsyncTransactions
from fastprod.aio.bulk_thread import BulkThread
from fastprod.aio.deadline import within
from fastprod.aio.patience import Patience
from fastprod.aio.thread_signal import ThreadSignal
from fastprod.aio.topic_lines import TopicLines
from fastprod.client.purges import LOOK_AGAIN_S
from fastprod.client.warm_up import SLICE_S, WarmUp
from fastprod.config import ProducerConfig
from fastprod.deadline import checked_timeout, record_deadline_ns
from fastprod.errors import (
    ApiError,
    BulkError,
    FlushTimeoutError,
    IllegalStateError,
    KafkaError,
    ProducerClosedError,
)
from fastprod.plugins.plugged_send import PluggedSend, RecordFields, as_record, record_fields
from fastprod.producer import KafkaProducer
from fastprod.records import BulkMetadata, PartitionInfo, RecordMetadata
from fastprod.security.secret import plain_text
from fastprod.topic_name import check_topic_name


class AsyncProducer(AsyncTransactions):
    """Sends records to Kafka from an event loop: of asyncio, of uvloop, or any that has add_reader.

    It is ready at once, and needs no loop to be made. Its waits are the loop's own: no thread is
    started for a call, and a loop has one descriptor for all producers. Records that are complete
    wake their tasks natively, many with one wake-up.

    Args:
        settings: a mapping of settings by Kafka's names, with dots or underscores.
        config: settings by names with underscores, as for `KafkaProducer`.

    Raises:
        ConfigError: a setting is wrong, or no bootstrap server resolves.
        KafkaError: something else went wrong.

    Blocks: for DNS of the bootstrap servers only; connecting happens in the background, and so does
    what `warmup_topics` asks for.
    Threads: any number of loops, in any threads, may use one producer; what is awaited belongs to
    the loop in which it was asked for. After `os.fork` as `KafkaProducer`.
    Source: KafkaProducer, with asyncio's manners.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **config: Any) -> None:
        try:
            self._producer = KafkaProducer(settings, **config)
        finally:
            del settings, config  # a report of a failure may show local variables
        self._begin_send = self._producer._begin_send
        self._bulk_thread = BulkThread(self.config.client_id)
        self._producer._go_on = self._bulk_thread.go_on
        self._topic_lines = TopicLines()
        self._lines = self._topic_lines.lines
        self._ending: concurrent.futures.Future[None] | None = None
        self._ending_pid = 0
        self._signals: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadSignal] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def config(self) -> ProducerConfig:
        """The settings in force, with the generated client_id.  Never blocks."""
        return self._producer.config

    @property
    def closed(self) -> bool:
        """Whether the producer takes no records, as `KafkaProducer.closed`.  Never blocks."""
        return self._producer.closed

    async def send(
        self,
        topic: Any,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        deadline: float | None = None,
    ) -> RecordMetadata:
        """Queue one record, and wait until it is delivered.

        Args:
            topic, value, key, headers, partition, timestamp_ms: as for `KafkaProducer.send`.
            deadline: seconds from now, above 0, by which the record must be acknowledged, with the
                wait for metadata and memory, as for `KafkaProducer.send`. What has not left by then
                is taken back; either raises RecordDeadlineError, whose `was_sent` says which, or
                MetadataTimeoutError or BufferExhaustedError if it was not queued by then. Default:
                none but delivery_timeout_ms, which holds besides.

        Returns:
            Where the record was written.

        Raises:
            KafkaError: the record was not delivered, and why: what the future of
                `KafkaProducer.send` would have.
            SerializationError, TypeError, ValueError, ProducerClosedError: as `KafkaProducer.send`.

        Awaits: up to max_block_ms in all for the metadata of a new topic and for memory, in line
        with other tasks and threads; then the record, as long as delivery_timeout_ms. No longer
        than `deadline` in all. Records are queued in the order in which tasks began to send; only
        one that awaits memory may come behind those of later tasks.
        Cancelled, it takes the record back if its batch has not left; otherwise the record may
        still be delivered.
        Source: KafkaProducer.send; contract P-A.3.
        """
        if deadline is not None:
            fields = topic, value, key, headers, partition, timestamp_ms
            return await self._send_by(deadline, fields)
        found = None
        if not self._lines or not self._topic_lines.has(topic):
            found = self._begin_send(topic, value, key, headers, partition, timestamp_ms)
        if type(found) is AsyncRecordFuture:
            return await found
        fields = topic, value, key, headers, partition, timestamp_ms
        return await await_future(await self._queue(fields, found, self.config.max_block_ms))

    async def _send_by(self, deadline: float, fields: RecordFields) -> RecordMetadata:
        """`send` with a deadline, which the producer's thread for them keeps."""
        began_ns, limit_ns = time.monotonic_ns(), record_deadline_ns(deadline)
        found = None if self._topic_lines.has(fields[0]) else self._begin_send(*fields)
        if type(found) is not AsyncRecordFuture:
            longest_ms = min(self.config.max_block_ms, limit_ns // 1_000_000)
            found = await_future(await self._queue(fields, found, longest_ms))
        return await self._kept(found, began_ns, limit_ns)

    def _kept(self, future: AsyncRecordFuture, began_ns: int, limit_ns: int) -> AsyncRecordFuture:
        if not future.done():
            self._producer._keep_deadline(future.record, began_ns + limit_ns, limit_ns // 1000)
        return future

    def send_nowait(
        self,
        topic: Any,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        deadline: float | None = None,
    ) -> AsyncRecordFuture:
        """Queue one record at once, and return a future to await, or to drop.

        Args:
            topic, value, key, headers, partition, timestamp_ms: as for `KafkaProducer.send`.
            deadline: seconds from now, as for `send`; it holds also if nobody awaits the future.

        Returns:
            ``await future`` returns the `RecordMetadata`, or raises the delivery error. Where
            `send` would wait before it queues, it has failed already, as by
            `KafkaProducer.try_send`: with MetadataTimeoutError for a topic that is not known yet
            (`warmup` waits for it), with BufferExhaustedError if buffer_memory is full.

        Raises:
            RuntimeError: no event loop runs in this thread, and nothing is queued.
            SerializationError, TypeError, ValueError, ProducerClosedError: as `KafkaProducer.send`.

        Never waits.  Source: KafkaProducer.send; contract P-A.3.18.
        """
        queue = self._producer._try_send_awaited
        if deadline is None:
            return queue(topic, value, key, headers, partition, timestamp_ms)
        began_ns, limit_ns = time.monotonic_ns(), record_deadline_ns(deadline)
        future = queue(topic, value, key, headers, partition, timestamp_ms)
        return self._kept(future, began_ns, limit_ns)

    async def send_many(
        self,
        topic: str,
        values: Any,
        keys: Any = None,
        headers: Any = None,
        partitions: Any = None,
        timestamps_ms: Any = None,
    ) -> BulkMetadata:
        """Queue many records of one topic, and wait until all are delivered.

        Args:
            topic, values, keys, headers, partitions, timestamps_ms: as for
                `KafkaProducer.send_many`. Nobody may change them meanwhile.

        Returns:
            Where the records were written.

        Raises:
            BulkError: some records were not delivered, the others were; the attribute
                `sent_records` is the `BulkFuture`, whose `failed_rows()` lists them.
            TypeError, ValueError, ProducerClosedError, KafkaError: as `KafkaProducer.send_many`.

        Awaits: as `KafkaProducer.send_many` blocks, then the records. The columns are read by one
        thread of the producer, call after call, with a copy of the task's context variables; who
        awaits a new topic holds up nobody, but with interceptors that have `on_send`.
        Cancelled, it queues no more rows: while they await a topic or memory it ends at once, else
        with the rows that it is reading. What has not left is taken back, as by
        `BulkFuture.cancel`; the rest may still be delivered.
        Source: KafkaProducer.send for many records; P-A.3.
        """
        columns = topic, values, keys, headers, partitions, timestamps_ms
        return await self._in_bulk(topic, self._producer.send_many, *columns)

    async def append_columns(self, columns: Any = None, **more: Any) -> BulkMetadata:
        """Queue the rows of Arrow or numpy columns, and wait until all are delivered.

        Args:
            columns: as for `KafkaProducer.append_columns`.
            more: the keyword arguments of that.

        Returns, raises and awaits as `send_many` and `KafkaProducer.append_columns`.
        Source: contract P-A.3.
        """
        topic, call = more.get("topic"), self._producer.append_columns
        return await self._in_bulk(topic, call, columns, **more)

    async def _in_bulk(
        self, of: Any, call: Callable[..., BulkFuture], /, *args: Any, **more: Any
    ) -> BulkMetadata:
        self._producer._not_open()
        need_loop()
        missing = await self._missing(of)
        bulk = await self._bulk_thread.run(missing, call, *args, **more)
        try:
            return await bulk
        except asyncio.CancelledError:
            bulk.cancel()
            raise
        except BulkError as error:
            error.sent_records = bulk  # type: ignore[attr-defined]
            raise

    async def _missing(self, topic: Any) -> Mapping[str, ApiError]:
        """Await the topic where it holds up no other bulk; why it did not come, by its name.

        Not where interceptors may give each row another topic: they see it in the thread.
        """
        interceptors = self._producer._plugins.interceptors
        if not isinstance(topic, str) or (interceptors is not None and interceptors.see_sends):
            return {}
        name = plain_text(topic)
        if self._producer._is_settled(name, None) and not self._topic_lines.has(name):
            return {}
        patience = Patience(self.config.max_block_ms, self._transaction_number())
        missing = {}
        try:
            await self._await_in_line(name, None, patience)
        except ApiError as error:
            missing[name] = error
        self._require_transaction(patience)
        return missing

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the topic's partitions, with leaders and replicas.

        Raises as `KafkaProducer.partitions_for`.
        Awaits: up to max_block_ms if the topic is not known yet.
        Source: KafkaProducer.partitionsFor; contract P-A.5.
        """
        self._producer._require_open()
        await self._await_topic(topic, None, self.config.max_block_ms)
        return self._producer._metadata.known_cluster.partitions_for_topic(plain_text(topic))

    async def warmup(self, *topics: str, timeout: float | None = None) -> None:
        """Fetch the topics' metadata, connect to their leaders and get the producer id.

        Args:
            topics: topic names; none: only the producer id.
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises as `KafkaProducer.warmup`.  Awaits up to `timeout`.  Source: fastprod's own.
        """
        producer = self._producer
        producer._require_open()
        timeout = checked_timeout(timeout)
        longest_s = self.config.max_block_ms / 1000 if timeout is None else timeout
        timeout_s = min(longest_s, threading.TIMEOUT_MAX)
        deadline_s = time.monotonic() + timeout_s
        for topic in topics:
            left_ms = int((deadline_s - time.monotonic()) * 1000)
            await self._await_topic(topic, None, max(0, left_ms))
        warm_up = WarmUp(
            producer._engine, producer._metadata, producer._network_client, producer._events
        )
        with ThreadSignal(producer._events.listeners) as signal:
            while not warm_up.is_ready(topics, deadline_s, timeout_s):
                await signal.wait(SLICE_S)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until every record sent before is done.

        Args:
            timeout: seconds, 0 or more; default: no limit of its own (delivery_timeout_ms bounds
                it).

        Raises:
            FlushTimeoutError: not all were done in time; `undelivered_count` is the exact number.
            TypeError, ValueError: a timeout that is no number, or negative.

        Awaits up to `timeout`.  Source: KafkaProducer.flush; contract P-A.7.
        """
        timeout = checked_timeout(timeout)
        turn = FlushTurn(self._producer._engine)
        with self._producer._metrics.timed("flush"):
            await within(turn, timeout)
        if left := turn.undelivered_count:
            raise FlushTimeoutError(undelivered_count=left, waited_ms=(timeout or 0) * 1000)

    async def purge(self, queued: bool = True, in_flight: bool = False) -> int:
        """Fail records with `RecordPurgedError`, now; later sends are welcome.

        Args:
            queued: those that have never left; they cannot arrive. Default: True.
            in_flight: those that have left and are not acknowledged; they may be written all the
                same. Default: False.

        Returns:
            How many records have failed. Their tasks go on with the next turn of the loop.

        Raises:
            ProducerClosedError, KafkaError: as `KafkaProducer.purge`.

        The rest as `KafkaProducer.purge`. A task that awaits metadata or memory has no record
        queued yet, and goes on.
        Awaits: a turn of the I/O thread. Cancelled, the records fail all the same.
        Source: rd_kafka_purge of librdkafka.
        """
        producer = self._producer
        producer._require_open()
        under_way = producer._network_client.purges
        purge = under_way.begin(queued=queued, in_flight=in_flight)
        with ThreadSignal(purge.listeners) as signal:
            while under_way.is_pending(purge):
                await signal.wait(LOOK_AGAIN_S)
        return purge.record_count or 0

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        """Authenticate as this user from now on; see `KafkaProducer.set_sasl_credentials`.

        Raises as that.  Never waits.
        """
        try:
            self._producer.set_sasl_credentials(username, password)
        finally:
            del password  # a report of a failure may show local variables

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the producer's metrics, as `KafkaProducer.metrics`.  Never waits."""
        return self._producer.metrics()

    async def close(self, timeout: float | None = None) -> None:
        """Send what is queued, then end the threads; give up what cannot be sent in time.

        One thread does it in the background, also when the call is cancelled. A second call waits
        for the end of the first, up to its own timeout, and changes nothing about it.

        Args:
            timeout: seconds, 0 or more; default: no limit of its own (delivery_timeout_ms bounds
                it). 0 gives up at once.

        Raises:
            UndeliveredError: records were given up; `undelivered_count` is their exact number. The
                producer is closed all the same.
            TypeError, ValueError: a timeout that is no number, or negative.
            RuntimeError: the system gives no thread; the producer stays open, and another call
                tries again.

        Awaits up to `timeout`.  Source: KafkaProducer.close; contract P-A.9.
        """
        timeout = checked_timeout(timeout)
        ending, longest_s = self._ending, timeout
        if ending is None or self._ending_pid != os.getpid():  # its thread is the parent's
            longest_s = None  # the thread keeps to it
            ending = self._ending = concurrent.futures.Future()
            self._ending_pid = os.getpid()
            try:
                threading.Thread(
                    target=_close,
                    args=(self._producer, timeout, ending),
                    name=f"kafka-producer-close | {self.config.client_id}",
                ).start()
            except BaseException:  # there is no thread
                if ending.cancel():
                    self._ending = None  # the next call tries again
                raise
        elif ending.done():
            return
        self._bulk_thread.end()
        waiter = asyncio.wrap_future(ending)
        # It may fail when nobody is there any more to hear it.
        waiter.add_done_callback(lambda it: it.cancelled() or it.exception())
        await asyncio.wait((waiter,), timeout=longest_s)
        if waiter.done():
            waiter.result()

    async def start(self) -> None:
        """Do nothing: a producer is ready when it is made. aiokafka's name."""

    async def stop(self) -> None:
        """`close`, by aiokafka's name."""
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        made = self.__dict__.get("_producer", "a producer without settings")
        return f"<{type(self).__name__} of {made!r}>"

    # What is missing when a record is to be queued.

    async def _queue(
        self, fields: RecordFields, found: MemoryTurn | None, longest_ms: int
    ) -> RecordFuture:
        """`send` where the record could not be queued at once; it waits so long at most."""
        patience = Patience(longest_ms, self._transaction_number())
        if type(fields[0]) is not str or self._producer._plugins.see_records:
            record = as_record(*fields)
            if self._producer._plugins.see_records:
                send = PluggedSend(self._producer._plugins, record, None)
                return await self._queue_plugged(send, patience)
            fields = record_fields(record)
        return await self._append(fields, None, found, patience)

    async def _queue_plugged(self, send: PluggedSend, patience: Patience) -> RecordFuture:
        producer = self._producer
        topic, partition = send.record.topic, send.partition
        try:
            producer._not_open()
            if self._topic_lines.has(topic) or not producer._is_settled(topic, partition):
                try:
                    await self._await_in_line(topic, partition, patience)
                except ApiError as error:
                    self._require_transaction(patience)
                    return producer._failed(topic, partition, error, send.on_delivery)
                self._require_transaction(patience)
            fields = send.fields(producer._metadata.known_cluster)
            found = producer._continue_send(*fields, send.on_delivery)
            if isinstance(found, RecordFuture):
                return found
            return await self._append(fields, send.on_delivery, found, patience)
        except BaseException as error:
            send.failed(error)
            if isinstance(error, KafkaError):
                producer._count_error(topic)
            raise
        finally:
            send.end()

    async def _append(
        self, fields: RecordFields, on_delivery: Any, turn: MemoryTurn | None, patience: Patience
    ) -> RecordFuture:
        """Append the record; before that wait for memory, or, without a `turn`, for its topic."""
        producer = self._producer
        topic, value, key, headers, partition, timestamp_ms = fields
        while True:
            if turn is None:
                try:
                    await self._await_in_line(topic, partition, patience)
                except ApiError as error:
                    self._require_transaction(patience)
                    return producer._failed(topic, partition, error, on_delivery)
            elif timestamp_ms is None:
                timestamp_ms = time.time_ns() // 1_000_000
            try:
                if turn is not None:
                    await within(turn, patience.left_s)
                self._require_transaction(patience)
                if turn is not None and turn.is_expired:
                    late = producer._out_of_memory(patience.longest_ms)
                    return producer._failed(topic, partition, late, on_delivery)
                found = producer._continue_send(
                    topic, value, key, headers, partition, timestamp_ms, on_delivery, turn
                )
            finally:
                if turn is not None:  # an error that is kept would keep it, and its memory
                    turn.give_back()
            if isinstance(found, RecordFuture):
                return found
            turn = found

    def _transaction_number(self) -> int:
        manager = self._producer._network_client.transactions
        return 0 if manager is None else manager.end_token

    def _require_transaction(self, patience: Patience) -> None:
        """A record whose `send` has waited is none of a later transaction's, nor is its failure."""
        if patience.transaction != self._transaction_number():
            raise IllegalStateError("the transaction in which this call began has ended")

    async def _await_in_line(self, topic: str, partition: int | None, patience: Patience) -> None:
        """`_await_topic` behind the sends that wait for the topic already; for a partition that it
        has not (yet) nobody else waits."""
        if not self._producer._is_settled(topic, None):
            known = self._await_topic(topic, None, patience.left_ms)
            await self._topic_lines.behind_others(topic, known)
        elif self._topic_lines.has(topic):
            await self._topic_lines.behind_others(topic)
        if not self._producer._is_settled(topic, partition):
            await self._await_topic(topic, partition, patience.left_ms)

    async def _await_topic(self, topic: str, partition: int | None, timeout_ms: int) -> None:
        """Wait until the engine knows the topic (P-A.4)."""
        check_topic_name(topic)
        errors = await self._await_topics({topic: partition}, timeout_ms)
        if errors:
            raise errors[topic]

    async def _await_topics(
        self, wanted: Mapping[str, int | None], timeout_ms: int
    ) -> dict[str, KafkaError]:
        metadata = self._producer._metadata
        search = metadata.search(wanted, timeout_ms)
        with self._producer._metrics.timed("metadata-wait"), self._signal() as signal:
            try:
                seen_version, deadline_ms = next(search)
                while True:
                    has_come = await self._await_update(signal, seen_version, deadline_ms)
                    seen_version, deadline_ms = search.send(has_come)
            except StopIteration as end:
                found: dict[str, KafkaError] = end.value
                return found

    async def _await_update(
        self, signal: ThreadSignal, seen_version: int, deadline_ms: int
    ) -> bool:
        """Wait for metadata above `seen_version`; False if the deadline came first."""
        while not self._producer._metadata.has_update(seen_version):
            if self._producer._closing:
                raise ProducerClosedError("Producer closed while send in progress")
            left_ms = deadline_ms - time.monotonic_ns() // 1_000_000
            if left_ms <= 0:
                return False
            await signal.wait(left_ms / 1000)
        return True

    def _signal(self) -> ThreadSignal:
        """That of the running loop, for changes of the metadata."""
        loop = asyncio.get_running_loop()
        signal = self._signals.get(loop)
        if signal is None or signal.listeners is not self._producer._metadata.listeners:
            signal = self._signals[loop] = ThreadSignal(self._producer._metadata.listeners)
        return signal


def _close(
    producer: KafkaProducer, timeout: float | None, ending: concurrent.futures.Future[None]
) -> None:
    if not ending.set_running_or_notify_cancel():
        return
    try:
        producer.close(timeout)
    except BaseException as error:
        ending.set_exception(error)
    else:
        ending.set_result(None)
