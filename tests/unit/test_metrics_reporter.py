"""fastprod.metrics_reporter: reporters see the figures, and harm nothing (metric_reporters)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.metrics_reporter import MetricsReporter, MetricsReporters
from support.engine.thread_refusal import no_thread

PATIENCE_S = 10.0


def config(window_ms: int = 0) -> ProducerConfig:
    return ProducerConfig(
        bootstrap_servers="127.0.0.1:9092", client_id="me", metrics_sample_window_ms=window_ms
    )


class Seeing(MetricsReporter):
    """Keeps what it is told; can be told to fail."""

    def __init__(self, *, is_failing: bool = False) -> None:
        self.is_failing = is_failing
        self.config: Mapping[str, Any] = {}
        self.seen: list[Mapping[str, Mapping[str, Any]]] = []
        self.threads: set[str] = set()
        self.closed_count = 0
        self.has_seen = threading.Event()

    def configure(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def report(self, metrics: Mapping[str, Mapping[str, Any]]) -> None:
        self.seen.append(metrics)
        self.threads.add(threading.current_thread().name)
        if len(self.seen) >= 2:
            self.has_seen.set()
        if self.is_failing:
            raise RuntimeError("did not work")

    def close(self) -> None:
        self.closed_count += 1
        if self.is_failing:
            raise RuntimeError("did not close")


class OnlyReporting:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def report(self, metrics: object) -> None:
        self.seen.append(metrics)


class FailingToConfigure(MetricsReporter):
    def configure(self, config: Mapping[str, Any]) -> None:
        raise RuntimeError("no")


def test_a_reporter_sees_the_figures_every_window_on_a_thread_of_its_own() -> None:
    reporter = Seeing()
    numbers = iter(range(1_000_000))
    reporters = MetricsReporters([reporter], {})
    reporters.start(lambda: {"g": {"n": next(numbers)}}, config())
    assert reporter.has_seen.wait(PATIENCE_S)
    reporters.close()
    assert [each["g"]["n"] for each in reporter.seen] == list(range(len(reporter.seen)))
    assert reporter.threads == {"kafka-producer-metrics | me"}


def test_closing_reports_the_last_figures_and_closes_once() -> None:
    reporter, plain = Seeing(), OnlyReporting()
    reporters = MetricsReporters([reporter, plain], {})
    reporters.start(lambda: {"g": {"last": 1}}, config(3_600_000))
    reporters.close()
    reporters.close()
    assert reporter.seen == plain.seen == [{"g": {"last": 1}}]
    assert reporter.closed_count == 1


def test_a_window_longer_than_a_thread_can_wait_ends_with_close() -> None:
    reporter = Seeing()
    reporters = MetricsReporters([reporter], {})
    reporters.start(lambda: {"g": {"last": 1}}, config(2**63 - 1))
    reporters.close()
    assert reporter.seen == [{"g": {"last": 1}}]


def test_a_reporter_that_never_started_is_closed_without_a_report() -> None:
    """P-L.7: a construction that fails closes the reporters made before."""
    reporter = Seeing()
    MetricsReporters([reporter], {}).close()
    assert (reporter.seen, reporter.closed_count) == ([], 1)


def test_a_reporter_whose_thread_could_not_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-L.7"""
    reporter = Seeing()
    reporters = MetricsReporters([reporter], {})
    with no_thread(monkeypatch, "metrics"), pytest.raises(RuntimeError, match="new thread"):
        reporters.start(dict, config())
    reporters.close()
    assert (reporter.seen, reporter.closed_count) == ([], 1)


def test_a_class_is_made_and_configured_with_the_settings() -> None:
    """P-A.1.2: client.id is among them."""
    reporter = Seeing()
    MetricsReporters([reporter], {"client.id": "me"}).close()
    assert reporter.config == {"client.id": "me"}
    MetricsReporters([Seeing], {"client.id": "me"}).close()


def test_what_a_reporter_raises_is_logged_and_the_next_one_still_sees(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing, seeing = Seeing(is_failing=True), Seeing()
    reporters = MetricsReporters([failing, seeing], {})
    reporters.start(dict, config(3_600_000))
    reporters.close()
    assert (len(failing.seen), len(seeing.seen)) == (1, 1)
    assert (failing.closed_count, seeing.closed_count) == (1, 1)
    assert "metrics reporter Seeing failed in report" in caplog.text
    assert "metrics reporter Seeing failed in close" in caplog.text


def test_a_reporter_that_hangs_does_not_hold_up_closing_for_ever(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastprod.metrics_reporter._LONGEST_JOIN_S", 0.05)
    go_on = threading.Event()

    class Hanging(Seeing):
        def report(self, metrics: Mapping[str, Mapping[str, Any]]) -> None:
            go_on.wait(PATIENCE_S)

    reporter = Hanging()
    reporters = MetricsReporters([reporter], {})
    reporters.start(dict, config(3_600_000))
    reporters.close()
    go_on.set()
    assert "still busy" in caplog.text
    assert reporter.closed_count == 1


def test_a_reporter_may_close_the_reporters_it_belongs_to() -> None:
    """A reporter that closes its producer: no thread waits for itself."""
    done = threading.Event()

    class Closing(Seeing):
        def report(self, metrics: Mapping[str, Mapping[str, Any]]) -> None:
            reporters.close()
            done.set()

    reporter = Closing()
    reporters = MetricsReporters([reporter], {})
    reporters.start(dict, config())
    assert done.wait(PATIENCE_S)
    assert reporter.closed_count == 1


def test_an_object_without_report_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"object: has no method report") as caught:
        MetricsReporters([object()], {})
    assert caught.value.key == "metric_reporters"


def test_those_before_one_that_cannot_be_configured_are_closed() -> None:
    """P-A.1.3."""
    reporter = Seeing()
    with pytest.raises(ConfigError, match=r"FailingToConfigure: its configure\(\) failed"):
        MetricsReporters([reporter, FailingToConfigure], {})
    assert (reporter.seen, reporter.closed_count) == ([], 1)
