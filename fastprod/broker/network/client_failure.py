"""Why a connection has ended, where that is a mistake of the client or of a setting."""

from __future__ import annotations

from fastprod._core.io.server_selector import Disconnect
from fastprod.broker.network.tls.tls_failure import tls_failure


def client_failure(gone: Disconnect) -> str | None:
    """What somebody has to change; None: nothing."""
    if gone.reason == "TLS":
        return f"no TLS connection: {tls_failure(gone.tls_text)}"
    if gone.reason == "FRAME_TOO_LARGE":
        return (
            f"closed, it announced a request of {gone.bad_size:,} bytes, over "
            "socket.request.max.bytes, or over what may come before authentication; or it does "
            "not speak Kafka's protocol"
        )
    if gone.reason == "OUTGROWN":
        return (
            "closed, it was the slowest of the senders whose requests took all of "
            "queued.max.request.bytes: raise it if they mean well"
        )
    return None
