"""RequestChannel: requests on their way to the handlers, responses on their way back (A5)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from fastprod.broker.clock import Clock
from fastprod.broker.request import Request, Response, complete
from fastprod.errors import IllegalStateError


class CallbackRequest(NamedTuple):
    """An asynchronous completion that goes on in a handler's thread (A5.2)."""

    function: Callable[[], None]
    request: Request


class ShutdownRequest(Enum):
    """Ends the handler that takes it (A5.5)."""

    SHUTDOWN = 0


SHUTDOWN: Final = ShutdownRequest.SHUTDOWN


class ResponseProcessor(Protocol):
    """What the channel needs of a Processor. Any thread."""

    @property
    def id(self) -> int: ...
    @property
    def handles_inline(self) -> bool: ...
    @property
    def response_queue_size(self) -> int: ...
    def enqueue_response(self, response: Response) -> None: ...
    def wake(self) -> None: ...


class RequestChannel:
    """The two queues between the Processors of one node and its handlers. Any thread.

    Args:
        clock: stamps the requests.
        capacity_count: requests that may wait; the Processor that has one more blocks (A5.1).
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
        self._callbacks: deque[CallbackRequest] = deque()
        self._processors: dict[int, ResponseProcessor] = {}

    # Processors come and go.

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
        """Drop its later responses (A5.3)."""
        with self._lock:
            self._processors.pop(processor_id, None)

    # Requests.

    def send_request(self, request: Request, keep_waiting: Callable[[], bool]) -> bool:
        """Queue `request`; blocks while the queue is full.

        Args:
            request: read from a connection.
            keep_waiting: asked before each wait and after each `wake_senders`.

        Returns:
            False: `keep_waiting` said so; the request is not queued.
        """
        with self._lock:
            while len(self._requests) >= self.capacity_count:
                if not keep_waiting():
                    return False
                self._drained.wait()
            self._requests.append(request)
            self._filled.notify()
        return True

    def offer_request(self, request: Request) -> bool:
        """Queue `request` unless the queue is full. Does not block."""
        with self._lock:
            if len(self._requests) >= self.capacity_count:
                return False
            self._requests.append(request)
            self._filled.notify()
        return True

    def wake_senders(self) -> None:
        """Have everybody in `send_request` ask its `keep_waiting`."""
        with self._lock:
            self._drained.notify_all()

    def send_callback(self, function: Callable[[], None], request: Request) -> None:
        """Have `function` called in a handler's thread, before the requests that wait."""
        with self._lock:
            self._callbacks.append(CallbackRequest(function, request))
            self._filled.notify()
            processor = self._processors.get(request.connection.processor_id)
        if processor is not None and processor.handles_inline:
            processor.wake()

    def send_shutdown(self) -> None:
        """End one handler, behind the requests that wait. It needs no room in the queue."""
        with self._lock:
            self._requests.append(SHUTDOWN)
            self._filled.notify()

    def receive(self) -> Request | CallbackRequest | ShutdownRequest:
        """Wait for something to do: callbacks first. For a handler's thread.

        The wait ends with `send_request`, `send_callback` or `send_shutdown`.
        """
        with self._lock:
            while not self._callbacks and not self._requests:
                self._filled.wait()
            return self._take()

    def receive_now(self) -> Request | CallbackRequest | ShutdownRequest | None:
        """As `receive`, but None instead of waiting."""
        with self._lock:
            return self._take() if self._callbacks or self._requests else None

    def _take(self) -> Request | CallbackRequest | ShutdownRequest:
        taken: Request | CallbackRequest | ShutdownRequest
        if self._callbacks:
            taken = self._callbacks.popleft()
        else:
            taken = self._requests.popleft()
            self._drained.notify()
            if isinstance(taken, Request):
                taken.dequeued_ns = self._clock.monotonic_ns()
        return taken

    @property
    def request_queue_size(self) -> int:
        return len(self._requests)

    @property
    def has_callbacks(self) -> bool:
        return bool(self._callbacks)

    # Responses.

    def send_response(self, response: Response) -> None:
        """Hand `response` to the Processor of its connection, or drop it if that is gone (A5.3)."""
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
