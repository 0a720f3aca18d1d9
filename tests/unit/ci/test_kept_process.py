"""KeptProcess ends in every way it must: by itself, when told, and with its starter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from kept_process import KeptProcess, ProcessFailed

CI = Path(__file__).parents[3] / "ci"
BOUND_S = 20.0


def is_alive(pid: int) -> bool:
    """False also for a zombie: nobody but its parent can take that away."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter: it went while it was read
        return False
    return state != "Z"


def wait_until_gone(pid: int, folder: Path) -> None:
    deadline = time.monotonic() + BOUND_S
    while is_alive(pid) or folder.exists():
        assert time.monotonic() < deadline, f"process {pid} or {folder} is still there"
        time.sleep(0.02)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-u", "-c", textwrap.dedent(code)]


def test_output_is_waited_for_and_kept(tmp_path: Path) -> None:
    child = KeptProcess(
        "child", python("print('port 17'); import time; time.sleep(60)"), tmp_path / "log"
    )
    try:
        assert child.wait_for_output(r"port (\d+)", BOUND_S).group(1) == "17"
        assert child.is_running
        assert is_alive(child.pid)
    finally:
        child.kill()
    assert not child.is_running
    assert not is_alive(child.pid)
    assert child.output() == "port 17\n"


def test_a_child_that_ends_early_fails_with_its_code_and_the_tail_of_its_log(
    tmp_path: Path,
) -> None:
    child = KeptProcess(
        "child", python("print('no such disk'); raise SystemExit(7)"), tmp_path / "log"
    )
    with pytest.raises(ProcessFailed, match=r"child ended with code 7\n.*\nno such disk"):
        child.wait_for_output("ready", BOUND_S)
    child.reap(BOUND_S)


def test_what_a_child_says_of_its_end_does_not_hide_the_reason(tmp_path: Path) -> None:
    code = "print('java.net.BindException: in use'); print(*range(100), sep='\\n')"
    child = KeptProcess("child", python(code), tmp_path / "log")
    with pytest.raises(ProcessFailed, match="BindException: in use\n--- last 40 lines") as caught:
        child.wait_for_output("ready", BOUND_S)
    assert "\n59\n" not in str(caught.value)
    child.reap(BOUND_S)


def test_a_child_that_never_gets_ready_fails_at_the_bound(tmp_path: Path) -> None:
    child = KeptProcess("child", ["sleep", "60"], tmp_path / "log")
    try:
        with pytest.raises(ProcessFailed, match=r"not ready after 0\.1 s: no line matches 'ready'"):
            child.wait_for_output("ready", 0.1)
    finally:
        child.kill()


def test_a_command_that_does_not_exist_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="could not run no-such-command"):
        KeptProcess("child", ["no-such-command"], tmp_path / "log")


def test_stop_ends_a_willing_child_by_sigterm(tmp_path: Path) -> None:
    child = KeptProcess("child", ["sleep", "60"], tmp_path / "log")
    assert child.stop(BOUND_S)
    assert not is_alive(child.pid)


def test_stop_kills_a_child_that_ignores_sigterm(tmp_path: Path) -> None:
    code = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready")
        time.sleep(60)
    """
    child = KeptProcess("child", python(code), tmp_path / "log")
    child.wait_for_output("ready", BOUND_S)
    assert not child.stop(0.1)
    assert not is_alive(child.pid)


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[KeptProcess] = []
    thread = threading.Thread(
        target=lambda: started.append(KeptProcess("child", ["sleep", "60"], tmp_path / "log"))
    )
    thread.start()
    thread.join(BOUND_S)
    (child,) = started
    try:
        # The kernel sends a parent-death signal while the thread exits, that is before join ends.
        assert child.is_running
        assert is_alive(child.pid)
    finally:
        child.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_and_its_folder_go_when_the_starter_is_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "cluster" / "node"
    folder.mkdir(parents=True)
    code = f"""
        import sys, time
        sys.path.insert(0, {str(CI)!r})
        from pathlib import Path
        from kept_process import KeptProcess
        folder = Path({str(folder)!r})
        print(KeptProcess("child", ["sleep", "60"], folder / "log", folder=folder).pid)
        time.sleep(60)
    """
    starter = subprocess.Popen(python(code), stdout=subprocess.PIPE)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    assert is_alive(pid)
    starter.send_signal(number)
    assert starter.wait(BOUND_S) == -number
    starter.stdout.close()
    wait_until_gone(pid, folder.parent)


def test_a_forked_child_of_the_starter_cannot_end_its_processes(tmp_path: Path) -> None:
    child = KeptProcess("child", ["sleep", "60"], tmp_path / "log")
    try:
        forked = os.fork()
        if forked == 0:
            try:
                child.kill()
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(forked, 0)[1] == 0
        assert is_alive(child.pid)
    finally:
        child.kill()
