"""ReplicaFetcher: the thread of a node that fetches for the replicas that follow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fastprod.broker.log.log_error import LogError
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.broker.threads.joining import await_end, try_start

_log = logging.getLogger(__name__)

Fetch = Callable[[ReplicatedPartition, int], bool]
"""Has a node fetch once from the leader of a partition; whether there may be more."""


class ReplicaFetcher:
    """Fetches for one node, one partition after the other (ReplicaFetcherThread). Any thread.

    The thread starts with the first partition that has something to fetch, and sleeps while there
    is none: what a fetch would wait for at a leader wakes it.

    Args:
        node_id: whose replicas follow.
        fetch: does it.
    """

    def __init__(self, node_id: int, fetch: Fetch) -> None:
        self.node_id = node_id
        self._fetch = fetch
        self._changed = threading.Condition()
        self._marked: dict[ReplicatedPartition, None] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def mark(self, partition: ReplicatedPartition) -> None:
        """Note that there may be something to fetch. The partition's lock may be held."""
        if partition in self._marked:
            # It is taken out before it is looked at.
            return
        with self._changed:
            if self._is_closed:
                return
            self._marked[partition] = None
            if self._thread is None:
                # Without one the next change tries again.
                name = f"fastprod-broker-replica-fetcher-{self.node_id}"
                self._thread = try_start(name, self._run)
            else:
                self._changed.notify()

    def begin_close(self) -> None:
        """Tell the thread to end. May be repeated."""
        with self._changed:
            self._is_closed = True
            self._marked.clear()
            self._changed.notify()

    def close(self) -> None:
        """End the thread after the fetch under way. May be repeated.

        Raises:
            TimeoutError: that takes longer than 10 s.
        """
        self.begin_close()
        await_end(self._thread)

    def _run(self) -> None:
        while (partition := self._next()) is not None:
            try:
                goes_on = self._fetch(partition, self.node_id)
            except LogError as error:
                # Its files: the replica stays behind, and out of sync.
                if not partition.is_deleted:
                    _log.error("node %d cannot follow %s: %s", self.node_id, partition, error)
                continue
            except Exception:
                _log.exception("node %d cannot follow %s", self.node_id, partition)
                continue
            if goes_on:
                self._again(partition)

    def _next(self) -> ReplicatedPartition | None:
        with self._changed:
            while not self._marked and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            partition = next(iter(self._marked))
            del self._marked[partition]
            return partition

    def _again(self, partition: ReplicatedPartition) -> None:
        """Fetch more of it after the others' turn."""
        with self._changed:
            if not self._is_closed:
                self._marked[partition] = None
