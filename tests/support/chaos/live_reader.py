"""LiveReader: reads a topic all the time, and sees to it that nothing is taken back."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

LOOK_S = 1.0
_AT_ONCE = 500
_FATAL = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}


class LiveReader:
    """confluent-kafka, committed records alone, in a thread of its own, in a `with`.

    `seen` are offsets and values of each partition. `violations`: a high watermark that has gone
    back, an offset that has come twice, or that is gone. `looks`: at high watermarks.
    """

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.seen: dict[int, list[tuple[int, bytes]]] = {each: [] for each in range(partitions)}
        self.violations: list[str] = []
        self.looks = 0
        self._topic = topic
        self._ends = dict.fromkeys(range(partitions), 0)
        self._over = threading.Event()
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "live reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "check.crcs": True,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 10_000,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
        self._consumer = Consumer(settings)
        # ListOffsets tells a reader of committed records the last stable offset.
        self._asker = Consumer({**settings, "isolation.level": "read_uncommitted"})
        self._thread = threading.Thread(target=self._run, name="live reader")

    def __enter__(self) -> LiveReader:
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in self.seen])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)
        if self._thread.is_alive():
            self.violations.append("the live reader hangs")
            return
        if not self.looks:
            self.violations.append("the live reader has never been told a high watermark")
        self._consumer.close()
        self._asker.close()

    def _run(self) -> None:
        turn = 0
        try:
            while not self._over.is_set():
                for message in self._consumer.consume(_AT_ONCE, timeout=0.2):
                    self._take(message)
                turn = (turn + 1) % len(self.seen)
                self._look(turn)
        except BaseException as error:
            self.violations.append(f"live reader: {error!r}")

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() in _FATAL:
                self.violations.append(f"live reader: {error}")
            return
        index, offset, value = message.partition(), message.offset(), message.value()
        assert index is not None
        assert offset is not None
        assert isinstance(value, bytes)
        rows = self.seen[index]
        if rows and offset <= rows[-1][0]:
            self.violations.append(f"live reader: {index}: {offset} came behind {rows[-1][0]}")
        rows.append((offset, value))

    def _look(self, index: int) -> None:
        """The high watermark, as ListOffsets tells it.

        (Answers to fetches may go back: a leader that is new has yet to learn it. Only ListOffsets
        waits for that, KIP-207.)
        """
        place = TopicPartition(self._topic, index)
        try:
            end = self._asker.get_watermark_offsets(place, timeout=LOOK_S, cached=False)[1]
        except KafkaException:
            return  # nobody leads now
        self.looks += 1
        if end < self._ends[index]:
            self.violations.append(
                f"the high watermark of {index} went back from {self._ends[index]} to {end}"
            )
        self._ends[index] = max(end, self._ends[index])
