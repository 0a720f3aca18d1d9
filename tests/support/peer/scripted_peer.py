"""A scripted peer: a small Kafka broker on loopback that does wrong on cue, byte by byte.

    with Peer(topics={"t": 3}) as peer:
        peer.on(PRODUCE).error(6).once()
        peer.on(PRODUCE).hold().for_partition("t", 1)
        ...
        peer.wait_until_held()
        peer.release()
        assert peer.values("t", 0) == [b"1", b"2"]

API keys come from `fastprod.protocol.api_keys`. Without a script a peer behaves like a Kafka 4
broker: ApiVersions 0-4, Metadata 0-13, InitProducerId 0-5, Produce 3-13 with sequences checked,
and a transaction coordinator that grants everything. For any other API list it in `versions` and
script `reply`.

A rule: peer.on(API) [filters] verb [more verbs] [filters] [how often]. It is in force from its
first verb, for one request unless told otherwise. Rules wait in line: a request takes the oldest
counted rule whose filters fit, one for each scope (the request, a topic, a partition), laid over
all standing (`always`) rules field by field; a counted rule for the whole request also sets aside
what standing rules do to the reply's bytes and to the connection.

| how often     | once() (default) | times(n) | always()                                          |
| filters       | for_topic(t) | for_partition(t, p) | after(n requests) | on_connection(n)       |
|               | when(predicate)                                                                |
|---------------|--------------------------------------------------------------------------------|
| what it says  | error(code, message=, record_errors={index: text}, append=False)               |
|               | answer(**fields): base_offset, log_append_time, producer_id, ... (kio's names) |
|               | leader_hint(node, epoch, host=, port=, endpoint=True)   Produce v10+           |
|               | throttle(ms) | leave_out() | reverse() | unsupported("v0"/"asked"/"junk"/"bare")|
|               | change(f): f(message) edits | reply(bytes or f): f(request) -> bytes or fields   |
| when          | delay(seconds, before_append=False) | hold(before_append=False), then release() |
| reply's bytes | truncate(n, close=True) | garble(at=8) | wrong_correlation_id(by=1)            |
|               | announce(size) | duplicate_reply() | unasked_frame() | dribble(part_bytes=1)   |
| connection    | close(after_bytes_read=None, reset=False) | close_after_append(reset=False)    |
|               | half_close(append=False) | silence(append=False) | stop_reading(n bytes)       |
| the rule      | cancel() | hits | wait_for_hits(n)                                             |

| peer or cluster: script  | on | clear_script | release | held | held_count | wait_until_held   |
| what came                | requests(api) | batches(t, p) | log(t, p) | values(t, p)             |
|                          | ended_transactions | take_faults                                   |
| waits, all bounded       | wait_for(api, n) | wait_for_log(t, p, n) | wait_until(predicate)    |
| connections              | close_all | refuse_connections | accept_connections                |
|                          | hang_connections | drop_next_connections(n)                         |
|                          | stop_reading | resume_reading                                       |
| topics and leaders       | add_topic | add_partitions | delete_topic | recreate_topic | topic_id|
|                          | set_topic_error | leader | move_leader | tell | tell_truth          |
|                          | set_offsets | forget_producers                                     |
| beginning and end        | bootstrap_servers | start | close | check                           |
| one peer                 | connection(n).received / .sent / .requests / .partial_frame / ...   |
|                          | connections | open_connections | restart(new_port=False) | node_id  |
|                          | speak(api, low, high) | speak_no_more(api) | send(bytes) | port     |
| cluster                  | node(id) | nodes | leader_node(t, p) | move_coordinator(id)         |
|                          | stop(id, leaders_to=None) | start_again(id, new_port=False)         |

At the end of `with` every socket is closed and the thread joined; then a client's breach of the
protocol (a batch that is not sound, a version that was not offered) and a counted rule that never
found its request are raised as `PeerFaultError`, so that no fault test passes without its fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.peer.cluster_state import ClusterState
from support.peer.connection import Connection
from support.peer.journal import Journal
from support.peer.node import Node
from support.peer.peer_options import PeerOptions
from support.peer.script import Rule, Script
from support.peer.stage import Stage

PATIENCE_S = 10.0


class Peer(Stage):
    """One broker: a cluster of its own, or a node of a `PeerCluster`. Use it in a `with`.

    Args:
        topics: partition count by name.
        node_id: broker id.
        auto_create_partitions: partitions of a topic that Metadata asks for and nobody made; 0:
            it is unknown.
        patience_s: default bound of waits, and bound of every call into the peer's thread.
        cluster: for `PeerCluster` alone.
        options: fields of `PeerOptions`.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        node_id: int = 1,
        auto_create_partitions: int = 0,
        patience_s: float = PATIENCE_S,
        cluster: tuple[Journal, ClusterState, Script] | None = None,
        **options: Any,
    ) -> None:
        if cluster is None:
            journal = Journal(patience_s)
            state = ClusterState(journal.lock, [node_id], auto_create_partitions)
            state.set_topics(topics or {})
            scripts = [Script(journal)]
        else:
            journal, state, cluster_script = cluster
            scripts = [Script(journal), cluster_script]
        self._node = Node(node_id, state, journal, scripts, PeerOptions(**options))
        super().__init__(journal, state, scripts[0], [self._node])

    @property
    def node_id(self) -> int:
        return self._node.node_id

    @property
    def port(self) -> int:
        """The port it listens on, or will again; 0 before the start."""
        return self._node.port

    @property
    def connections(self) -> list[Connection]:
        """All that were ever accepted, oldest first."""
        return list(self._node.connections)

    def connection(self, number: int) -> Connection:
        """One of them, from 1."""
        return self._node.connections[number - 1]

    @property
    def open_connections(self) -> list[Connection]:
        return [connection for connection in self.connections if connection.is_open]

    def restart(self, *, new_port: bool = False) -> None:
        """Close every connection and the listener, then listen anew; logs and sequences stay."""
        self.refuse_connections()
        self.close_all()
        self._node.listen(new_port=new_port)

    def speak(self, api_key: int, low: int, high: int) -> None:
        """List an API with these versions from now on, and take no others."""
        with self._journal.lock:
            self._node.answers.versions[api_key] = (low, high)

    def speak_no_more(self, api_key: int) -> None:
        """List an API no longer."""
        with self._journal.lock:
            self._node.answers.versions.pop(api_key, None)

    def send(self, frame: bytes) -> None:
        """Send bytes that nobody asked for on every open connection."""
        for connection in self.open_connections:
            connection.send(frame)


