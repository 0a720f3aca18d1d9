"""A server in plain Python that costs little, in a process of its own: its main, and its handle.

It takes Produce, Metadata, InitProducerId and ApiVersions in one modern version each, has every
topic that is asked for, counts records and keeps none. Sequence numbers must follow each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import random
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from bench.cliffs import produce_bytes
from bench.cliffs.raw import RawConnection
from bench.cliffs.side import WrongResult
from support.oracle.frames import FrameReader, FrameWriter

_PRODUCE: Final = 0
_METADATA: Final = 3
_API_VERSIONS: Final = 18
_INIT_PRODUCER_ID: Final = 22
_COUNTS: Final = 32_000
"""Not an API of Kafka's: what was taken, as JSON."""

_VERSIONS: Final = {
    _PRODUCE: (0, produce_bytes.VERSION),
    _METADATA: (0, 12),
    _API_VERSIONS: (0, 4),
    _INIT_PRODUCER_ID: (0, 5),
}
_NOT_LEADER: Final = 6
_HOST: Final = "127.0.0.1"


@dataclasses.dataclass(frozen=True)
class LightOptions:
    """How the server is.

    Attributes:
        nodes: each with a port; partition p is led by node p modulo `nodes` plus 1.
        partitions: of the topics that are named here; any other has one.
        is_shuffled: a Produce answer has its partitions in an order of its own.
        move_after_records: so many taken, node 2 leads what node 1 led; 0: never.
    """

    nodes: int = 1
    partitions: dict[str, int] = dataclasses.field(default_factory=dict)
    is_shuffled: bool = False
    move_after_records: int = 0


class LightServer:
    """The server's state. THREADS: one a connection; calls under the lock."""

    def __init__(self, options: LightOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._listeners = [socket.create_server((_HOST, 0)) for _ in range(options.nodes)]
        self._next_offsets: dict[str, list[int]] = {}
        self._record_count = 0
        self._requests: Counter[str] = Counter()
        self._faults: list[str] = []
        self._random = random.Random(4711)

    @property
    def addresses(self) -> list[str]:
        return [f"{_HOST}:{listener.getsockname()[1]}" for listener in self._listeners]

    def start(self) -> None:
        for node_id, listener in enumerate(self._listeners, 1):
            threading.Thread(target=self._accept, args=(node_id, listener), daemon=True).start()

    def _accept(self, node_id: int, listener: socket.socket) -> None:
        while True:
            client = listener.accept()[0]
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(node_id, client), daemon=True).start()

    def _serve(self, node_id: int, client: socket.socket) -> None:
        with client, client.makefile("rb", buffering=1 << 16) as file, contextlib.suppress(OSError):
            while size := file.read(4):
                frame = file.read(int.from_bytes(size, "big"))
                with self._lock:
                    answer = self._answer(node_id, frame)
                client.sendall(answer)

    def _answer(self, node_id: int, frame: bytes) -> bytes:
        reader = FrameReader(frame, "request")
        header = reader.request_header()
        if header.api_key == _COUNTS:
            return self._counts(header.correlation_id)
        self._requests[str(header.api_key)] += 1
        if header.api_key == _API_VERSIONS:
            return _versions(header.version, header.correlation_id)
        reader.skip_tags()
        if header.api_key == _PRODUCE:
            return self._produce(node_id, header.correlation_id, frame, reader.offset)
        if header.api_key == _METADATA:
            return self._metadata(header.correlation_id, reader)
        body = FrameWriter()  # InitProducerId: id 1, epoch 0
        body.int32(0)
        body.int16(0)
        body.int64(1)
        body.int16(0)
        body.no_tags(True)
        return body.response(header.correlation_id, header_tags=True)

    def _leader(self, partition: int) -> int:
        leader = partition % self._options.nodes + 1
        return 2 if self._has_moved and leader == 1 else leader

    @property
    def _has_moved(self) -> bool:
        return 0 < self._options.move_after_records <= self._record_count

    def _produce(self, node_id: int, correlation_id: int, frame: bytes, at: int) -> bytes:
        has_moved = self._has_moved
        answers: dict[str, list[bytes]] = {}
        for batch in produce_bytes.batches(frame, at):
            if self._leader(batch.partition) != node_id:
                hint = (2, 1) if has_moved else None
                answer = produce_bytes.partition(batch.partition, _NOT_LEADER, -1, hint)
            else:
                answer = produce_bytes.partition(batch.partition, 0, self._take(batch), None)
            answers.setdefault(batch.topic, []).append(answer)
        if self._options.is_shuffled:
            for each in answers.values():
                self._random.shuffle(each)
        return produce_bytes.answer(correlation_id, answers)

    def _take(self, batch: produce_bytes.Batch) -> int:
        offsets = self._offsets(batch.topic)
        offset = offsets[batch.partition]
        if batch.sequence not in (-1, offset):
            self._faults.append(f"{batch}: {offset} was to come")
        offsets[batch.partition] += batch.record_count
        self._record_count += batch.record_count
        return offset

    def _offsets(self, topic: str) -> list[int]:
        return self._next_offsets.setdefault(topic, [0] * self._options.partitions.get(topic, 1))

    def _metadata(self, correlation_id: int, reader: FrameReader) -> bytes:
        names = []
        for _ in range(max(0, reader.count(True))):
            reader.uuid()
            names.append(reader.string(True))
            reader.skip_tags()
        body = FrameWriter()
        body.int32(0)
        body.count(self._options.nodes, True)
        for node_id, address in enumerate(self.addresses, 1):
            body.int32(node_id)
            body.string(_HOST, True)
            body.int32(int(address.rpartition(":")[2]))
            body.string(None, True)
            body.no_tags(True)
        body.string("cliffs", True)
        body.int32(1)
        body.count(len(names), True)
        for name in names:
            self._describe(body, name)
        body.no_tags(True)
        return body.response(correlation_id, header_tags=True)

    def _describe(self, body: FrameWriter, topic: str) -> None:
        body.int16(0)
        body.string(topic, True)
        body.uuid(hashlib.md5(topic.encode(), usedforsecurity=False).digest())
        body.boolean(False)
        count = len(self._offsets(topic))
        epoch = 1 if self._has_moved else 0
        body.count(count, True)
        for index in range(count):
            body.raw(produce_bytes.partition_metadata(index, self._leader(index), epoch))
        body.int32(0)
        body.no_tags(True)

    def _counts(self, correlation_id: int) -> bytes:
        found = {
            "records": {topic: sum(offsets) for topic, offsets in self._next_offsets.items()},
            "requests": self._requests,
            "faults": self._faults[:10],
        }
        body = FrameWriter()
        body.raw(json.dumps(found).encode())
        return body.response(correlation_id, header_tags=False)


