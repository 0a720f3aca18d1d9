"""Where a request's time went, by API (contract B-A9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastprod.broker.network.request import Request

_BUCKET_COUNT: Final = 65  # an int64's bit lengths


class Histogram:
    """How often values of each size were seen, in buckets that double.

    One thread records; any may read.

    Attributes:
        bucket_counts: how many values had as many bits as the index says.
        count: how many values.
        total: their sum.
        largest: the largest, 0 if there is none.
    """

    __slots__ = ("bucket_counts", "largest", "total")

    def __init__(self) -> None:
        self.bucket_counts = [0] * _BUCKET_COUNT
        self.total = 0
        self.largest = 0

    def record(self, value: int) -> None:
        """A negative value counts as 0: two threads may stamp one request out of order."""
        if value < 0:
            value = 0
        self.bucket_counts[value.bit_length()] += 1
        self.total += value
        if value > self.largest:
            self.largest = value

    @property
    def count(self) -> int:
        # Counted here: each request is recorded eight times.
        return sum(self.bucket_counts)

    @property
    def mean(self) -> float:
        count = self.count
        return self.total / count if count else 0.0

    def quantile(self, share: float) -> int:
        """The value that `share` (0 to 1) of all do not exceed, rounded up to a bucket's end."""
        left = share * self.count
        for bits, count in enumerate(self.bucket_counts):
            left -= count
            if count and left <= 0:
                return min((1 << bits) - 1, self.largest)
        return self.largest

    def add(self, other: Histogram) -> None:
        """Add the counts of `other`."""
        for bits, count in enumerate(other.bucket_counts):
            self.bucket_counts[bits] += count
        self.total += other.total
        self.largest = max(self.largest, other.largest)


class ApiMetrics:
    """What one API's requests were and where their time went; times in nanoseconds.

    One thread records; any may read.

    Attributes:
        requests_by_version: `RequestsPerSec`.
        deprecated_by_version: `DeprecatedRequestsPerSec`.
        errors_by_code: `ErrorsPerSec`; 0 is no error.
        request_queue_ns: received to taken by a handler.
        local_ns: in the handler.
        remote_ns: waiting for others.
        throttle_ns: told to the client.
        response_queue_ns: answered to taken by the Processor.
        response_send_ns: until it was written.
        total_ns: received to written.
        request_bytes: size of the requests.
    """

    __slots__ = (
        "deprecated_by_version",
        "errors_by_code",
        "local_ns",
        "remote_ns",
        "request_bytes",
        "request_queue_ns",
        "requests_by_version",
        "response_queue_ns",
        "response_send_ns",
        "throttle_ns",
        "total_ns",
    )

    def __init__(self) -> None:
        self.requests_by_version: dict[int, int] = {}
        self.deprecated_by_version: dict[int, int] = {}
        self.errors_by_code: dict[int, int] = {}
        self.request_queue_ns = Histogram()
        self.local_ns = Histogram()
        self.remote_ns = Histogram()
        self.throttle_ns = Histogram()
        self.response_queue_ns = Histogram()
        self.response_send_ns = Histogram()
        self.total_ns = Histogram()
        self.request_bytes = Histogram()

    @property
    def request_count(self) -> int:
        return self.total_ns.count

    def record(self, request: Request, deprecated: bool) -> None:
        """Count a request whose response has been written or given up."""
        version = request.header.version
        by_version = self.requests_by_version
        by_version[version] = by_version.get(version, 0) + 1
        if deprecated:
            by_version = self.deprecated_by_version
            by_version[version] = by_version.get(version, 0) + 1
        for code, count in (request.error_counts or _NO_ERROR).items():
            self.errors_by_code[code] = self.errors_by_code.get(code, 0) + count
        answered_ns = request.response_enqueued_ns
        local_done_ns = request.local_done_ns
        if not 0 <= local_done_ns <= answered_ns:
            local_done_ns = answered_ns  # answered before the handler returned
        self.request_queue_ns.record(request.dequeued_ns - request.received_ns)
        self.local_ns.record(local_done_ns - request.dequeued_ns)
        self.remote_ns.record(answered_ns - local_done_ns)
        self.throttle_ns.record(request.throttle_ms * 1_000_000)
        self.response_queue_ns.record(request.response_dequeued_ns - answered_ns)
        self.response_send_ns.record(request.sent_ns - request.response_dequeued_ns)
        self.total_ns.record(request.sent_ns - request.received_ns)
        self.request_bytes.record(len(request.frame))

    def add(self, other: ApiMetrics) -> None:
        """Add the counts of `other`."""
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Histogram):
                mine.add(theirs)
                continue
            for key, count in theirs.copy().items():
                mine[key] = mine.get(key, 0) + count


_NO_ERROR: Final = {0: 1}


class RequestRecorder:
    """The counters of one Processor's thread: no counter is written by two."""

    __slots__ = ("_is_deprecated", "apis")

    def __init__(self, is_deprecated: Callable[[int, int], bool]) -> None:
        self._is_deprecated = is_deprecated
        # By API key and, for what has a second name, that name: each is counted once.
        self.apis: dict[tuple[int, str | None], ApiMetrics] = {}

    def record(self, request: Request) -> None:
        """Count a request whose response has been written or given up. The one thread."""
        api_key = request.header.api_key
        key = (api_key, request.metrics_alias)
        metrics = self.apis.get(key)
        if metrics is None:
            metrics = self.apis[key] = ApiMetrics()
        metrics.record(request, self._is_deprecated(api_key, request.header.version))


class RequestMetrics:
    """The requests of a node, by API. Any thread.

    Args:
        name_of: an API's name by its key.
        is_deprecated: whether (API key, version) is deprecated.
    """

    def __init__(
        self,
        name_of: Callable[[int], str] = str,
        is_deprecated: Callable[[int, int], bool] = lambda key, version: False,
    ) -> None:
        self._name_of = name_of
        self._is_deprecated = is_deprecated
        self._recorders: list[RequestRecorder] = []

    def recorder(self) -> RequestRecorder:
        """A recorder for one thread; what it counted stays after that thread has ended."""
        made = RequestRecorder(self._is_deprecated)
        self._recorders.append(made)
        return made

    def snapshot(self) -> dict[str, ApiMetrics]:
        """The sums so far, by the API's name (and by FetchConsumer, FetchFollower)."""
        sums: dict[str, ApiMetrics] = {}
        for recorder in list(self._recorders):
            for (key, alias), metrics in recorder.apis.copy().items():
                for name in (self._name_of(key), alias):
                    if name is not None:
                        sums.setdefault(name, ApiMetrics()).add(metrics)
        return sums
