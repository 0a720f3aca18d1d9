"""RateQuota: how many connections a second, and how long to wait when there are more (B-A8.4)."""

from __future__ import annotations

from typing import Final

from fastprod.broker.network.windowed_rate import SampledStat

UNLIMITED: Final = 2**31 - 1
# Addresses with a rate of their own that are remembered before idle ones are looked for.
_ADDRESSES_KEPT: Final = 1024


def checked_rate(name: str, rate_per_s: float) -> float:
    """Return `rate_per_s` if it is above 0.

    Raises:
        ValueError: it is not above 0.
    """
    if rate_per_s <= 0:
        raise ValueError(f"{name} is {rate_per_s}; a rate is connections a second, above 0")
    return rate_per_s


class RateQuota:
    """A rate and its limit.  Not thread-safe: the caller has a lock.

    Args:
        limit: connections a second, above 0.
        window_count: windows it is measured over.
        window_ns: length of one, and the longest throttle.

    Attributes:
        limit: may be changed at any time.
        accepted: the connections that count against the limit.
        throttled_ms: what it made connections wait.
    """

    __slots__ = ("accepted", "limit", "throttled_ms", "window_ns")

    def __init__(self, limit: float, window_count: int, window_ns: int) -> None:
        self.limit = limit
        self.window_ns = window_ns
        self.accepted = SampledStat(window_count, window_ns)
        self.throttled_ms = SampledStat(window_count, window_ns)

    def throttle_ns(self, now_ns: int) -> int:
        """How long to wait until the rate has fallen to the limit, at most a window."""
        if self.limit >= UNLIMITED:
            return 0  # at once: each connection asks, and others wait for what that takes
        over = self.accepted.rate(now_ns) - self.limit
        if over <= 0:
            return 0
        return min(int(over / self.limit * self.accepted.covered_ns(now_ns)), self.window_ns)

    def record(self, now_ns: int) -> int:
        """Count a connection; returns how long it has to wait."""
        self.accepted.record(1, now_ns)
        return self.throttle_ns(now_ns)

    def unrecord(self, now_ns: int) -> None:
        """Uncount a connection that was not accepted."""
        self.accepted.record(-1, now_ns)


class IpRateQuotas:
    """The rates of addresses: one limit for all, and some with their own.  As `RateQuota`."""

    __slots__ = ("_default", "_overrides", "_rates", "_window_count", "_window_ns")

    def __init__(self, window_count: int, window_ns: int) -> None:
        self._window_count = window_count
        self._window_ns = window_ns
        self._default: float = UNLIMITED
        self._overrides: dict[str, float] = {}
        self._rates: dict[str, RateQuota] = {}

    def limit(self, address: str) -> float:
        """Connections a second that `address` may open; `UNLIMITED`."""
        return self._overrides.get(address, self._default)

    def update(self, address: str | None, rate_per_s: float | None) -> None:
        """Set (None: take away) the limit of an address, or with None of those without one."""
        if address is None:
            self._default = UNLIMITED if rate_per_s is None else rate_per_s
        elif rate_per_s is None:
            self._overrides.pop(address, None)
        else:
            self._overrides[address] = rate_per_s
        for each in list(self._rates) if address is None else [address]:
            rate = self._rates.get(each)
            if rate is not None:
                rate.limit = self.limit(each)
                if rate.limit == UNLIMITED:
                    del self._rates[each]

    def try_record(self, address: str, now_ns: int) -> int:
        """Count a connection, unless it is too fast; returns how long it would have to wait."""
        limit = self.limit(address)
        if limit == UNLIMITED:
            return 0
        rate = self._rates.get(address) or self._add(address, limit, now_ns)
        throttle_ns = rate.record(now_ns)
        if throttle_ns > 0:
            rate.unrecord(now_ns)
        return throttle_ns

    def _add(self, address: str, limit: float, now_ns: int) -> RateQuota:
        if len(self._rates) >= _ADDRESSES_KEPT:
            self._rates = {
                each: rate for each, rate in self._rates.items() if rate.accepted.rate(now_ns) > 0
            }
        rate = self._rates[address] = RateQuota(limit, self._window_count, self._window_ns)
        return rate

    def accept_rates(self, now_ns: int) -> dict[str, float]:
        """Recent connections per second, by address; of those that have a limit."""
        return {each: rate.accepted.rate(now_ns) for each, rate in self._rates.items()}
