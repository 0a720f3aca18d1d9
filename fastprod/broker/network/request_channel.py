"""RequestChannel: requests on their way to the handlers, responses on their way back (B-A5)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from fastprod.broker.network.request import Request, Response, complete
from fastprod.broker.threads.clock import Clock
from fastprod.errors import IllegalStateError


class ShutdownRequest(Enum):
    """Tells the handler thread that takes it to end (B-A5.5)."""

    SHUTDOWN = 0


SHUTDOWN: Final = ShutdownRequest.SHUTDOWN


class ResponseProcessor(Protocol):
    """What the channel needs of a Processor. Any thread."""

    @property
    def id(self) -> int: ...
    @property
    def response_queue_size(self) -> int: ...
    def enqueue_response(self, response: Response) -> None: ...


class RequestChannel:
    """The two queues between the Processors of one node and its handlers. Any thread.

    Args:
        clock: stamps the responses.
        capacity_count: requests that may wait; the Processor that has one more blocks (B-A5.1).
        node_id: node whose listeners it serves.
    """

    def __init__(self, clock: Clock, capacity_count: int = 500, node_id: int = 0) -> None:
        if capacity_count < 1:
            raise ValueError(f"the request queue needs room for 1 or more, not {capacity_count}")
        self.node_id = node_id
        self.capacity_count = capacity_count
        self._clock = clock
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._drained = threading.Condition(self._lock)
        self._requests: deque[Request | ShutdownRequest] = deque()
        self._processors: dict[int, ResponseProcessor] = {}

    # Processors.

    def add_processor(self, processor: ResponseProcessor) -> None:
        """Route the responses of its connections to `processor`.

        Raises:
            IllegalStateError: there is one with its id.
        """
        with self._lock:
            if processor.id in self._processors:
                raise IllegalStateError(f"a processor {processor.id} exists already")
            self._processors[processor.id] = processor

    def remove_processor(self, processor_id: int) -> None:
        """Drop its later responses (B-A5.3)."""
        with self._lock:
            self._processors.pop(processor_id, None)

    # Requests.

    def send_request(self, request: Request, keep_waiting: Callable[[], bool]) -> bool:
        """Queue `request`; blocks while the queue is full.

        Args:
            request: read from a connection.
            keep_waiting: asked before each wait and after each `wake_senders`.

        Returns:
            False if `keep_waiting` returned False: the request is not queued.
        """
        with self._lock:
            while len(self._requests) >= self.capacity_count:
                if not keep_waiting():
                    return False
                self._drained.wait()
            self._requests.append(request)
            self._filled.notify()
        return True

    def wake_senders(self) -> None:
        """Wake every thread that waits in `send_request`; each calls its `keep_waiting`."""
        with self._lock:
            self._drained.notify_all()

    def send_shutdown(self) -> None:
        """End one handler, behind the requests that wait. It needs no room in the queue."""
        with self._lock:
            self._requests.append(SHUTDOWN)
            self._filled.notify()

    def receive(self) -> Request | ShutdownRequest:
        """Wait for `send_request` or `send_shutdown`, and take what came first."""
        with self._lock:
            while not self._requests:
                self._filled.wait()
            taken = self._requests.popleft()
            self._drained.notify()
            return taken

    @property
    def request_queue_size(self) -> int:
        return len(self._requests)

    # Responses.

    def send_response(self, response: Response) -> None:
        """Hand `response` to the Processor of its connection, or drop it if that is gone
        (B-A5.3).
        """
        request = response.request
        if response.is_answer:
            request.response_enqueued_ns = self._clock.monotonic_ns()
        processor = self._processors.get(request.connection.processor_id)
        if processor is not None:
            processor.enqueue_response(response)
        else:
            complete(response)

    @property
    def response_queue_size(self) -> int:
        with self._lock:
            return sum(each.response_queue_size for each in self._processors.values())
