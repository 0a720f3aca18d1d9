"""A broker process under siege, and a witness who is served all the time."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from checkout import ROOT
from fastprod.broker.api_table import APIS, SERVICES, ApiTable
from fastprod.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kept_process import KeptProcess
from support.oracle.record_batch import encode_batch

PATIENCE_S = 30.0
MIB = 1024 * 1024
FIGURES = ROOT / "build" / "broker-hostile.md"

# All that a broker may say about clients that mean no good.
INTENDED = re.compile(
    r"closed, its request makes no sense"
    r"|closed, it announced a request of"
    r"|cannot be read: .*; its connection is closed"
    r"|closed, it was the slowest of the senders"
    r"|takes nobody in for"
    r"|^fastprod broker listening on"
)

_BROKER = """
import resource, runpy, sys
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
sys.argv[:] = ["fastprod", *sys.argv[2:]]
runpy.run_module("fastprod", run_name="__main__")
"""


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def head(
    key: int, version: int, correlation_id: int = 7, client_id: bytes | None = b"hostile"
) -> bytes:
    """A request header, in the form that the version has."""
    size = -1 if client_id is None else len(client_id)
    text = struct.pack(">hhih", key, version, correlation_id, size) + (client_id or b"")
    api = APIS.get(key)
    return text + (b"\0" if api and api.has_flexible_request_header(version) else b"")


def request(name: str, version: int, message: Any, client_id: bytes | None = b"hostile") -> bytes:
    """A valid request as a frame."""
    api = next(each for each in APIS.values() if each.name == name)
    body = b"".join(bytes(memoryview(part)) for part in api.request.encode(version, message))
    return framed(head(api.key, version, client_id=client_id) + body)


def produce(batch: bytes, topic: str = "good", *, acks: int = -1, version: int = 9) -> bytes:
    """A Produce request with one batch, as a frame."""
    data = PartitionProduceData(index=0, records=memoryview(batch))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    message = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
    return request("Produce", version, message)


def one_record(value: bytes = b"v", **fields: Any) -> bytes:
    """A batch of one record of now."""
    return encode_batch([(time.time_ns() // 1_000_000, None, value)], **fields)


def read_exactly(client: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = client.recv(min(count - len(parts), MIB))
        if not part:
            raise ConnectionResetError(f"the stream ended after {len(parts)} of {count} bytes")
        parts += part
    return bytes(parts)


def answer(client: socket.socket) -> bytes:
    """The next answer, without its size."""
    (size,) = struct.unpack(">i", read_exactly(client, 4))
    return read_exactly(client, size)


def ask(client: socket.socket, frame: bytes) -> bytes:
    client.sendall(frame)
    return answer(client)


def decoded(name: str, version: int, content: bytes) -> Any:
    """An answer's message."""
    api = next(each for each in APIS.values() if each.name == name)
    offset = 5 if api.has_flexible_response_header(version) else 4
    return api.response.decode(version, memoryview(content), offset)


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of the stream; False if there are bytes instead."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def api_versions_listed() -> Iterator[tuple[int, int]]:
    """Every (key, version) that the broker serves."""
    table = ApiTable()
    for key, service in SERVICES.items():
        for version in range(service.served.first, service.served.last + 1):
            if table.is_listed(key, version):
                yield key, version


class Witness:
    """A client that means well: a record every few milliseconds, each with its answer."""

    def __init__(self, port: int, batch: bytes) -> None:
        self.served_count = 0
        self.longest_s = 0.0
        self.failure: BaseException | None = None
        self._frame = produce(batch)
        self._client = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                began_s = time.monotonic()
                response = decoded("Produce", 9, ask(self._client, self._frame))
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
                code = response.responses[0].partition_responses[0].error_code
                assert code == 0, f"the witness was refused with {code}"
                self.served_count += 1
                self._stopping.wait(0.005)
        except BaseException as error:
            self.failure = error

    def await_more(self, count: int = 5) -> None:
        """Until it has been served so often from now on."""
        wanted = self.served_count + count
        deadline = time.monotonic() + PATIENCE_S
        while self.served_count < wanted and self.failure is None:
            assert time.monotonic() < deadline, f"the witness waits for over {PATIENCE_S} s"
            time.sleep(0.002)
        assert self.failure is None, repr(self.failure)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S + 5)
        self._client.close()