def _versions(version: int, correlation_id: int) -> bytes:
    body = FrameWriter()
    flexible = version >= 3
    body.int16(0)
    body.count(len(_VERSIONS), flexible)
    for api_key, (low, high) in _VERSIONS.items():
        body.int16(api_key)
        body.int16(low)
        body.int16(high)
        body.no_tags(flexible)
    body.int32(0)
    body.no_tags(flexible)
    return body.response(correlation_id, header_tags=False)


@dataclasses.dataclass(frozen=True)
class LightHandle:
    """What the bench knows of a server in another process."""

    bootstrap_servers: str

    def check(self, records: dict[str, int]) -> dict[str, int]:
        """Compare the records of each topic with what it took; return its requests by API key.

        Raises:
            WrongResult: others came, or a batch was not the next of its partition.
        """
        with RawConnection(self.bootstrap_servers.split(",")[0]) as connection:
            frame = FrameWriter().request(_COUNTS, 0, 1, None, flexible=False)
            found: dict[str, Any] = json.loads(connection.ask(frame)[4:])
        if found["faults"]:
            raise WrongResult("\n".join(found["faults"]))
        if found["records"] != records:
            wrong = {*found["records"].items()} ^ {*records.items()}
            raise WrongResult(f"the server's records differ: {sorted(wrong)[:5]}")
        return {name: int(count) for name, count in found["requests"].items()}


@contextlib.contextmanager
def light_server(options: LightOptions) -> Iterator[LightHandle]:
    """A server in a process of its own, while the `with` lasts."""
    command = [sys.executable, "-m", __name__, json.dumps(dataclasses.asdict(options))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield LightHandle(process.stdout.readline().strip())
        finally:
            process.kill()


def main() -> None:
    server = LightServer(LightOptions(**json.loads(sys.argv[1])))
    server.start()
    print(",".join(server.addresses), flush=True)
    sys.stdin.read()  # its end is the end of the bench


if __name__ == "__main__":
    main()
