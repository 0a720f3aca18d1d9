"""KafkaRequestHandlerPool: the threads that handle requests beside the network's (B-A5)."""

from __future__ import annotations

import threading
import time

from fastprod.broker.network.request_channel import SHUTDOWN, RequestChannel
from fastprod.broker.network.request_handling import RequestHandler, handle_request
from fastprod.broker.threads.clock import Clock
from fastprod.errors import IllegalStateError


class KafkaRequestHandlerPool:
    """Threads that take requests from one RequestChannel until they are told to end.

    Args:
        request_channel: whose requests they handle.
        handler: what answers them.
        thread_count: how many, 1 or more (`num_io_threads`).
        clock: stamps the requests.
    """

    def __init__(
        self,
        request_channel: RequestChannel,
        handler: RequestHandler,
        thread_count: int,
        clock: Clock,
    ) -> None:
        if thread_count < 1:
            raise ValueError(f"a pool of handlers needs 1 thread or more, not {thread_count}")
        self._channel = request_channel
        self._handler = handler
        self._clock = clock
        self._started_ns = time.monotonic_ns()
        self._stopping = False
        # One entry for each thread, written by that thread only.
        self._idle_ns = [0] * thread_count
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(index,),
                name=f"fastprod-request-handler-{request_channel.node_id}-{index}",
                daemon=True,
            )
            for index in range(thread_count)
        ]

    @property
    def thread_count(self) -> int:
        return len(self._threads)

    @property
    def avg_idle_ratio(self) -> float:
        """`RequestHandlerAvgIdlePercent` since the start, 0 to 1, up to each thread's last wait."""
        elapsed_ns = max(time.monotonic_ns() - self._started_ns, 1)
        return min(1.0, sum(self._idle_ns) / elapsed_ns / len(self._threads))

    def start(self) -> None:
        """Start the threads, once."""
        self._started_ns = time.monotonic_ns()
        for thread in self._threads:
            thread.start()

    def begin_shutdown(self) -> None:
        """Let every thread end when the requests that wait are handled (B-A5.5). Any thread."""
        if self._stopping:
            return
        self._stopping = True
        for thread in self._threads:
            if thread.ident is not None:
                self._channel.send_shutdown()

    def shutdown(self, timeout_s: float) -> None:
        """`begin_shutdown`, then wait for the threads; may be repeated.

        Raises:
            TimeoutError: a request in progress takes longer than `timeout_s`.
            IllegalStateError: called by one of the threads.
        """
        if threading.current_thread() in self._threads:
            raise IllegalStateError("a handler cannot wait for its own end")
        self.begin_shutdown()
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        busy = [thread.name for thread in self._threads if thread.is_alive()]
        if busy:
            raise TimeoutError(f"{', '.join(busy)} still handling a request after {timeout_s} s")

    def _run(self, index: int) -> None:
        while True:
            waiting_ns = time.monotonic_ns()
            item = self._channel.receive()
            self._idle_ns[index] += time.monotonic_ns() - waiting_ns
            if item is SHUTDOWN:
                return
            handle_request(self._handler, item, self._clock)
            # Free the request's frame now, not when the next request comes.
            del item
