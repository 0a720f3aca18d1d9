"""Mechanism: one side of one SASL exchange, and what all of them have in common."""

from __future__ import annotations

from typing import Protocol


class MechanismError(Exception):
    """A mechanism cannot go on; the text says why and has no secret."""


class Mechanism(Protocol):
    """The client's side of one exchange; a new one for every connection and re-authentication.

    Attributes:
        user: whom it says it is, for errors, such as "user 'ada'"; never a secret.
        hint: what to look at when the broker refuses it, for errors.
        secrets: texts that must not be shown, if a broker sends them back.
        is_done: the broker proved what it has to, and nothing is left to send.
        may_block: its methods may wait for the network, and belong on a thread of their own.
    """

    @property
    def user(self) -> str: ...
    @property
    def hint(self) -> str: ...
    @property
    def secrets(self) -> tuple[str, ...]: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def may_block(self) -> bool: ...

    def initial(self) -> bytes:
        """The first message.

        Raises:
            MechanismError: there is none.
        """

    def next(self, challenge: bytes) -> bytes | None:
        """The answer to a message of the broker's; None: nothing is left to send.

        Raises:
            MechanismError: the message is damaged, or refuses us, or does not prove what it has to.
        """
