"""fastprod.log: loggers of a module that is imported late."""

from __future__ import annotations

import logging
import sys

import pytest

from fastprod.log import Log
from support.processes.child_python import run_python


def test_what_is_logged_comes_from_the_logger_and_from_the_callers_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Log("fastprod.test").warning("%d of %s", 1, "two")
    (record,) = [each for each in caplog.records if each.name == "fastprod.test"]
    assert record.levelname == "WARNING"
    assert (record.getMessage(), record.pathname) == ("1 of two", __file__)


def test_it_has_the_levels_of_the_logger() -> None:
    logger = logging.getLogger("fastprod.test.level")
    logger.setLevel(logging.ERROR)
    log = Log("fastprod.test.level")
    assert (log.isEnabledFor(logging.WARNING), log.isEnabledFor(logging.ERROR)) == (False, True)


class Raising(logging.Handler):
    def handle(self, record: logging.LogRecord) -> bool:
        raise OSError(f"the disk is full of {record.getMessage()}")


@pytest.mark.parametrize("is_shown", [False, True])
def test_what_a_handler_raises_is_shown_where_logging_shows_such_errors(
    is_shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", is_shown)
    logger, handler = logging.getLogger("fastprod.test.raising"), Raising()
    logger.addHandler(handler)
    try:
        Log("fastprod.test.raising").error("%d records", 3)
    finally:
        logger.removeHandler(handler)
    assert ("OSError: the disk is full of 3 records" in capsys.readouterr().err) is is_shown


def test_what_a_handler_raises_hurts_nobody_without_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logger, handler = logging.getLogger("fastprod.test.raising"), Raising()
    logger.addHandler(handler)
    try:
        monkeypatch.setattr(sys, "stderr", None)
        Log("fastprod.test.raising").error("%d records", 3)
    finally:
        logger.removeHandler(handler)


def test_ctrl_c_in_a_handler_gets_through() -> None:
    class Interrupted(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise KeyboardInterrupt

    logger, handler = logging.getLogger("fastprod.test.raising"), Interrupted()
    logger.addHandler(handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Log("fastprod.test.raising").error("x")
    finally:
        logger.removeHandler(handler)


def test_logging_is_imported_before_a_producer_has_threads() -> None:
    """A fork while a thread imports would leave the child waiting for the import."""
    script = """
        import json, sys, threading
        import fastprod
        before = "logging" in sys.modules
        seen = []
        start = threading.Thread.start
        def watched(thread):
            seen.append("logging" in sys.modules)
            start(thread)
        threading.Thread.start = watched
        producer = fastprod.KafkaProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=1)
        after = "logging" in sys.modules
        producer.close(0)
        print(json.dumps({"before": before, "started": seen, "after": after}))
    """
    told = run_python(script).told
    assert (told["before"], told["after"], set(told["started"])) == (False, True, {True})
