"""Stands between a starter and its child, so that the child cannot outlive the starter.

Run as a script: `keeper.py STARTER_PID FOLDER -- COMMAND...`. It starts COMMAND, prints the
command's process id, and then reads its standard input: one signal number a line, to be sent to
the command. When the input ends, or the starter is no longer its parent, it kills the command,
removes FOLDER ("-" for none) and FOLDER's parent if that is then empty. It exits with the
command's exit code.

A process of its own, and not PR_SET_PDEATHSIG alone: that signal comes when the starting
*thread* ends, and a test may well restart a node from a thread that ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
STARTER_CHECK_S = 1.0


def _die_with_keeper() -> None:
    """In the child, before exec: SIGKILL when the keeper dies, and ordinary stop signals."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _remove(folder: str) -> None:
    if folder == "-":
        return
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        Path(folder).parent.rmdir()


def _forward(child: subprocess.Popen[bytes], text: bytes) -> None:
    for line in text.split():
        if child.poll() is None:
            child.send_signal(int(line))


def keep(starter_pid: int, folder: str, command: list[str]) -> int:
    """Run `command` until it ends or the starter does; return its exit code."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    # The keeper has one thread, which makes preexec_fn safe here.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=_die_with_keeper,
    )
    print(child.pid, flush=True)
    while child.poll() is None:
        readable, _, _ = select.select([0, woken], [], [], STARTER_CHECK_S)
        if woken in readable:
            os.read(woken, 512)
        text = os.read(0, 512) if 0 in readable else b"\n"
        if not text or os.getppid() != starter_pid:
            child.kill()
            child.wait()
            _remove(folder)
            break
        _forward(child, text)
    return child.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = keep(int(sys.argv[1]), sys.argv[2], sys.argv[4:])
    sys.exit(code if code >= 0 else 128 - code)
