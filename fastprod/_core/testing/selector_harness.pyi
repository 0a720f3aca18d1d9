"""A Python door to the Selector, for tests and benchmarks alone."""

from typing import NamedTuple, Self

from typing_extensions import disjoint_base

from fastprod._core.tls.tls_context import TlsContext

class Disconnect(NamedTuple):
    """Why a channel is gone: a name of channel.CLOSE_REASONS, an errno or 0, a frame size or 0; and
    of TLS, the error of the certificate or 0, OpenSSL's reason or 0, lines of key=value."""

    channel_id: int
    reason: str
    err: int
    bad_size: int
    tls_verify: int
    tls_reason: int
    text: str

class PollEvents(NamedTuple):
    """The four lists of one poll. A receive is (channel id, frame without its size prefix)."""

    connected: list[int]
    completed_sends: list[int]
    receives: list[tuple[int, bytes]]
    disconnected: list[Disconnect]

class ChannelCounters(NamedTuple):
    """The descriptor, bytes sent and received so far, the receive buffer's size and what it holds,
    in bytes, whether a send is under way, and the interest registered (1 read, 2 write)."""

    fd: int
    sent_bytes: int
    received_bytes: int
    buffer_bytes: int
    held_bytes: int
    sending: bool
    interest: int

@disjoint_base
class SelectorForTest:
    """A Selector whose channels are numbers. Threads: `wake` and `post` from any, the rest from
    one. Raises KeyError for a channel that is closed, OSError where a system call failed."""

    def __new__(cls, force_poll: bool = False, max_receive_bytes: int = -1) -> Self:
        """`force_poll`: poll(2) even where there is epoll. `max_receive_bytes` < 0: no limit."""
    @property
    def backend(self) -> str:
        """ "epoll" or "poll"."""
    def close(self) -> None:
        """Close every channel and free the selector. Again: nothing happens."""
    def note_opening(self, fd: int) -> None:
        """Say that a descriptor is about to be a channel's, as in the middle of a connect."""
    def abandon(self) -> None:
        """In a forked child: let go of everything and leave the parent's connections alone."""
    def connect(
        self,
        address: tuple[str, int] | tuple[str, int, int, int] | str,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        in_records: bool = False,
        tls: TlsContext | None = None,
        server_name: str = "",
        proxy: bytes | None = None,
    ) -> int:
        """Start to connect; returns the channel's id. -1: the system's buffer sizes.

        `in_records`: not plain TCP, but the transport of record_transport.pyx. `tls`: by TLS, to
        `server_name`, with the ticket of the connection before. `proxy`: the plan of what is said
        to a proxy at `address` first; ValueError: it makes no sense.
        """
    def register(self, fd: int, tls: TlsContext | None = None) -> int:
        """Adopt a connected descriptor; returns the channel's id."""
    def is_resumed(self, channel_id: int) -> bool:
        """Whether a connection by TLS was spared a whole handshake."""
    def ssl_address(self, channel_id: int) -> int:
        """Where the SSL object of a connection by TLS is."""
    def send(self, channel_id: int, buffers: list[bytes]) -> str:
        """Start to send the buffers as they are. Returns OK, BLOCKED, BUSY, IO or CLOSED."""
    def poll(self, timeout_ms: int, max_idle_ms: int = -1) -> PollEvents:
        """One poll. Blocks up to `timeout_ms` (0: not at all; < 0: no bound)."""
    def close_channel(self, channel_id: int) -> None:
        """Close it at once; no poll will list it."""
    def mute(self, channel_id: int, muted: bool) -> None:
        """Stop or resume reading."""
    def wake(self) -> None:
        """End a sleeping poll."""
    def channel(self, channel_id: int) -> ChannelCounters:
        """How far the channel is."""
    def counters(self) -> dict[str, int]:
        """channels, polls, io_wait_ns, has_buffered."""
    def post(self, count: int, patience_ms: int) -> int:
        """Publish `count` pieces of work, each with a wake, waiting for each to be done; without
        the GIL. Returns how many were published before `patience_ms` had passed."""
    def serve_posts(self, count: int, bound_ms: int) -> tuple[int, int]:
        """Park, look, poll until `count` pieces are done; without the GIL. Returns how many polls
        were ready to sleep, and how many slept for all of `bound_ms` (a lost wake ends it)."""
    def exchange(
        self, channel_id: int, frame: bytes, count: int, answered: bool, patience_ms: int
    ) -> list[int]:
        """Send a frame (prefix included) `count` times, each after the one before is gone or, if
        `answered`, has come back equal; without the GIL. Returns the `count` starting moments and
        the end, in monotonic ns. Raises TimeoutError after `patience_ms`."""
    def collect(self, channel_id: int, count: int, patience_ms: int) -> int:
        """Receive `count` frames without the GIL; returns their bytes without size prefixes."""
