"""touch_free_memory: the kernel's free memory is made as quick for every run."""

from __future__ import annotations

import mmap
from pathlib import Path

_LEFT_BYTES = 1 << 30


def touch_free_memory(size: int) -> None:
    """Write to `size` bytes of free memory and give them back.

    A virtual machine can return free memory to its host, and gets each page of it back at the cost
    of a fault, some 2 us. A server that stores what it gets would pay that for its page cache, and
    run at half speed, but not for the client that comes after one with a large queue, whose memory
    has just become free.

    Args:
        size: at least what the run will store; less is touched where 1 GiB would not stay free.

    Blocks: up to 1 s a GiB.
    """
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemFree"].split()[0]) * 1024
    size = min(size, free - _LEFT_BYTES)
    if size > 0:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, size, flags=flags).close()
