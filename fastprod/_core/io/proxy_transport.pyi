"""What Python sees of `proxy_transport`; the transport itself is native (see the .pxd)."""

from enum import IntEnum
from typing import final

from fastprod._core.io.layer import Layer

class ProxyKind(IntEnum):
    """The first byte of a plan; see proxy_transport.pxd."""

    PROXY_SOCKS5 = ...
    PROXY_HTTP = ...

@final
class ProxyPlan(Layer):
    """What is said to a proxy to reach one broker.

    Args:
        data: the kind (`ProxyKind`), one byte, then each message behind its size (16 bits,
            big-endian).

    Raises:
        ValueError: it is no such thing.
        MemoryError: there is no memory for it.
    """

    def __init__(self, data: bytes) -> None: ...
    @property
    def data(self) -> bytes:
        """What it was made of."""
