"""Metrics reporters: users' objects that get the producer's metrics once per sample window."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.log import Log, own_thread
from fastprod.plugin_loading import configure_plugin, make_plugin, plugin_name

_log = Log(__name__)

_SHORTEST_PERIOD_S = 0.1
_LONGEST_JOIN_S = 5.0

Metrics = Mapping[str, Mapping[str, Any]]


class MetricsReporter:
    """Base of users' reporters; only `report` has to be there.

    A reporter need not extend this class: any object with `report` is accepted.

    Threads: `report` is called on one thread of the producer's own, which it may block.
    Source: MetricsReporter; setting metric_reporters.
    """

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take what it needs from the settings. Called once, before anything else.

        Args:
            config: the producer's settings by their dotted names; client.id is set.

        What this raises ends the producer's constructor with a ConfigError.
        """

    def report(self, metrics: Metrics) -> None:
        """Get all metrics of the producer.

        Called every metrics_sample_window_ms, and once more when the producer closes. What it
        raises is logged.

        Args:
            metrics: group to name to value, as `KafkaProducer.metrics` returns them; a copy.
        """

    def close(self) -> None:
        """Give back what it holds; called once, when the producer closes."""


class MetricsReporters:
    """A producer's reporters, and the thread that calls them.

    Args:
        given: classes, made here, or objects; each is configured if it has `configure`.
        config: the settings by dotted name.

    Raises:
        ConfigError: one could not be made or configured, or has no `report`; those before it have
            been closed.

    Threads: any.
    """

    def __init__(self, given: Iterable[Any], config: Mapping[str, Any]) -> None:
        self._reporters: list[Any] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            for each in given:
                self._reporters.append(_ready(each, config))
        except BaseException:
            self.close()
            raise

    def start(self, metrics: Callable[[], Metrics], config: ProducerConfig) -> None:
        """Begin to report what `metrics` returns; again in the child of a fork."""
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(self._stop, metrics, config.metrics_sample_window_ms / 1000),
            name=f"kafka-producer-metrics | {config.client_id}",
            daemon=True,
        )
        self._thread.start()

    def _run(self, stop: threading.Event, metrics: Callable[[], Metrics], period_s: float) -> None:
        own_thread()
        period_s = min(max(period_s, _SHORTEST_PERIOD_S), threading.TIMEOUT_MAX)
        while not stop.wait(period_s):
            self._report(metrics())
        self._report(metrics())

    def _report(self, metrics: Metrics) -> None:
        for each in self._reporters:
            try:
                each.report(metrics)
            except Exception:
                _log.warning(
                    "metrics reporter %s failed in report", plugin_name(each), exc_info=True
                )

    def close(self) -> None:
        """Report once more, then close every reporter; what one raises is logged.

        A second call does nothing.  Blocks: up to 5 s for the reports.
        """
        self._stop.set()
        thread, self._thread = self._thread, None
        has_started = thread is not None and thread.ident is not None
        if thread is not None and has_started and thread is not threading.current_thread():
            thread.join(_LONGEST_JOIN_S)
            if thread.is_alive():
                _log.warning("a metrics reporter is still busy after %.0f s", _LONGEST_JOIN_S)
        closing, self._reporters = self._reporters, []
        for each in closing:
            try:
                close = getattr(each, "close", None)
                if callable(close):
                    close()
            except Exception:
                _log.warning(
                    "metrics reporter %s failed in close", plugin_name(each), exc_info=True
                )


def _ready(given: Any, config: Mapping[str, Any]) -> Any:
    if isinstance(given, type):
        made = make_plugin("metric_reporters", given, config)
    else:
        made = given
        configure_plugin("metric_reporters", made, config)
    if not callable(getattr(made, "report", None)):
        raise ConfigError(
            f"metric_reporters = {plugin_name(made)}: has no method report(metrics)",
            key="metric_reporters",
        )
    return made
