"""LoginError: there is no token, and why."""

from __future__ import annotations

from typing import Final

SHORT_PATIENCE_S: Final = 0.6
"""For what often passes at once, so that who waits still hears of it within a second."""


class LoginError(Exception):
    """There is no token; the text says why, and has neither token nor secret.

    Args:
        text: the reason.
        patience_s: a first token is tried for again so long before callers hear of it; 0, the
            default: a second try at once would end alike.
    """

    def __init__(self, text: str, *, patience_s: float = 0.0) -> None:
        super().__init__(text)
        self.patience_s = patience_s
