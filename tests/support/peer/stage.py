"""What a test sees of its peers and does to them, be it one peer or a cluster of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from support.peer.cluster_state import ClusterState, EndedTransaction
from support.peer.journal import Journal, PeerFaultError, Request
from support.peer.node import Node
from support.peer.partition_log import LoggedRecord
from support.peer.received_batch import ReceivedBatch
from support.peer.script import Rule, Script


class Stage:
    """Base of `Peer` and `PeerCluster`. THREADS: any. Every wait is bounded by `timeout_s`,
    whose default is the `patience_s` of the constructor, and raises TimeoutError with what came.
    """

    def __init__(
        self, journal: Journal, state: ClusterState, script: Script, nodes: Sequence[Node]
    ) -> None:
        self._journal = journal
        self._state = state
        self._script = script
        self._nodes = tuple(nodes)
        self._is_started = False
        self._is_closed = False

    # The script.

    def on(self, api_key: int) -> Rule:
        """Begin a rule: `on(PRODUCE).error(6).once()`."""
        return self._script.on(api_key)

    def clear_script(self) -> None:
        """Take every rule out of force."""
        self._script.clear()

    # What came.

    def requests(self, api_key: int | None = None) -> list[Request]:
        """Requests in the order of arrival, of one API or all."""
        with self._journal.lock:
            return [
                request
                for request in self._journal.requests
                if request.node_id in self._node_ids and api_key in (None, request.api_key)
            ]

    def batches(
        self, topic: str | None = None, partition: int | None = None
    ) -> list[ReceivedBatch]:
        """Every batch received, appended or not, in the order of arrival."""
        with self._journal.lock:
            return [
                batch
                for batch in self._journal.batches
                if batch.node_id in self._node_ids
                and topic in (None, batch.topic)
                and partition in (None, batch.partition)
            ]

    def log(self, topic: str, partition: int, *, committed: bool = False) -> list[LoggedRecord]:
        """The records of a partition by offset, whichever node took them.

        Args:
            committed: leave out the records of open and aborted transactions.
        """
        with self._journal.lock:
            return self._state.partition(topic, partition).log.records(committed)

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        """The values of `log`."""
        return [record.value for record in self.log(topic, partition)]

    @property
    def ended_transactions(self) -> list[EndedTransaction]:
        with self._journal.lock:
            return list(self._state.ended_transactions)

    def wait_for(
        self, api_key: int, count: int = 1, timeout_s: float | None = None
    ) -> list[Request]:
        """Wait until `count` requests of an API have come in all; returns all of them."""
        what = f"request number {count} of API {api_key}"
        self.wait_until(lambda: len(self.requests(api_key)) >= count, timeout_s, what)
        return self.requests(api_key)

    def wait_for_log(
        self, topic: str, partition: int, count: int, timeout_s: float | None = None
    ) -> list[LoggedRecord]:
        """Wait until a partition holds `count` records; returns all of them."""

        def is_there() -> bool:
            with self._journal.lock:
                return self._state.partition(topic, partition).log.record_count >= count

        self.wait_until(is_there, timeout_s, f"record number {count} of {topic}-{partition}")
        return self.log(topic, partition)

    def wait_until(
        self, predicate: Callable[[], bool], timeout_s: float | None = None, what: str = ""
    ) -> None:
        """Wait until `predicate()`; it is looked at after every event and every 50 ms."""
        self._journal.wait_until(predicate, timeout_s, what)

    # Answers on cue.

    @property
    def held_count(self) -> int:
        """How many requests a `hold` keeps waiting, at all nodes of the cluster."""
        return len(self._journal.held)

    @property
    def held(self) -> list[Request]:
        """These requests, in the order of arrival."""
        with self._journal.lock:
            arrivals = set(self._journal.held)
            return [each for each in self._journal.requests if each.arrival in arrivals]

    def wait_until_held(self, count: int = 1, timeout_s: float | None = None) -> None:
        self.wait_until(lambda: self.held_count >= count, timeout_s, f"held request {count}")

    def release(self, count: int | None = None) -> int:
        """Let the oldest `count` held requests go, or all; returns how many there were.

        Replies of one connection leave in the order of its requests whatever is released first.
        """
        with self._journal.lock:
            arrivals = sorted(self._journal.held)[:count]
            releases = [self._journal.held[arrival] for arrival in arrivals]
            for arrival in arrivals:
                self._journal.let_go(arrival)
        for release in releases:
            release()
        return len(releases)

    # Connections.

    def close_all(self, *, reset: bool = False) -> None:
        """Close every connection from this side at once; `reset` sends RST in place of FIN."""
        for node in self._nodes:
            node.close_connections(reset=reset)

    def stop_reading(self) -> None:
        """Take no byte more from any connection, new ones too, once this returns."""
        for node in self._nodes:
            node.set_reading(False)

    def resume_reading(self) -> None:
        """Go on reading after `stop_reading`, called or scripted."""
        for node in self._nodes:
            node.set_reading(True)

    def refuse_connections(self) -> None:
        """Refuse new connections (ECONNREFUSED); those there are stay."""
        for node in self._nodes:
            node.refuse()

    def hang_connections(self) -> None:
        """Let new connects neither succeed nor fail (Linux), as behind a firewall that drops."""
        for node in self._nodes:
            node.hang()

    def accept_connections(self) -> None:
        """Accept connections again, on the same port."""
        for node in self._nodes:
            node.listen()

    def drop_next_connections(self, count: int = 1) -> None:
        """Close the next `count` connections of each node as soon as they are accepted."""
        for node in self._nodes:
            node.drop_next_connections(count)

    # Topics.

    def add_topic(self, name: str, partition_count: int = 1) -> bytes:
        """Make a topic; returns its id, 16 bytes."""
        return self._state.add_topic(name, partition_count).topic_id

    def add_partitions(self, name: str, partition_count: int) -> None:
        """Let a topic have `partition_count` partitions in all."""
        self._state.add_partitions(name, partition_count)

    def delete_topic(self, name: str) -> None:
        self._state.delete_topic(name)

    def recreate_topic(self, name: str) -> bytes:
        """Delete and make again: new topic id, which is returned, empty logs, epochs from 0."""
        return self._state.recreate_topic(name).topic_id

    def topic_id(self, name: str) -> bytes:
        with self._journal.lock:
            return self._state.topics[name].topic_id

    def set_topic_error(self, name: str, error_code: int) -> None:
        """The topic's error in Metadata from now on; 0: none."""
        with self._journal.lock:
            self._state.topics[name].error_code = error_code

    def leader(self, topic: str, partition: int) -> int:
        """The node that takes the batches of a partition."""
        return self._state.partition(topic, partition).leader

    def move_leader(self, topic: str, partition: int, to: int, *, told: bool = True) -> int:
        """Give a partition a new leader and the next leader epoch, which is returned.

        Args:
            to: node id; -1: no leader.
            told: false lets Metadata name the old leader until `tell_truth`.
        """
        return self._state.move_leader(topic, partition, to, told=told)

    def tell(
        self,
        topic: str,
        partition: int,
        *,
        leader: int | None = None,
        epoch: int | None = None,
        error_code: int | None = None,
    ) -> None:
        """Let Metadata say something else of a partition than what is so."""
        with self._journal.lock:
            told = self._state.partition(topic, partition)
            told.told_leader = told.told_leader if leader is None else leader
            told.told_epoch = told.told_epoch if epoch is None else epoch
            told.error_code = told.error_code if error_code is None else error_code

    def tell_truth(self) -> None:
        """Let Metadata catch up with every leader and leader epoch."""
        self._state.tell_truth()

    def set_offsets(
        self, topic: str, partition: int, *, next_offset: int | None = None, start_offset: int = 0
    ) -> None:
        """Place a log: the offset of the next record, and the log start offset of the answers."""
        with self._journal.lock:
            log = self._state.partition(topic, partition).log
            log.start_offset = start_offset
            log.next_offset = log.next_offset if next_offset is None else next_offset

    def forget_producers(self, topic: str, partition: int) -> None:
        """Lose the sequences of a partition's producers."""
        with self._journal.lock:
            self._state.partition(topic, partition).log.forget_producers()

    # Beginning and end.

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every node, comma-separated."""
        with self._journal.lock:
            addresses = [self._state.addresses[node.node_id] for node in self._nodes]
        return ",".join(f"{address.host}:{address.port}" for address in addresses)

    def take_faults(self) -> list[str]:
        """What clients did wrong so far; it then no longer fails the test at the end."""
        return self._journal.take_faults()

    def start(self) -> Self:
        """Listen; `with` does it by itself."""
        if not self._is_started:
            self._is_started = True
            for node in self._nodes:
                node.start()
        return self

    def close(self) -> None:
        """Close every socket and end every thread; harmless when done already."""
        if self._is_started and not self._is_closed:
            self._is_closed = True
            for node in self._nodes:
                node.stop()

    def check(self) -> None:
        """Raise `PeerFaultError` for faults not taken, and for counted rules that never came."""
        faults = self._journal.take_faults()
        faults += [f"never came: {rule}" for rule in self._unused_rules()]
        if faults:
            raise PeerFaultError("\n".join(faults))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if error is None:
            self.check()
        else:
            error.add_note(f"the peers: {self._journal.summary()}")

    @property
    def _node_ids(self) -> set[int]:
        return {node.node_id for node in self._nodes}

    def _unused_rules(self) -> list[Rule]:
        return self._script.unused()
