"""Producers for tests of misfortunes: they retry, connect and ask again almost at once."""

from __future__ import annotations

import time
from typing import Any

from fastprod import KafkaProducer
from support.peer.stage import Stage

WAIT_S = 30.0
"""Bound of what must happen; nothing waits so long unless the test is about to fail."""

BACKOFFS_MS = {
    "retry_backoff_ms": 2,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 2,
    "reconnect_backoff_max_ms": 20,
}


def quick_producer(brokers: Stage | str, **settings: Any) -> KafkaProducer:
    """A producer with short backoffs.

    Args:
        brokers: peers, or bootstrap_servers.
        settings: more of them; they win.
    """
    servers = brokers if isinstance(brokers, str) else brokers.bootstrap_servers
    return KafkaProducer({"bootstrap_servers": servers, **BACKOFFS_MS, **settings})


def wait_for_failure(producer: KafkaProducer) -> None:
    """Wait until it has found out why there is no metadata.

    The time-out of a call that begins then names it, however late the next attempt is.
    """
    deadline_s = time.monotonic() + WAIT_S
    while producer._metadata.last_failure is None:
        assert time.monotonic() < deadline_s, "nothing failed"
        time.sleep(0.001)
