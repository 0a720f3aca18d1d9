"""What threads of a producer's log is handled by another thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from fastprod.client import log_thread
from fastprod.client.log_thread import LOG_THREAD
from fastprod.log import Log
from support.broker.sockets import PATIENCE_S, until
from support.engine.thread_refusal import no_thread
from support.processes.child_python import run_python

NAME = "fastprod.test.elsewhere"


class Stuck(logging.Handler):
    """Notes what it handles and in which thread; each time it waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.handled: list[tuple[logging.LogRecord, str]] = []
        self.may_go_on = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.handled.append((record, threading.current_thread().name))
        self.may_go_on.wait()

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record, _ in self.handled]


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    monkeypatch.setattr(log_thread, "LONGEST_WAIT_S", PATIENCE_S)
    logger, handler = logging.getLogger(NAME), Stuck()
    logger.addHandler(handler)
    yield handler
    handler.may_go_on.set()
    LOG_THREAD.wait()
    logger.removeHandler(handler)


def say(*messages: str, level: str = "warning") -> None:
    """Log in a thread that does not run handlers, and wait for the end of that thread."""

    def run() -> None:
        LOG_THREAD.serve()
        for each in messages:
            getattr(Log(NAME), level)("%s", each)

    thread = threading.Thread(target=run, name="that-logs")
    thread.start()
    thread.join()


class Leaving(Stuck):
    """Ends the process at an error, or so it was meant."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        raise SystemExit(1)


def test_a_handler_that_calls_sys_exit_is_called_for_the_next_message_too() -> None:
    logger, handler = logging.getLogger(NAME), Leaving()
    logger.addHandler(handler)
    handler.may_go_on.set()
    try:
        for message in ("one", "two"):
            say(message)
            LOG_THREAD.wait()
    finally:
        logger.removeHandler(handler)
    assert handler.messages == ["one", "two"]


def test_who_logs_does_not_wait_for_the_handler_and_is_named_by_the_record(stuck: Stuck) -> None:
    say("one", "two", "three")
    stuck.may_go_on.set()
    LOG_THREAD.wait()
    assert stuck.messages == ["one", "two", "three"]
    record, thread = stuck.handled[0]
    assert (record.name, record.levelname) == (NAME, "WARNING")
    assert (record.threadName, record.pathname) == ("that-logs", __file__)
    assert thread == "fastprod-log"


def test_levels_are_those_of_the_logger(stuck: Stuck) -> None:
    stuck.may_go_on.set()
    logger = logging.getLogger(NAME)
    logger.setLevel(logging.ERROR)
    try:
        say("left out")
        say("said", level="error")
        logging.disable(logging.ERROR)
        say("left out", level="error")
    finally:
        logging.disable(logging.NOTSET)
        logger.setLevel(logging.NOTSET)
    LOG_THREAD.wait()
    assert stuck.messages == ["said"]


def test_to_wait_for_a_handler_that_is_stuck_ends(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("one")
    with monkeypatch.context() as patch:
        patch.setattr(log_thread, "LONGEST_WAIT_S", 0.01)
        LOG_THREAD.wait()
    assert not stuck.may_go_on.is_set()


def test_of_too_many_the_oldest_are_dropped_and_counted(stuck: Stuck) -> None:
    say("first")
    until(lambda: stuck.handled)
    say(*[f"{number}" for number in range(log_thread.MOST_RECORDS + 5)])
    stuck.may_go_on.set()
    last = f"{log_thread.MOST_RECORDS + 4}"
    until(lambda: stuck.handled[-1][0].getMessage() == last)
    told = "5 messages before the next one were dropped: a logging handler was stuck"
    assert stuck.messages[:3] == ["first", told, "5"]
    assert len(stuck.messages) == log_thread.MOST_RECORDS + 2


def test_without_a_thread_to_be_had_it_is_handled_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled: list[str] = []

    class Noting(logging.Logger):
        def handle(self, record: logging.LogRecord) -> None:
            handled.append(record.getMessage())

    monkeypatch.setattr(log_thread, "LONGEST_WAIT_S", PATIENCE_S)
    made = log_thread.LogThread()
    logger = made.handing(Noting(NAME))
    with no_thread(monkeypatch, "fastprod-log"):
        logger.warning("one")
    assert handled == ["one"]
    logger.warning("two")
    made.wait()
    assert handled == ["one", "two"]


def test_a_child_of_a_fork_leaves_to_its_parent_what_was_said_there() -> None:
    script = """
        import json, logging, os, threading
        from fastprod.client import log_thread
        from fastprod.client.log_thread import LOG_THREAD
        from fastprod.log import Log

        log_thread.LONGEST_WAIT_S = 30.0
        handled, entered, may_go_on = [], threading.Event(), threading.Event()

        class Stuck(logging.Handler):
            def createLock(self):
                self.lock = None

            def emit(self, record):
                handled.append(record.getMessage())
                entered.set()
                may_go_on.wait()

        logging.getLogger("fastprod.test").addHandler(Stuck())

        def say(*messages):
            def run():
                LOG_THREAD.serve()
                for each in messages:
                    Log("fastprod.test").warning(each)
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()

        say("one", "two")
        entered.wait()
        reading, writing = os.pipe()
        if os.fork() == 0:
            handled.clear()
            may_go_on.set()
            say("three")
            LOG_THREAD.wait()
            os.write(writing, json.dumps(handled).encode())
            os._exit(0)
        os.close(writing)
        child = json.loads(os.read(reading, 1000))
        os.wait()
        may_go_on.set()
        LOG_THREAD.wait()
        print(json.dumps({"child": child, "parent": handled}))
    """
    told = run_python(script).told
    assert told == {"child": ["three"], "parent": ["one", "two"]}
