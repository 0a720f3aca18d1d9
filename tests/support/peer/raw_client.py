"""A client without any cleverness: one blocking socket, frames in and out."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from fastprod.protocol.api_keys import PRODUCE
from support.oracle import record_batch as oracle
from support.oracle.kio_codec import decode_response, encode_request
from support.peer.scripted_peer import Peer

PATIENCE_S = 10.0
CLIENT_ID = "raw"


class RawClient:
    """A connection to `peer`. Use it in a `with`. One thread."""

    def __init__(self, peer: Peer) -> None:
        self.sock = socket.create_connection(("127.0.0.1", peer.port), timeout=PATIENCE_S)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sock.close()

    def request(self, api_key: int, version: int, message: Mapping[str, Any]) -> bytes:
        """A request's frame, with the next correlation id."""
        self._correlation_id += 1
        return encode_request(api_key, version, self._correlation_id, CLIENT_ID, message)

    def send(self, api_key: int, version: int, message: Mapping[str, Any]) -> int:
        """Send a request; returns its correlation id."""
        self.sock.sendall(self.request(api_key, version, message))
        return self._correlation_id

    def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """(correlation id, message) of the next response."""
        return decode_response(api_key, version, self.read_frame())

    def ask(self, api_key: int, version: int, message: Mapping[str, Any]) -> Any:
        """Send a request and return the response that must be the answer to it."""
        sent = self.send(api_key, version, message)
        received, answer = self.receive(api_key, version)
        assert received == sent
        return answer

    def read_exactly(self, byte_count: int) -> bytes:
        data = b""
        while len(data) < byte_count:
            part = self.sock.recv(byte_count - len(data))
            if not part:
                raise EOFError(f"{len(data)} of {byte_count} bytes, then the end")
            data += part
        return data

    def read_frame(self) -> bytes:
        """The payload of the next frame."""
        return self.read_exactly(int.from_bytes(self.read_exactly(4), "big"))

    def read_to_end(self) -> tuple[bytes, str]:
        """Everything up to the end of the stream, and what ended it: "FIN" or "RST"."""
        data = b""
        try:
            while part := self.sock.recv(65536):
                data += part
        except ConnectionResetError:
            return data, "RST"
        return data, "FIN"

    def produce(self, *values: bytes, version: int = 9, **words: Any) -> Any:
        """Produce the values and return the answer for their partition; see `produce_message`."""
        message = produce_message(values, version=version, **words)
        answer = self.ask(PRODUCE, version, message)
        return answer.responses[0].partition_responses[0]

    def send_produce(self, *values: bytes, version: int = 9, **words: Any) -> int:
        return self.send(PRODUCE, version, produce_message(values, version=version, **words))


def produce_message(
    values: Sequence[bytes],
    *,
    topic: str | bytes = "t",
    partition: int = 0,
    version: int = 9,
    acks: int = -1,
    **batch: Any,
) -> dict[str, Any]:
    """Fields of a Produce request with one batch; `batch` goes to the oracle's `encode_batch`."""
    records = [(1000 + index, None, value) for index, value in enumerate(values)]
    raw = batch.pop("raw", None)
    if raw is None:
        raw = oracle.encode_batch(records, **batch)
    return message_of([(topic, partition, raw)], version=version, acks=acks)


def message_of(
    batches: Sequence[tuple[str | bytes, int, bytes]], *, version: int = 9, acks: int = -1
) -> dict[str, Any]:
    """Fields of a Produce request: (topic name or id, partition, batch)."""
    key = "topic_id" if version >= 13 else "name"
    topics: dict[str | bytes, list[dict[str, Any]]] = {}
    for topic, partition, raw in batches:
        topics.setdefault(topic, []).append({"index": partition, "records": raw})
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 1000,
        "topic_data": [{key: topic, "partition_data": data} for topic, data in topics.items()],
    }
