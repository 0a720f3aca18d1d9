"""fastprod.spark.session: which settings a session has; the rest is in tests/spark."""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastprod.errors import ConfigError
from fastprod.spark import session
from fastprod.spark.session import SETTINGS, check_settings, default_master, first_line, reason


def test_a_task_on_this_machine_is_tried_as_often_as_on_a_cluster() -> None:
    assert default_master(SETTINGS) == "local[*,4]"
    assert default_master({"spark.task.maxFailures": "2"}) == "local[*,2]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.execution.arrow.compression.codec", " LZ4"),
        ("spark.speculation", "True"),
    ],
)
def test_what_makes_a_write_slow_or_double_is_refused(name: str, value: str) -> None:
    check_settings(SETTINGS)
    with pytest.raises(ConfigError, match=name):
        check_settings({name: value})


def test_the_line_that_tells_is_found_among_those_of_java() -> None:
    assert first_line("An error occurred while calling o1.x.\n: a.B: full\n\tat c") == "a.B: full"


def test_the_log_of_a_java_that_did_not_start_is_told_without_its_stack(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Exception in thread main: no such master\n" + "\tat org.Foo(Bar)\n" * 9)
    told = reason(RuntimeError("Java ended"), log)
    assert told == "Java ended: Exception in thread main: no such master"
    assert reason(RuntimeError("Java ended"), None) == "Java ended"


@pytest.mark.parametrize("master", ["local[2]", "spark://h:1"])
@pytest.mark.parametrize(("encoding", "wanted"), [("ANSI_X3.4-1968", "C.UTF-8"), ("UTF-8", "C")])
def test_java_understands_names_of_files_in_the_locale_c(
    monkeypatch: pytest.MonkeyPatch, master: str, encoding: str, wanted: str
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    with session._environment(master):
        assert os.environ["LC_ALL"] == wanted
    assert os.environ["LC_ALL"] == "C"


SHELL = "pyspark-shell"


@contextlib.contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with such a command line, which ends with the `with`."""
    sleeper = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", sleeper, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_start_that_is_given_up_ends_its_java_and_no_other_child() -> None:
    started = []

    def start(later: contextlib.ExitStack) -> None:
        with session._no_orphan():
            started.append(later.enter_context(child("spark-submit", SHELL)))
            started.append(later.enter_context(child("of another thread", "my-pyspark-shell")))
            raise KeyboardInterrupt

    with child(SHELL) as before, contextlib.ExitStack() as later:
        with pytest.raises(KeyboardInterrupt):
            start(later)
        java, other = started
        assert java.wait(10) == -signal.SIGKILL
        assert before.poll() is None
        assert other.poll() is None


def test_a_java_that_is_still_a_copy_of_this_process_is_ended_too() -> None:
    """As between fork and exec, where PySpark's preexec_fn runs."""
    java = []

    def start() -> None:
        with session._no_orphan():
            java.append(os.fork())
            if java[-1] == 0:
                try:
                    time.sleep(0.2)
                    os.execv(sys.executable, ["python", "-c", "import time; time.sleep(60)", SHELL])
                finally:
                    os._exit(1)  # a second pytest would go on from here
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    _, status = os.waitpid(java[0], 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
