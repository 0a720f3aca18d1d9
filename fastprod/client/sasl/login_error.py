"""LoginError: there is no token, and why."""

from __future__ import annotations


class LoginError(Exception):
    """There is no token; the text says why, and has neither token nor secret.

    Args:
        text: the reason.
        is_lasting: a second try at once would end alike.
    """

    def __init__(self, text: str, *, is_lasting: bool = True) -> None:
        super().__init__(text)
        self.is_lasting = is_lasting
