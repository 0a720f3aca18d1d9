"""ServerMechanism: what the broker's side of each SASL mechanism can do."""

from __future__ import annotations

from typing import Protocol

from fastprod.errors import KafkaError


class InvalidCredentialsError(KafkaError):
    """A token that proves nothing.

    Attributes:
        told: what the client is told; None: no more than that its credentials are invalid, so that
            nobody learns by it which users there are.
    """

    def __init__(self, told: str | None = None) -> None:
        super().__init__(told or "invalid credentials")
        self.told = told


class ServerMechanism(Protocol):
    """One exchange of tokens with one client. Its connection's thread; never blocks."""

    @property
    def is_done(self) -> bool:
        """Whether the client has proved who it is."""

    @property
    def user(self) -> str:
        """Who it is, once it is done."""

    @property
    def expires_ms(self) -> int | None:
        """When its credentials expire, in milliseconds since 1970; None: they do not."""

    def next(self, token: bytes) -> bytes:
        """Take the client's token and return the broker's, which may be empty.

        Raises:
            InvalidCredentialsError: the exchange has failed.
        """
