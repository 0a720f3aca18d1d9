"""The Selector as a server's loop uses it from Python: frames in, buffers out."""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from typing_extensions import Buffer

from fastprod._core.tls.tls_context import TlsContext

SENT: Final[int]
PENDING: Final[int]
FAILED: Final[int]

@final
class Frame(Buffer):
    """One complete frame without its size prefix, as a writable buffer. It owns its memory.

    Any thread, and for as long as anybody holds it or a memoryview of it.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raise TypeError: `ServerSelector.poll` makes them."""
    def __len__(self) -> int: ...
    @property
    def channel_id(self) -> int:
        """Channel it came from."""

class Disconnect(NamedTuple):
    """A channel that ended by itself.

    Attributes:
        channel_id: which.
        reason: a name of `fastprod._core.io.channel.CLOSE_REASONS`.
        err: the errno behind it, or 0.
        bad_size: the frame size that was refused, for BAD_FRAME and FRAME_TOO_LARGE.
        tls_text: for TLS: what OpenSSL says, in lines of key=value (reason, verified, and of a
            certificate that was refused subject, issuer, names, not_before, not_after).
    """

    channel_id: int
    reason: str
    err: int
    bad_size: int
    tls_text: str = ""

class PollEvents(NamedTuple):
    """What one poll found.

    Attributes:
        completed_sends: channels whose PENDING send has been written.
        receives: at most one frame a channel.
        disconnected: channels closed by the peer, by an error or by idle expiry.
    """

    completed_sends: list[int]
    receives: list[Frame]
    disconnected: list[Disconnect]

@final
class ServerSelector:
    """Many accepted connections in one thread (contract B-A4). Close it when done.

    One thread uses it; `wake` may be called by any. Channel ids are never used twice.

    Args:
        max_receive_bytes: a larger frame closes its channel; -1: no limit.
        force_poll: use poll(2) although there is epoll.
        pool_bytes: what unfinished frames, and finished ones as long as anybody holds them, may
            take together, frames below 64 KiB aside; -1: no bound. One frame fits in any case.
            Without room for more the channels are not read, and of those that have been at their
            frame for more than a second the oldest is closed, as OUTGROWN.

    Raises:
        OSError: no descriptor is left for it.
    """

    def __init__(
        self, max_receive_bytes: int = -1, force_poll: bool = False, pool_bytes: int = -1
    ) -> None: ...
    @property
    def backend(self) -> str:
        """epoll or poll."""
    def register(self, fd: int, tls: TlsContext | None = None) -> int:
        """Take over the connected descriptor `fd`; returns the channel's id.

        With `tls`, a server's context, the client must begin with a TLS handshake; a send before
        its end gives FAILED, and one that fails ends in `disconnected` with the reason TLS.

        Raises:
            OSError: it cannot be watched; `fd` is still the caller's.
            ValueError: the selector is closed, or `tls` is a client's.
            MemoryError: there is no memory for TLS; `fd` is still the caller's.
        """
    def park(self) -> None:
        """Announce that `poll` may sleep: to be called before the last look for work.

        Whoever makes work publishes it and then calls `wake`, which costs nothing while the
        thread is not parked.
        """
    def poll(self, timeout_ms: float, max_idle_ms: float = -1.0) -> PollEvents:
        """Wait up to `timeout_ms` (-1: without bound) for something to do, and do it.

        Blocks without the GIL; `wake` ends the wait. May return early and empty-handed. With
        `max_idle_ms` >= 0 at most one channel a poll, the least recently used, is expired, and the
        wait is no longer than until the next one is due.

        Raises:
            ValueError: the selector is closed.
            OSError: the poller failed; the channels are as before.
            MemoryError: no room for what arrived.
        """
    def send(self, channel_id: int, parts: Sequence[Buffer]) -> int:
        """Send `parts`, a whole frame with its size prefix, without copying them.

        They are kept until they are written. Does not block.

        Returns:
            SENT; PENDING: `completed_sends` will name the channel, unless `disconnected` does;
            FAILED: `disconnected` will name it.

        Raises:
            KeyError: no such channel.
            RuntimeError: a send to it is pending (B-A4.3); the next poll disconnects it.
        """
    def mute(self, channel_id: int, muted: bool) -> None:
        """Stop or resume reading from the channel.

        Raises:
            KeyError: no such channel.
        """
    def limit(self, channel_id: int, max_bytes: int) -> None:
        """Take frames of at most `max_bytes` from the channel, from its next one on.

        A larger one closes it as soon as its size is known; -1: the selector's own limit, which is
        never exceeded.

        Raises:
            KeyError: no such channel.
        """
    def close_channel(self, channel_id: int) -> None:
        """Close it at once; `disconnected` will not name it. Nothing if there is none."""
    def least_recently_used(self) -> int | None:
        """The channel whose last read or write is the longest ago."""
    @property
    def channel_count(self) -> int: ...
    @property
    def held_bytes(self) -> int:
        """What is taken of the pool now. Any thread."""
    @property
    def io_wait_ns(self) -> int:
        """Time spent waiting in polls, the running one included. Any thread."""
    def bytes_of(self, channel_id: int) -> tuple[int, int]:
        """(received, sent) bytes of the channel so far.

        Raises:
            KeyError: no such channel.
        """
    def peer_certificate(self, channel_id: int) -> bytes | None:
        """The certificate, in DER, that the other side of a TLS channel has shown; None: it has
        shown none, its handshake is not over, or the channel has no TLS.

        Raises:
            KeyError: no such channel.
        """
    def wake(self) -> None:
        """End the poll that waits, or the next one. Any thread; also after `close`."""
    def close(self) -> None:
        """Close every channel and the poller. May be repeated."""
    def abandon(self) -> None:
        """In the child of a fork: let go of the descriptors; the parent's stay untouched."""