class Siege:
    """`fastprod broker` as a process, with a witness; leaving it proves that nothing remains.

    Args:
        folder: for the log.
        options: further ones of the command.
        descriptor_limit: RLIMIT_NOFILE of the process; 0: as here.
        witness_bytes: size of the witness's records.

    Attributes:
        is_left_busy: the broker is to be ended while it works for hostile clients.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        descriptor_limit: int = 0,
        witness_bytes: int = 10,
    ) -> None:
        self.process = KeptProcess(
            "fastprod broker",
            [
                *(sys.executable, "-c", _BROKER, str(descriptor_limit)),
                *(
                    "broker",
                    "-v",
                    "--port",
                    "0",
                    "--topic",
                    "good:1",
                    "--topic",
                    "quiet:1",
                    *options,
                ),
            ],
            folder / "broker.log",
        )
        self.is_left_busy = False
        try:
            found = self.process.wait_for_output(r"listening on 127\.0\.0\.1:(\d+);", PATIENCE_S)
            self.port = int(found[1])
            self.clients: list[socket.socket] = []
            self._proc = Path(f"/proc/{self.process.pid}")
            self.witness = Witness(self.port, one_record(b"w" * witness_bytes))
        except BaseException:
            self.process.kill()
            raise
        self.witness.await_more()
        # What belongs to the broker itself, and to the witness.
        self._threads = self.threads()
        self._socket_count = self.socket_count()
        self._cpu_mark_s = self.cpu_s()
        self.mark_memory()

    # Clients.

    def connect(self, receive_buffer_bytes: int = 0) -> socket.socket:
        client = socket.socket()
        client.settimeout(PATIENCE_S)
        if receive_buffer_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        client.connect(("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    def reset(self, client: socket.socket) -> None:
        """Close it with a RST."""
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def release(self, clients: Iterable[socket.socket]) -> None:
        for client in clients:
            client.close()

    def pump(
        self, clients: list[socket.socket], each_bytes: int, seconds: float, least_bytes: int
    ) -> int:
        """Send so many zeros on each, as fast as the broker takes them; how many went out.

        It ends after `seconds`, but goes on for the patience of a client, three times, while not
        more than `least_bytes` are out.
        """
        zeros = memoryview(bytes(MIB))
        left = dict.fromkeys(clients, each_bytes)
        began_s = time.monotonic()
        sent = 0
        for client in clients:
            client.setblocking(False)
        while left:
            for_s = seconds if sent > least_bytes else 3 * PATIENCE_S
            if time.monotonic() - began_s > for_s:
                break
            before = sent
            for client in list(left):
                try:
                    count = client.send(zeros[: left[client]])
                except BlockingIOError:
                    continue
                except ConnectionError:
                    del left[client]
                    continue
                sent += count
                left[client] -= count
                if left[client] == 0:
                    del left[client]
            if sent == before:
                time.sleep(0.005)
        return sent

    # The process.

    def socket_count(self) -> int:
        """Sockets that the broker has open."""
        count = 0
        for path in (self._proc / "fd").iterdir():
            with contextlib.suppress(OSError):
                count += str(path.readlink()).startswith("socket:")
        return count

    def connection_count(self) -> int:
        """Without the witness's."""
        return self.socket_count() - self._socket_count

    def threads(self) -> set[int]:
        return {int(path.name) for path in (self._proc / "task").iterdir()}

    def cpu_s(self) -> float:
        """Processor time so far."""
        user, system = (self._proc / "stat").read_text().rsplit(") ", 1)[1].split()[11:13]
        return (int(user) + int(system)) / 100

    def _status_bytes(self, key: str) -> int:
        found = re.search(rf"{key}:\s+(\d+) kB", (self._proc / "status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    @property
    def memory_bytes(self) -> int:
        """Resident now."""
        return self._status_bytes("VmRSS")

    def mark_memory(self) -> None:
        """What follows is measured from here."""
        (self._proc / "clear_refs").write_text("5")
        self.memory_mark_bytes = self.memory_bytes

    @property
    def grown_bytes(self) -> int:
        """How much more than at the mark was resident at any time since."""
        return self._status_bytes("VmHWM") - self.memory_mark_bytes

    def grew_less_than(self, limit_bytes: int) -> None:
        """At any time since the mark."""
        # A sanitizer keeps what is freed, to see who touches it.
        if "ASAN_OPTIONS" not in os.environ:
            grown = self.grown_bytes
            assert grown < limit_bytes, f"{grown / MIB:.0f} MiB, not {limit_bytes / MIB:.0f}"

    def log_lines(self) -> list[str]:
        return [line for line in self.process.output().splitlines() if line]

    def until(self, done: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert self.process.is_running, self.process.log_tail()
            assert time.monotonic() < deadline, f"not so after {PATIENCE_S} s: {what}"
            time.sleep(0.005)

    def await_connections(self, count: int) -> None:
        self.until(
            lambda: self.connection_count() == count,
            f"{count} connections; now {self.connection_count()}",
        )

    def note(self, what: str, text: str) -> None:
        """Keep a figure for those who read."""
        # It may be waiting, and for how long is not known before its answer.
        self.witness.await_more(2)
        if "ASAN_OPTIONS" in os.environ:
            return
        FIGURES.parent.mkdir(exist_ok=True)
        kept: dict[str, str] = {}
        if FIGURES.exists():
            rows = (line.split("|") for line in FIGURES.read_text().splitlines())
            kept = {row[1].strip(): row[2].strip() for row in rows if len(row) == 4}
        grown = self.grown_bytes / MIB
        longest_ms = self.witness.longest_s * 1000
        kept[what] = f"{text}; +{grown:.0f} MiB at most; witness at most {longest_ms:.0f} ms"
        lines = sorted(f"| {name} | {value} |" for name, value in kept.items())
        FIGURES.write_text("\n".join(lines) + "\n")

    # The end.

    def verify(self) -> None:
        """The witness is served, all connections but its own are gone, no thread died."""
        self.witness.await_more()
        if not self.is_left_busy:
            for client in self.clients:
                client.close()
            self.await_connections(0)
            self.witness.await_more()
        assert self._threads <= self.threads(), "a thread of the broker has died"
        strange = [line for line in self.log_lines() if not INTENDED.search(line)]
        assert not strange, "\n".join(strange[:40])

    def __enter__(self) -> Siege:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.verify()
        finally:
            self.witness.close()
            for client in self.clients:
                client.close()
            ended = self.process.stop()
        assert error is not None or ended, "the broker did not end by itself"
