"""ConnectionQuotas: how many connections there may be, and how fast they may come (B-A8)."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from fastprod.broker.network.connection import canonical_address
from fastprod.broker.network.rate_quota import UNLIMITED, IpRateQuotas, RateQuota, checked_rate
from fastprod.broker.network.windowed_rate import SampledStat
from fastprod.broker.threads.clock import Clock
from fastprod.errors import ConfigError

_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000


class Quotas(Protocol):
    """What a Processor needs of ConnectionQuotas. Any thread."""

    def dec(self, listener_name: str, address: str) -> None:
        """A connection from the ip `address` has ended."""

    def max_connections_exceeded(self, listener_name: str) -> bool:
        """Whether this listener has to give up a connection (B-A3.14).

        Whoever makes it true calls `Processor.wake`: nobody asks periodically.
        """


class TooManyConnectionsError(Exception):
    """The address has too many connections; this one is counted: close it and `dec`.

    Attributes:
        address: the client's.
        limit_count: how many it may have.
    """

    def __init__(self, address: str, limit_count: int) -> None:
        super().__init__(
            f"{address} already has its {limit_count} connections"
            " (max_connections_per_ip, max_connections_per_ip_overrides)"
        )
        self.address = address
        self.limit_count = limit_count


class ConnectionThrottledError(Exception):
    """The address opens connections too fast; this one is not counted: close it at `end_ns`.

    Attributes:
        address: the client's.
        throttle_ms: how long to keep it waiting.
        end_ns: when that is over, in the clock's `monotonic_ns`.
    """

    def __init__(self, address: str, throttle_ms: float, end_ns: int) -> None:
        super().__init__(f"{address} opens connections too fast: wait {throttle_ms:.0f} ms")
        self.address = address
        self.throttle_ms = throttle_ms
        self.end_ns = end_ns


class WaitAbandonedError(Exception):
    """The wait for a slot was given up because the listener stops; nothing is counted."""


class _ListenerQuota(RateQuota):
    """A listener's part: its rate, its connections, and what addresses had to wait on it."""

    __slots__ = ("connection_count", "ip_throttled_ms", "max_connections")

    def __init__(
        self, max_connections: int, limit: float, window_count: int, window_ns: int
    ) -> None:
        super().__init__(limit, window_count, window_ns)
        self.max_connections = max_connections
        self.connection_count = 0
        self.ip_throttled_ms = SampledStat(window_count, window_ns)


def _always() -> bool:
    return True


def _ignore_blocked(_blocked_ns: int) -> None:
    """Default of `on_blocked`: do nothing."""


def checked_address(text: str) -> str:
    """Return an IP address as `ConnectionQuotas` knows it.

    Raises:
        ConfigError: it is none.
    """
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(text)
        # A zone names an interface of this machine, and no client by its address.
        if "%" not in text:
            return str(getattr(address, "ipv4_mapped", None) or address)
    raise ConfigError(f"{text!r} is no IP address; host names are not resolved")


def _checked_max_connections(count: int) -> int:
    if count < 0:
        raise ValueError(f"max_connections is {count}; 0 or more")
    return count


def _checked_listener_max(name: str, count: int) -> int:
    if count < 1:
        raise ValueError(f"{name}: max_connections is {count}; a listener needs 1 or more")
    return count


def _wrong_overrides(text: str) -> ConfigError:
    name = "max_connections_per_ip_overrides"
    return ConfigError(f"{name}: {text}", key=name)


def parse_overrides(text: str) -> dict[str, int]:
    """Read `max_connections_per_ip_overrides`: host:count,host:count; IPv6 hosts in brackets.

    Raises:
        ConfigError: an entry has another form.
    """
    found: dict[str, int] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        host, _, count = map(str.strip, entry.rpartition(":"))
        # Ten digits are enough for the largest number that Kafka takes.
        if not host or not count.isascii() or not count.isdigit() or len(count) > 10:
            raise _wrong_overrides(f"{entry!r} is not host:count, like 127.0.0.1:5")
        if int(count) > UNLIMITED:
            raise _wrong_overrides(f"{host} has {count}; {UNLIMITED:,} at most")
        found[host.removeprefix("[").removesuffix("]")] = int(count)
    return found


def resolved_overrides(overrides: Mapping[str, int]) -> dict[str, int]:
    """Return the overrides by address; host names are resolved.

    Raises:
        ConfigError: a count is negative, or there is no such host.

    Blocks: while the name server is asked.
    """
    found: dict[str, int] = {}
    for host, count in overrides.items():
        if count < 0:
            raise _wrong_overrides(f"{host} has {count}; 0 or more")
        try:
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise _wrong_overrides(f"{host!r} is no known host: {error}") from error
        for *_, address in answers:
            found[canonical_address(str(address[0]))] = count
    return found


