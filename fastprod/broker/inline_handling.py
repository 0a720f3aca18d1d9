"""Single-loop mode: a Processor's thread handles the requests that it reads (A11)."""

from __future__ import annotations

from fastprod.broker.clock import Clock
from fastprod.broker.request import Request
from fastprod.broker.request_channel import CallbackRequest, RequestChannel
from fastprod.broker.request_handler import RequestHandler, handle_callback, handle_request


class InlineHandling:
    """The handler's side of a RequestChannel, in a network thread that must not wait for it.

    Args:
        channel: may be shared with other Processors that do the same.
        handler: what answers the requests.
        clock: stamps them.
    """

    def __init__(self, channel: RequestChannel, handler: RequestHandler, clock: Clock) -> None:
        self._channel = channel
        self._handler = handler
        self._clock = clock

    def send_request(self, request: Request) -> None:
        """Queue `request`; if there is no room, handle what waits: nobody else would."""
        while not self._channel.offer_request(request):
            self.handle(1)

    def handle(self, count: int) -> None:
        """Handle `count` requests, as many as were queued, and every callback.

        Several Processors may share the channel. Each takes as many as it gave, so that nothing
        is left behind, whoever's request it was.
        """
        channel = self._channel
        while count > 0 or channel.has_callbacks:
            item = channel.receive_now()
            if isinstance(item, Request):
                count -= 1
                handle_request(self._handler, item, self._clock)
            elif isinstance(item, CallbackRequest):
                handle_callback(self._handler, item, self._clock)
            else:
                return

    @property
    def has_work(self) -> bool:
        """Whether a callback waits: another thread queued it."""
        return self._channel.has_callbacks
