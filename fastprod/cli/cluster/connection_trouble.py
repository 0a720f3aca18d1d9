"""ConnectionTrouble: why a broker could not be asked."""

from __future__ import annotations


class ConnectionTrouble(Exception):
    """Why a broker could not be asked, in one sentence that names its address.

    Attributes:
        cause: "dns", "refused", "timeout", "network", "closed", "not kafka", "answer", "protocol"
            (another one is spoken there), "tls", "authentication" or "proxy".
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