def check_max_per_ip(count: int, overrides: Mapping[str, int]) -> int:
    """Return `max_connections_per_ip`, if somebody could connect with it.

    Raises:
        ConfigError: it is negative, or 0 without overrides.
    """
    if count < 0 or (count == 0 and not overrides):
        raise ConfigError(
            f"max_connections_per_ip is {count}: nobody could connect;"
            " 0 needs max_connections_per_ip_overrides",
            key="max_connections_per_ip",
        )
    return count


class ConnectionQuotas:
    """Counts every connection of a broker and holds it to the limits.  Any thread; blocks in `inc`.

    Every limit can be changed while it works, and those who wait see it at once (B-A8.5).

    Args:
        clock: measures rates and waits.
        max_connections: in all; the protected listener is exempt (B-A8.2).
        max_connections_per_ip: of one address; 0 only with overrides.
        max_connections_per_ip_overrides: host name or address -> its own limit.
        max_connection_creation_rate: connections a second in all; the protected listener is exempt.
        quota_window_num: windows that a rate is measured over, >= 1.
        quota_window_size_seconds: length of a window; also the longest throttle.
        inter_broker_listener_name: protected if there are others besides it.
        control_plane_listener_name: protected in its place.

    Raises:
        ValueError: a limit out of its range, or a host that cannot be resolved.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_connections: int = UNLIMITED,
        max_connections_per_ip: int = UNLIMITED,
        max_connections_per_ip_overrides: Mapping[str, int] | None = None,
        max_connection_creation_rate: float = UNLIMITED,
        quota_window_num: int = 11,
        quota_window_size_seconds: float = 1,
        inter_broker_listener_name: str | None = None,
        control_plane_listener_name: str | None = None,
    ) -> None:
        if quota_window_num < 1:
            raise ValueError(f"quota_window_num is {quota_window_num}; 1 or more")
        if quota_window_size_seconds <= 0:
            raise ValueError(f"quota_window_size_seconds is {quota_window_size_seconds}; above 0")
        self._clock = clock
        self._windows = (quota_window_num, round(quota_window_size_seconds * _NS_PER_S))
        self._inter_broker_listener = inter_broker_listener_name
        self._control_plane_listener = control_plane_listener_name
        # Guards all below; notified when a slot may be free, a limit has changed, a listener stops.
        self._changed = threading.Condition(threading.Lock())
        self._limits_version = 0
        self._max_connections = _checked_max_connections(max_connections)
        self._max_per_ip_overrides = resolved_overrides(max_connections_per_ip_overrides or {})
        self._max_per_ip = check_max_per_ip(max_connections_per_ip, self._max_per_ip_overrides)
        self._broker_rate = RateQuota(
            checked_rate("max_connection_creation_rate", max_connection_creation_rate),
            *self._windows,
        )
        self._ip_rates = IpRateQuotas(*self._windows)
        self._listeners: dict[str, _ListenerQuota] = {}
        self._counts: dict[str, int] = {}
        self._total_count = 0
        self._excess_listeners: list[Callable[[], None]] = []

    # Counting.

    def inc(
        self,
        listener_name: str,
        address: str,
        on_blocked: Callable[[int], None] = _ignore_blocked,
        keep_waiting: Callable[[], bool] = _always,
    ) -> None:
        """Count one more connection; blocks while there is no slot or the rate is too high
        (B-A8.1).

        Args:
            listener_name: where it came in.
            address: the client's IP address.
            on_blocked: called with the nanoseconds that it blocked, if it did.
            keep_waiting: asked after each `wake_waiters`; False gives up.

        Raises:
            ConnectionThrottledError: not counted; to be closed later.
            TooManyConnectionsError: counted all the same; to be closed and `dec`-ed.
            WaitAbandonedError: not counted.
            ValueError: no such listener.
        """
        address = canonical_address(address)
        with self._changed:
            listener = self._listener(listener_name)
            exempt = self._is_protected(listener_name)
            self._wait_for_slot(listener, exempt, on_blocked, keep_waiting)
            self._record_ip_rate(listener, exempt, address)
            count = self._counts.get(address, 0)
            self._counts[address] = count + 1
            self._total_count += 1
            listener.connection_count += 1
            limit = self._max_per_ip_overrides.get(address, self._max_per_ip)
            crowded = self._total_count > self._max_connections
        if crowded:
            self._tell_of_excess()
        if count >= limit:
            raise TooManyConnectionsError(address, limit)

    def dec(self, listener_name: str, address: str) -> None:
        """Count one connection less: it is closed.

        Raises:
            ValueError: the address has none (B-A8.3): a bug of the caller.
        """
        address = canonical_address(address)
        with self._changed:
            count = self._counts.get(address)
            if count is None:
                raise ValueError(f"{address} has no connection that could end ({listener_name})")
            if count == 1:
                del self._counts[address]
            else:
                self._counts[address] = count - 1
            self._total_count -= 1
            listener = self._listeners.get(listener_name)
            if listener is not None:
                listener.connection_count -= 1
            self._changed.notify_all()

    def wake_waiters(self) -> None:
        """Wake every thread that waits in `inc`; each calls its `keep_waiting`."""
        with self._changed:
            self._changed.notify_all()

    def _wait_for_slot(
        self,
        listener: _ListenerQuota,
        exempt: bool,
        on_blocked: Callable[[int], None],
        keep_waiting: Callable[[], bool],
    ) -> None:
        start_ns = now_ns = self._clock.monotonic_ns()
        deadline_ns = now_ns + self._record_rates(listener, exempt, now_ns)
        if deadline_ns == now_ns and self._has_slot(listener, exempt):
            return
        listener.throttled_ms.record((deadline_ns - now_ns) / _NS_PER_MS, now_ns)
        version = self._limits_version
        try:
            while now_ns < deadline_ns or not self._has_slot(listener, exempt):
                if not keep_waiting():
                    self._unrecord_rates(listener, exempt, now_ns)
                    raise WaitAbandonedError("the listener stops")
                self._clock.wait(self._changed, deadline_ns if now_ns < deadline_ns else None)
                now_ns = self._clock.monotonic_ns()
                if version != self._limits_version:
                    version = self._limits_version
                    deadline_ns = now_ns + self._throttle_ns(listener, exempt, now_ns)
        finally:
            on_blocked(self._clock.monotonic_ns() - start_ns)

    def _has_slot(self, listener: _ListenerQuota, exempt: bool) -> bool:
        if listener.connection_count >= listener.max_connections:
            return False
        return exempt or self._total_count < self._max_connections

    def _record_rates(self, listener: _ListenerQuota, exempt: bool, now_ns: int) -> int:
        throttle_ns = listener.record(now_ns)
        return throttle_ns if exempt else max(throttle_ns, self._broker_rate.record(now_ns))

    def _unrecord_rates(self, listener: _ListenerQuota, exempt: bool, now_ns: int) -> None:
        listener.unrecord(now_ns)
        if not exempt:
            self._broker_rate.unrecord(now_ns)

    def _throttle_ns(self, listener: _ListenerQuota, exempt: bool, now_ns: int) -> int:
        throttle_ns = listener.throttle_ns(now_ns)
        return throttle_ns if exempt else max(throttle_ns, self._broker_rate.throttle_ns(now_ns))

    def _record_ip_rate(self, listener: _ListenerQuota, exempt: bool, address: str) -> None:
        now_ns = self._clock.monotonic_ns()
        throttle_ns = self._ip_rates.try_record(address, now_ns)
        if throttle_ns == 0:
            return
        self._unrecord_rates(listener, exempt, now_ns)
        throttle_ms = throttle_ns / _NS_PER_MS
        listener.ip_throttled_ms.record(throttle_ms, now_ns)
        raise ConnectionThrottledError(address, throttle_ms, now_ns + throttle_ns)

    # Listeners.

    def add_listener(
        self,
        name: str,
        max_connections: int = UNLIMITED,
        max_connection_creation_rate: float = UNLIMITED,
    ) -> None:
        """Make a listener known, with its own limits.

        Raises:
            ValueError: a limit is not above 0, or there is such a listener.
        """
        if name in self._listeners:
            raise ValueError(f"the listener {name} is there already")
        listener = _ListenerQuota(
            _checked_listener_max(name, max_connections),
            checked_rate(f"{name}: max_connection_creation_rate", max_connection_creation_rate),
            *self._windows,
        )
        with self._changed:
            self._listeners[name] = listener
            self._changed.notify_all()

    def _listener(self, name: str) -> _ListenerQuota:
        listener = self._listeners.get(name)
        if listener is None:
            known = ", ".join(self._listeners) or "none"
            raise ValueError(f"no listener {name} is known to the quotas; known: {known}")
        return listener

    def _is_protected(self, name: str) -> bool:
        if self._control_plane_listener is not None:
            return name == self._control_plane_listener
        return name == self._inter_broker_listener and len(self._listeners) > 1

    # What a Processor asks (B-A3.14).

    def max_connections_exceeded(self, listener_name: str) -> bool:
        """Whether a connection of this listener must be closed to make room."""
        # Asked in every turn of every Processor: most of the time the two numbers are enough.
        if self._total_count <= self._max_connections:
            return False
        with self._changed:
            return self._total_count > self._max_connections and not self._is_protected(
                listener_name
            )

    def on_excess(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, without a lock, when `max_connections_exceeded` has become true."""
        self._excess_listeners.append(wake)

    def _tell_of_excess(self) -> None:
        for wake in self._excess_listeners:
            wake()

    # Changing the limits.

    def _limits_changed(self) -> None:
        self._limits_version += 1
        self._changed.notify_all()

    def update_max_connections(self, count: int) -> None:
        """Set `max_connections`; with fewer than there are, some are closed."""
        count = _checked_max_connections(count)
        with self._changed:
            self._max_connections = count
            crowded = self._total_count > count
            self._limits_changed()
        if crowded:
            self._tell_of_excess()

    def update_listener_max_connections(self, name: str, count: int) -> None:
        """Set a listener's `max_connections`; existing connections stay."""
        count = _checked_listener_max(name, count)
        with self._changed:
            self._listener(name).max_connections = count
            self._limits_changed()

    def update_max_connections_per_ip(self, count: int) -> None:
        """Set `max_connections_per_ip`; existing connections stay."""
        with self._changed:
            self._max_per_ip = check_max_per_ip(count, self._max_per_ip_overrides)

    def update_max_connections_per_ip_overrides(self, overrides: Mapping[str, int]) -> None:
        """Set `max_connections_per_ip_overrides`.

        Args:
            overrides: by address, as `resolved_overrides` and `checked_address` have them.
        """
        with self._changed:
            self._max_per_ip_overrides = dict(overrides)

    def update_broker_rate(self, rate_per_s: float) -> None:
        """Set `max_connection_creation_rate`."""
        checked_rate("max_connection_creation_rate", rate_per_s)
        with self._changed:
            self._broker_rate.limit = rate_per_s
            self._limits_changed()

    def update_listener_rate(self, name: str, rate_per_s: float) -> None:
        """Set a listener's `max_connection_creation_rate`."""
        checked_rate(f"{name}: max_connection_creation_rate", rate_per_s)
        with self._changed:
            self._listener(name).limit = rate_per_s
            self._limits_changed()

    def update_ip_rate(self, address: str | None, rate_per_s: float | None) -> None:
        """Set the rate of one address, or with None of all that have none of their own.

        Args:
            address: an IP address, or None.
            rate_per_s: connections a second; None takes the limit away.
        """
        if rate_per_s is not None:
            checked_rate("connection_creation_rate", rate_per_s)
        with self._changed:
            self._ip_rates.update(
                None if address is None else canonical_address(address), rate_per_s
            )

    # For gauges and tests.

    @property
    def listener_names(self) -> tuple[str, ...]:
        """The names of all listeners."""
        return tuple(self._listeners)

    @property
    def total_count(self) -> int:
        """Connections in all."""
        return self._total_count

    def listener_count(self, name: str) -> int:
        """Connections of a listener; 0 if it is not known."""
        with self._changed:
            listener = self._listeners.get(name)
            return 0 if listener is None else listener.connection_count

    def accept_rate(self, listener_name: str | None = None) -> float:
        """Recent connections per second, of a listener or (None) of all but the protected one."""
        with self._changed:
            quota = self._broker_rate if listener_name is None else self._listener(listener_name)
            return quota.accepted.rate(self._clock.monotonic_ns())

    def ip_accept_rates(self) -> dict[str, float]:
        """Recent connections per second, by address; of those that have a limit."""
        with self._changed:
            return self._ip_rates.accept_rates(self._clock.monotonic_ns())

    def throttle_time_ms(self, listener_name: str) -> float:
        """Average wait of the connections that had to wait recently, in ms."""
        with self._changed:
            stat = self._listener(listener_name).throttled_ms
            return stat.average(self._clock.monotonic_ns())

    def ip_throttle_time_ms(self, listener_name: str) -> float:
        """The same for those that their address's rate refused."""
        with self._changed:
            stat = self._listener(listener_name).ip_throttled_ms
            return stat.average(self._clock.monotonic_ns())