class PeerCluster(Stage):
    """Several peers with one state: topics, leaders, logs. Use it in a `with`.

    Partition p of a topic is led by node p modulo the number of nodes. Rules made with `on` are
    for the next requests at any node, those of `node(id).on` for that node and come first.

    Args:
        nodes: how many; ids from 1.
        topics, auto_create_partitions, patience_s, options: as `Peer`.
    """

    def __init__(
        self,
        nodes: int = 2,
        topics: Mapping[str, int] | None = None,
        *,
        auto_create_partitions: int = 0,
        patience_s: float = PATIENCE_S,
        **options: Any,
    ) -> None:
        journal = Journal(patience_s)
        node_ids = range(1, nodes + 1)
        state = ClusterState(journal.lock, node_ids, auto_create_partitions)
        state.set_topics(topics or {})
        script = Script(journal)
        shared = (journal, state, script)
        self._peers = {
            node_id: Peer(node_id=node_id, cluster=shared, **options) for node_id in node_ids
        }
        super().__init__(journal, state, script, [peer._node for peer in self._peers.values()])

    def node(self, node_id: int) -> Peer:
        return self._peers[node_id]

    @property
    def nodes(self) -> list[Peer]:
        return list(self._peers.values())

    def leader_node(self, topic: str, partition: int) -> Peer:
        return self.node(self.leader(topic, partition))

    def move_coordinator(self, to: int) -> None:
        """Let FindCoordinator name another node."""
        with self._journal.lock:
            self._state.coordinator_id = to

    def stop(self, node_id: int, *, leaders_to: int | None = None) -> None:
        """Take a node down: connections closed and refused, gone from Metadata.

        Args:
            leaders_to: the node that takes over its partitions; None: they keep their leader.
        """
        peer = self.node(node_id)
        # First: who loses its connection asks at once, and perhaps never again.
        with self._journal.lock:
            self._state.addresses.pop(node_id, None)
        peer.refuse_connections()
        peer.close_all()
        if leaders_to is not None:
            self._state.lead_from(node_id, leaders_to)

    def start_again(self, node_id: int, *, new_port: bool = False) -> None:
        """Bring a node back; partitions stay where they are."""
        self.node(node_id)._node.listen(new_port=new_port)

    def clear_script(self) -> None:
        super().clear_script()
        for peer in self.nodes:
            peer.clear_script()

    def _unused_rules(self) -> list[Rule]:
        return super()._unused_rules() + [
            rule for peer in self.nodes for rule in peer._unused_rules()
        ]
