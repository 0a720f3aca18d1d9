"""AuthenticationCounters: how often connections authenticated, and how long repetitions took."""

from __future__ import annotations


class AuthenticationCounters:
    """Counts for `metrics()`. Written by the control thread, read by any."""

    def __init__(self) -> None:
        self._totals = dict.fromkeys(
            (
                "authentications",
                "failed_authentications",
                "reauthentications",
                "failed_reauthentications",
                "reauthentication_ms",
            ),
            0,
        )
        self._longest_ms = 0

    def succeeded(self) -> None:
        """A connection may be used; as in Kafka also one without TLS and SASL."""
        self._totals["authentications"] += 1

    def failed(self) -> None:
        """One side of a connection did not accept the other."""
        self._totals["failed_authentications"] += 1

    def repeated(self, took_ms: int) -> None:
        """A session was renewed (KIP-368); records waited for so long at most."""
        self._totals["reauthentications"] += 1
        self._totals["reauthentication_ms"] += took_ms
        self._longest_ms = max(self._longest_ms, took_ms)

    def failed_again(self) -> None:
        """A connection that had been accepted was not again."""
        self._totals["failed_reauthentications"] += 1

    def totals(self) -> dict[str, int]:
        """Each count, and the ms that records waited for renewals together."""
        return dict(self._totals)

    def longest_ms(self, reset: bool) -> int:
        """The longest such wait since it last started anew."""
        found = self._longest_ms
        if reset:
            self._longest_ms = 0
        return found
