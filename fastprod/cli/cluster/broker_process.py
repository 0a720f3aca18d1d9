"""broker_process: `fastprod broker` as a child process, which always ends with this one."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from fastprod.cli.output.failure import Unreachable

_START_LINE: Final = re.compile(rb"listening on ([^;\s]+);.*\n")
_START_S: Final = 20.0
_END_S: Final = 10.0


@contextlib.contextmanager
def broker_process(options: Sequence[str] = ()) -> Iterator[str]:
    """Run a broker on a free port; yields its bootstrap servers. It ends with the block, or with
    this process, whatever becomes of it.

    Args:
        options: further ones of `fastprod broker`.

    Raises:
        Unreachable: it did not start within 20 s.
    """
    command = [sys.executable, "-m", "fastprod", "broker", "--port", "0", "--end-with-stdin"]
    process = subprocess.Popen(
        [*command, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # not for Ctrl-C: the broker is needed until its topics are deleted
    )
    try:
        yield _servers(process)
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _servers(process: subprocess.Popen[bytes]) -> str:
    """Return the bootstrap servers in the line that the broker prints at its start."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + _START_S
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline_s - time.monotonic())):
            more = os.read(process.stdout.fileno(), 4096)
            said += more
            found = _START_LINE.search(said)
            if found:
                return found[1].decode()
            if not more:
                raise Unreachable(f"the broker ended with exit code {process.wait(_END_S)}")
    raise Unreachable(f"the broker did not start within {_START_S:.0f} s; it said {said!r}")
