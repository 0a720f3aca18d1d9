"""The broker without sockets: requests go in as bytes, answers come out decoded."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from fastprod._core.io.server_selector import Frame
from fastprod.broker.api_table import APIS, ApiTable
from fastprod.broker.cluster.cluster import NodeAddress
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.config import BrokerConfig
from fastprod.broker.faults.hooks import Faults
from fastprod.broker.network.connection import ANONYMOUS, Connection
from fastprod.broker.network.request import (
    CloseConnectionResponse,
    NoOpResponse,
    Request,
    Response,
    SendResponse,
)
from fastprod.broker.network.request_handling import handle_request
from fastprod.broker.server.node_services import NodeServices
from fastprod.broker.threads.clock import Clock, SystemClock
from fastprod.protocol.api import Api
from fastprod.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from fastprod.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from support.oracle.record_batch import encode_batch

PATIENCE_S = 20.0
# No test waits for it to pass by itself, however slowly the replicas come along.
PRODUCE_TIMEOUT_MS = 30_000

CLOSED = "closed"
NOTHING = "nothing"


def api_named(name: str) -> Api[Any, Any]:
    return next(api for api in APIS.values() if api.name == name)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until another thread of the broker has brought it about."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.0005)


class Asked:
    """A request under way. `answer` is None until it is answered."""

    request: Request

    def __init__(self, api: Api[Any, Any], version: int) -> None:
        self._api = api
        self._version = version
        self._responses: list[Response] = []

    def send_response(self, response: Response) -> None:
        """What the RequestChannel would route."""
        self._responses.append(response)

    @property
    def answer(self) -> Any:
        """Decoded; CLOSED, NOTHING (acks=0), or None for not yet."""
        if not self._responses:
            return None
        (response,) = self._responses
        if isinstance(response, CloseConnectionResponse):
            return CLOSED
        if isinstance(response, NoOpResponse):
            return NOTHING
        assert isinstance(response, SendResponse)
        data = b"".join(bytes(memoryview(part)) for part in response.parts)
        assert struct.unpack_from(">i", data) == (len(data) - 4,)
        flexible = self._api.has_flexible_response_header(self._version)
        return self._api.response.decode(self._version, memoryview(data), 9 if flexible else 8)

    @property
    def raw(self) -> bytes:
        """Header and body of the answer."""
        (response,) = self._responses
        assert isinstance(response, SendResponse)
        return b"".join(bytes(memoryview(part)) for part in response.parts)[4:]

    def wait(self) -> Any:
        """The answer, which another thread gives."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.answer) is None:
            assert time.monotonic() < deadline, "no answer"
            time.sleep(0.0005)
        return found


class BrokerWorld:
    """NodeServices with nodes that are up but have no sockets; closed on leaving.

    Attributes:
        principal: who sends the requests.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        topics: dict[str, int] | None = None,
        clock: Clock | None = None,
        faults: Faults | None = None,
        data_dir: Path | None = None,
        table: ApiTable | None = None,
        **config: Any,
    ) -> None:
        self.clock = clock or SystemClock()
        self.principal = ANONYMOUS
        self.state = NodeServices(
            BrokerConfig.make(config),
            self.clock,
            range(brokers),
            data_dir,
            table or ApiTable(),
            faults or Faults(),
        )
        for node_id in range(brokers):
            self.state.cluster.node_up(NodeAddress(node_id, "127.0.0.1", 9000 + node_id))
        for name, count in (topics or {}).items():
            if self.state.topics.get(name) is None:
                self.state.topics.create(name, count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.state.close()

    def post(self, name: str, version: int, message: Any, node_id: int = 0) -> Asked:
        """Have a request handled; it may be answered later."""
        body = b"".join(
            bytes(memoryview(each)) for each in api_named(name).request.encode(version, message)
        )
        return self.post_bytes(name, version, body, node_id)

    def post_bytes(self, name: str, version: int, body: bytes, node_id: int = 0) -> Asked:
        """The same with a body of any bytes."""
        api = api_named(name)
        head = struct.pack(">hhih", api.key, version, 7, 4) + b"test"
        if api.has_flexible_request_header(version):
            head += b"\0"
        frame = bytearray(head + body)
        header = self.state.table.parse_header(memoryview(frame))
        connection = Connection("a:1-b:2-0-0", 0, "PLAINTEXT", 0, ("a", 1), ("b", 2))
        connection.principal = self.principal
        asked = Asked(api, version)
        # A bytearray is as good a buffer as a Frame, which only the selector can make.
        request = Request(cast(Frame, frame), header, connection, node_id, 0, asked)
        asked.request = request
        handle_request(self.state.apis, request, self.clock)
        return asked

    def ask(self, name: str, version: int, message: Any, node_id: int = 0) -> Any:
        """Have a request handled; returns the answer, which may have to be waited for."""
        return self.post(name, version, message, node_id).wait()

    def produce(
        self,
        batch: bytes | None,
        topic: str = "t",
        partition: int = 0,
        *,
        acks: int = -1,
        version: int = 9,
        node_id: int = 0,
    ) -> PartitionProduceResponse:
        """Produce one batch; returns the partition's answer, which replicas may be waited for."""
        message = produce_request([(topic, partition, batch)], acks)
        answer = self.post("Produce", version, message, node_id).wait()
        return cast(PartitionProduceResponse, answer.responses[0].partition_responses[0])


def move_leader(partition: Partition | None, node_id: int, live: Collection[int]) -> int:
    """Let another node lead, or none (-1), with nothing written down; the new leader epoch."""
    assert partition is not None
    partition.take(partition.plan_leader(node_id, live))
    return partition.leader_epoch


def batch_of(*values: bytes, timestamp: int | None = None, **fields: Any) -> bytes:
    """One batch of records without keys; the fields are `encode_batch`'s."""
    at = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    return encode_batch([(at + n, None, value) for n, value in enumerate(values)], **fields)


def produce_request(
    parts: list[tuple[str, int, bytes | None]], acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    """Each part is (topic, partition, batch)."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic, partition, batch in parts:
        records = None if batch is None else memoryview(batch)
        topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[TopicProduceData(name=n, partition_data=p) for n, p in topics.items()],
    )


def fetch_request(
    parts: list[tuple[str, int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """Each part is (topic, partition, offset)."""
    topics: dict[str, list[FetchPartition]] = {}
    for topic, partition, offset in parts:
        topics.setdefault(topic, []).append(
            FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=leader_epoch,
            )
        )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
    )
