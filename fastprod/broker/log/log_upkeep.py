"""LogUpkeep: retention, compaction and fsync of logs, in a background thread."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Final

from fastprod.broker.log.log import Log
from fastprod.broker.log.log_error import LogError
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.joining import await_end, try_start

_log = logging.getLogger(__name__)

_NS_PER_MS: Final = 1_000_000
_LONGEST_WAIT_MS: Final = 30 * 86_400_000
_SYNC_AFTER_ROLL_MS: Final = 100


class _Job:
    """A task that is done for each log some time after it has grown or got other settings.

    The upkeep's lock guards it.

    Args:
        delay_ms: from that to the job.
        do: does it; returns in how many milliseconds that log needs it again although it does not
            grow, or None.
    """

    __slots__ = ("delay_ms", "do", "due_ns", "logs")

    def __init__(self, delay_ms: int, do: Callable[[Log], int | None]) -> None:
        self.delay_ms = delay_ms
        self.do = do
        self.due_ns: int | None = None
        # Weak: a deleted log may be freed before its turn.
        self.logs: weakref.WeakSet[Log] = weakref.WeakSet()

    def add(self, log: Log, now_ns: int, delay_ms: int) -> bool:
        """Do it for `log` within `delay_ms`; returns whether that moves the next run forward."""
        self.logs.add(log)
        due_ns = now_ns + delay_ms * _NS_PER_MS
        if self.due_ns is not None and self.due_ns <= due_ns:
            return False
        self.due_ns = due_ns
        return True


class LogUpkeep:
    """Drops old segments (B-C4.5), compacts logs (B-C4.6) and syncs files (B-C8.1) when it is time.

    It has a thread of its own.

    Complete segments are always synced: recovery need not walk them then.

    Other settings of a log count as an append: it may have to shrink although it stands still.

    The first append starts the thread. It sleeps until a log needs it: a broker whose logs stand
    still wakes up when the next segment is too old, and not before. Any thread.

    Args:
        clock: the broker's.
        retention_check_interval_ms: time from an append to the check of retention.
        sync_interval_ms: time from an append to its fsync; None: no fsync.
        cleaner_backoff_ms: time from an append to a log that is compacted to a look whether it is
            time; None: nothing is compacted.
    """

    def __init__(
        self,
        clock: Clock,
        retention_check_interval_ms: int,
        sync_interval_ms: int | None,
        cleaner_backoff_ms: int | None = None,
    ) -> None:
        self._clock = clock
        self._jobs = [_Job(retention_check_interval_ms, _retain)]
        self._roll_job = _Job(_SYNC_AFTER_ROLL_MS, _flush_closed)
        if sync_interval_ms is not None:
            self._jobs.append(_Job(sync_interval_ms, _flush))
        self._clean_job = _Job(cleaner_backoff_ms or 0, self._clean)
        self._cleans = cleaner_backoff_ms is not None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def has_thread(self) -> bool:
        """Whether a log has grown."""
        return self._thread is not None

    def watch(self, log: Log) -> None:
        """Look after `log` from now on, until it is closed."""
        log.call_after_append(self._grown)
        log.call_after_roll(self._rolled)
        log.call_after_reconfigure(self._grown)
        if log.size_bytes > 0:
            self._grown(log)

    def close(self) -> None:
        """End the thread after the log that it works on. May be repeated.

        Raises:
            TimeoutError: that takes longer than 10 s.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        await_end(self._thread)

    def _grown(self, log: Log) -> None:
        is_cleaned = self._cleans and log.config.compact
        self._add(log, (*self._jobs, self._clean_job) if is_cleaned else self._jobs)

    def _clean(self, log: Log) -> int | None:
        if not log.config.compact:
            return None
        # Here: few logs are compacted, and a broker is to take little memory.
        from fastprod.broker.log.cleaning.cleaner import CleaningStopped, clean  # noqa: PLC0415

        try:
            again_ms = clean(log, self._clock.time_ms(), lambda: self._is_closed or log.is_closed)
        except CleaningStopped:
            return None
        if again_ms == 0:
            # After what else is due.
            self._add(log, (self._clean_job,), 0)
            return None
        return again_ms

    def _rolled(self, log: Log) -> None:
        self._add(log, (self._roll_job,))

    def _add(self, log: Log, jobs: Iterable[_Job], delay_ms: int | None = None) -> None:
        """Plan the jobs for a log. Its lock and its partition's may be held.

        Args:
            log: whose.
            jobs: which.
            delay_ms: None: the delay of each job.
        """
        now_ns = self._clock.monotonic_ns()
        with self._changed:
            if self._is_closed:
                return
            is_earlier = [
                job.add(log, now_ns, job.delay_ms if delay_ms is None else delay_ms) for job in jobs
            ]
            if self._thread is None:
                # Without one the append is done all the same; the next one tries again.
                self._thread = try_start("fastprod-broker-log-upkeep", self._run)
            elif any(is_earlier):
                self._changed.notify()

    def _run(self) -> None:
        while (job := self._next_job()) is not None:
            self._do(job)

    def _next_job(self) -> _Job | None:
        """Wait until something is due; None: closed."""
        with self._changed:
            while not self._is_closed:
                jobs = (*self._jobs, self._roll_job, self._clean_job)
                waiting = [job for job in jobs if job.due_ns is not None]
                first = min(waiting, key=_due_ns, default=None)
                if first is not None and _due_ns(first) <= self._clock.monotonic_ns():
                    first.due_ns = None
                    return first
                self._clock.wait(self._changed, None if first is None else first.due_ns)
        return None

    def _do(self, job: _Job) -> None:
        with self._changed:
            logs, job.logs = job.logs, weakref.WeakSet()
        for log in logs:
            if self._is_closed:
                return
            # Taken first: logs that grow from here on are for the next run.
            log.call_after_append(self._grown)
            try:
                wait_ms = job.do(log)
            except LogError as error:
                if log.is_closed or log.has_failed:  # which the log itself reports
                    continue
                _log.warning("upkeep: %s", error)
                wait_ms = job.delay_ms
            except Exception:
                # Of one that was deleted meanwhile the files are gone.
                if not log.is_closed:
                    _log.exception("upkeep of %s-%d has failed", log.topic, log.partition)
                continue
            if wait_ms is not None:
                wait_ms = min(max(wait_ms, job.delay_ms), _LONGEST_WAIT_MS)
                with self._changed:
                    job.add(log, self._clock.monotonic_ns(), wait_ms)


def _due_ns(job: _Job) -> int:
    return job.due_ns or 0


def _retain(log: Log) -> int | None:
    log.run_retention_now()
    return log.retention_wait_ms()


def _flush(log: Log) -> int | None:
    log.flush()
    return None


def _flush_closed(log: Log) -> int | None:
    log.flush(closed_only=True)
    return None
