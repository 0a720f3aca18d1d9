"""The requests of a commit on a bare blocking socket: Produce with one record, then EndTxn.

Frames come from kio and the slow record batch oracle, and are made before the clock starts.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload
from support.oracle.kio_codec import decode_response, encode_request
from support.oracle.record_batch import encode_batch

_WARM_UP = 20
_PAUSE_S = 0.005
_PATIENCE_S = 30.0
_PRODUCE, _FIND_COORDINATOR, _INIT_PRODUCER_ID, _END_TXN = 0, 10, 22, 26
_VERSIONS = {_PRODUCE: 12, _FIND_COORDINATOR: 4, _INIT_PRODUCER_ID: 4, _END_TXN: 5}
_TRANSACTION_COORDINATOR = 1


class Asker:
    """One connection, one request at a time."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, api_key: int, **message: Any) -> Any:
        return self.read(api_key, self.exchange(self.frame(api_key, **message)))

    def frame(self, api_key: int, **message: Any) -> bytes:
        return encode_request(api_key, _VERSIONS[api_key], 1, "bare-socket", message)

    def exchange(self, frame: bytes) -> bytes:
        """Send a frame; the payload of the answer."""
        self._socket.sendall(frame)
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def read(self, api_key: int, payload: bytes) -> Any:
        return decode_response(api_key, _VERSIONS[api_key], payload)[1]

    def _exactly(self, size: int) -> bytes:
        data = self._socket.recv(size)
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise SystemExit("the server closed the connection")
            data += more
        return data


class Transactions:
    """A transactional producer without any cleverness.

    Args:
        asker: a connection to the one broker.
        topic: where to; it is the transactional id, too.
        value: of each record.
    """

    def __init__(self, asker: Asker, topic: str, value: bytes) -> None:
        self._asker = asker
        self._topic = topic
        self._value = value
        self._producer_id, self._epoch = self._begin()

    def _begin(self) -> tuple[int, int]:
        deadline_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s:
            self._asker.ask(
                _FIND_COORDINATOR,
                key_type=_TRANSACTION_COORDINATOR,
                coordinator_keys=[self._topic],
            )
            found = self._asker.ask(
                _INIT_PRODUCER_ID,
                transactional_id=self._topic,
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            if found.error_code == 0:
                return found.producer_id, found.producer_epoch
            time.sleep(0.1)
        raise SystemExit("there is no producer id")

    def one(self) -> float:
        """One transaction; us that its two requests took."""
        batch = encode_batch(
            [(int(time.time() * 1000), None, self._value)],
            transactional=True,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=0,
        )
        partition = {"index": 0, "records": batch}
        produce = self._asker.frame(
            _PRODUCE,
            transactional_id=self._topic,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": self._topic, "partition_data": [partition]}],
        )
        end = self._asker.frame(
            _END_TXN,
            transactional_id=self._topic,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        started_ns = time.perf_counter_ns()
        produced = self._asker.exchange(produce)
        ended = self._asker.exchange(end)
        took_us = (time.perf_counter_ns() - started_ns) / 1000
        self._check(produced, ended)
        return took_us

    def _check(self, produced: bytes, ended: bytes) -> None:
        (topic,) = self._asker.read(_PRODUCE, produced).responses
        codes = [topic.partition_responses[0].error_code]
        answer = self._asker.read(_END_TXN, ended)
        codes.append(answer.error_code)
        if any(codes):
            raise SystemExit(f"Produce and EndTxn were answered with the errors {codes}")
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch


def work(load: Workload) -> Outcome:
    value = make_values(load.values)[0]
    meter = Meter()
    producer = Transactions(Asker(load.bootstrap_servers), load.topic, value)
    for _ in range(_WARM_UP):
        time.sleep(_PAUSE_S)
        producer.one()
    took_us = []
    meter.start()
    for _ in range(load.record_count):
        time.sleep(_PAUSE_S)
        took_us.append(producer.one())
    meter.stop()
    size = load.record_count * len(value)
    return meter.outcome(_WARM_UP + load.record_count, _WARM_UP, size, took_us)


if __name__ == "__main__":
    serve(work)
