"""A process that appends to a log and compacts it all the time, until it is killed.

python tests/support/broker/log_compactor.py <directory>

After each append it prints the key and the value, both numbers, of its record.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path

from fastprod.broker.log.cleaning.cleaner import clean
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.threads.clock import SystemClock
from support.broker.log_batches import encoded

KEYS = 20


def open_log(directory: Path) -> Log:
    config = LogConfig(
        segment_bytes=3000, compact=True, retention_ms=-1, min_cleanable_dirty_ratio=0.01
    )
    return Log(directory, "t", 0, config, SystemClock())


def main(directory: Path) -> None:
    log, clock = open_log(directory), SystemClock()

    def compact() -> None:
        while True:
            clean(log, clock.time_ms())

    threading.Thread(target=compact, daemon=True).start()
    number = log.log_end_offset
    while True:
        key = random.randrange(KEYS)
        log.append(encoded([(clock.time_ms(), b"%d" % key, b"%d" % number)]), 0)
        os.write(1, b"%d %d\n" % (key, number))
        number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
