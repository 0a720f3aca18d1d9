"""Main of a measured broker: `fastprod broker` that tells what it forces to the disk and fetches.

Lines on standard output: "BEGIN bytes" fetched from the disk before the broker starts; at the end
"END fsyncs CPU-seconds", both of the process's whole life.
"""

from __future__ import annotations

import mmap
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

_fsyncs = 0


class _UnreadAhead(mmap.mmap):
    """The kernel fetches the pages that are looked at, and not their neighbours."""

    def __new__(cls, *given: Any, **named: Any) -> _UnreadAhead:
        made = super().__new__(cls, *given, **named)
        made.madvise(mmap.MADV_RANDOM)
        return made


def _counted(name: str) -> None:
    call = getattr(os, name)

    def counting(descriptor: int) -> None:
        global _fsyncs
        _fsyncs += 1
        call(descriptor)

    setattr(os, name, counting)


def disk_read_bytes(pid: int | str) -> int:
    """What the kernel fetched from a disk for a process so far: nothing that was in its cache."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def main() -> None:
    # Whoever took them by name would go uncounted: so before anything imports them.
    _counted("fsync")
    _counted("fdatasync")
    mmap.mmap = _UnreadAhead  # type: ignore[misc]
    import fastprod.cli.command  # noqa: F401, PLC0415

    print("BEGIN", disk_read_bytes("self"), flush=True)
    sys.argv = ["fastprod", "broker", "--port", "0", "--end-with-stdin", *sys.argv[1:]]
    try:
        runpy.run_module("fastprod", run_name="__main__", alter_sys=True)
    finally:
        print("END", _fsyncs, time.process_time(), flush=True)


if __name__ == "__main__":
    main()
