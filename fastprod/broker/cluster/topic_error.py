"""TopicError: why a topic cannot be made, found or changed."""

from __future__ import annotations

_MOST_MESSAGE_LENGTH = 1000


class TopicError(Exception):
    """A topic cannot be made, found or changed.

    Attributes:
        code: Kafka's error code.
        message: what is wrong, for the client.
    """

    def __init__(self, code: int, message: str) -> None:
        # It may quote the client, and has to fit into a string of the protocol.
        if len(message) > _MOST_MESSAGE_LENGTH:
            message = f"{message[:_MOST_MESSAGE_LENGTH]}..."
        super().__init__(message)
        self.code = code
        self.message = message
