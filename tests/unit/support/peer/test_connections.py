"""Reading stopped to the byte, connections refused, hung and closed, and a sure end."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

import pytest

from fastprod.protocol.api_keys import API_VERSIONS, METADATA, PRODUCE
from support.peer.event_loop import LoopStoppedError
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.raw_client import RawClient, produce_message
from support.peer.scripted_peer import Peer, PeerCluster
from support.processes.leak_guard import Census

LARGE = b"x" * 200_000


def write_until_full(sock: socket.socket, data: bytes) -> int:
    """Write without waiting; how many bytes the kernel took until it took no more."""
    sock.setblocking(False)
    taken_count = 0
    with contextlib.suppress(BlockingIOError):
        while taken_count < len(data):
            taken_count += sock.send(data[taken_count:])
    sock.settimeout(10)
    return taken_count


def test_a_stopped_peer_takes_not_a_byte_and_the_client_blocks_amid_a_frame(
    new_peer: PeerFactory,
) -> None:
    """P-D.8.4."""
    peer = new_peer({"t": 1}, receive_buffer_bytes=4096)
    with RawClient(peer) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.ask(API_VERSIONS, 0, {})
        before = peer.connection(1).received
        peer.stop_reading()
        frame = client.request(PRODUCE, 9, produce_message([LARGE]))
        taken_count = write_until_full(client.sock, frame)
        assert 0 < taken_count < len(frame)
        assert peer.connection(1).received == before
        peer.resume_reading()
        client.sock.sendall(frame[taken_count:])
        client.read_frame()
    assert peer.connection(1).received == before + frame
    assert peer.values("t", 0) == [LARGE]


def test_a_new_connection_to_a_stopped_peer_is_not_read_either(peer: Peer) -> None:
    peer.stop_reading()
    with RawClient(peer) as client:
        client.send(API_VERSIONS, 0, {})
        peer.wait_until(lambda: len(peer.connections) == 1)
        assert peer.connection(1).received == b""
        peer.connection(1).resume_reading()
        client.read_frame()


@pytest.mark.parametrize("byte_count", [8, 9, 700])
def test_reading_stops_after_exactly_so_many_bytes_of_a_frame(peer: Peer, byte_count: int) -> None:
    """P-D.8.4."""
    rule = peer.on(PRODUCE).after(1).stop_reading(after_bytes_read=byte_count).error(7)
    with RawClient(peer) as client:
        assert client.produce(b"1").error_code == 0
        before = peer.connection(1).received
        frame = client.request(PRODUCE, 9, produce_message([b"2" * 1000]))
        client.sock.sendall(frame)
        rule.wait_for_hits()
        peer.wait_until(lambda: len(peer.connection(1).partial_frame) == byte_count)
        assert peer.connection(1).received == before + frame[:byte_count]
        assert len(peer.requests(PRODUCE)) == 1
        peer.resume_reading()
        refused = client.receive(PRODUCE, 9)[1].responses[0].partition_responses[0]
        assert refused.error_code == 7
    assert peer.connection(1).received == before + frame


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_is_closed_after_exactly_so_many_bytes_of_a_frame(
    peer: Peer, reset: bool
) -> None:
    peer.on(PRODUCE).close(after_bytes_read=700, reset=reset)
    with RawClient(peer) as client:
        frame = client.request(PRODUCE, 9, produce_message([b"v" * 1000]))
        client.sock.sendall(frame[:700])
        assert client.read_to_end() == (b"", "RST" if reset else "FIN")
    assert peer.connection(1).received == frame[:700]
    assert peer.requests() == []


def test_a_rule_for_part_of_a_frame_waits_in_line_behind_older_rules(peer: Peer) -> None:
    peer.on(PRODUCE).error(7)
    peer.on(PRODUCE).close(after_bytes_read=10**6)
    peer.on(PRODUCE).error(6)
    with RawClient(peer) as client:
        assert client.produce(b"v").error_code == 7
        client.send_produce(b"v")
        assert client.read_to_end() == (b"", "FIN")
    with RawClient(peer) as client:
        assert client.produce(b"v").error_code == 6


def test_a_client_that_closes_amid_a_frame_is_no_fault(peer: Peer) -> None:
    with RawClient(peer) as client:
        client.sock.sendall(client.request(METADATA, 0, {"topics": []})[:-1])
    peer.wait_until(lambda: peer.connections != [] and not peer.connection(1).is_open)
    assert peer.connection(1).closed_by == "client"
    assert len(peer.connection(1).partial_frame) > 8


def test_connections_are_refused_and_accepted_again_on_the_same_port(peer: Peer) -> None:
    port = peer.port
    with RawClient(peer) as old:
        peer.refuse_connections()
        with pytest.raises(ConnectionRefusedError):
            RawClient(peer)
        assert old.produce(b"1").base_offset == 0
        peer.accept_connections()
        peer.accept_connections()
        with RawClient(peer) as new:
            assert (new.produce(b"2").base_offset, peer.port) == (1, port)


def test_connects_can_hang(peer: Peer) -> None:
    """P-G.4.4."""
    peer.hang_connections()
    with socket.socket() as client:
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", peer.port))
        assert select.select([], [client], [], 0.1)[1] == []
    peer.accept_connections()
    with RawClient(peer) as client_after:
        assert client_after.ask(API_VERSIONS, 0, {}).error_code == 0


def test_the_next_connections_are_dropped_as_soon_as_they_are_accepted(peer: Peer) -> None:
    peer.drop_next_connections(2)
    for _ in range(2):
        with RawClient(peer) as client:
            assert client.read_to_end() == (b"", "FIN")
    with RawClient(peer) as client:
        assert client.produce(b"v").error_code == 0


@pytest.mark.parametrize("reset", [False, True])
def test_all_connections_are_closed_at_once(peer: Peer, reset: bool) -> None:
    with RawClient(peer) as first, RawClient(peer) as second:
        first.produce(b"1")
        second.produce(b"2")
        peer.close_all(reset=reset)
        assert peer.open_connections == []
        for client in (first, second):
            assert client.read_to_end() == (b"", "RST" if reset else "FIN")


@pytest.mark.parametrize("new_port", [False, True])
def test_a_restarted_peer_keeps_its_log_and_its_sequences(peer: Peer, new_port: bool) -> None:
    sequence = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    port = peer.port
    with RawClient(peer) as client:
        client.produce(b"1", **sequence)
        peer.restart(new_port=new_port)
        assert client.read_to_end() == (b"", "FIN")
    assert (peer.port == port) is not new_port
    with RawClient(peer) as client:
        assert client.produce(b"1", **sequence).base_offset == 0
    assert peer.values("t", 0) == [b"1"]
    assert peer.bootstrap_servers == f"127.0.0.1:{peer.port}"


def test_a_node_goes_down_with_its_leaders_moved_and_comes_back(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    cluster: PeerCluster = new_peer_cluster(2, {"t": 2})
    cluster.stop(2, leaders_to=1)
    assert cluster.leader("t", 1) == 1
    with pytest.raises(ConnectionRefusedError):
        RawClient(cluster.node(2))
    with RawClient(cluster.leader_node("t", 1)) as client:
        assert client.produce(b"v", partition=1).error_code == 0
        nodes = client.ask(METADATA, 0, {"topics": []}).brokers
        assert [node.node_id for node in nodes] == [1]
        cluster.start_again(2)
        assert len(client.ask(METADATA, 0, {"topics": []}).brokers) == 2
    with RawClient(cluster.node(2)) as client:
        assert client.produce(b"v", partition=1).error_code == 6


def test_frames_that_nobody_asked_for_overtake_replies_that_wait(peer: Peer) -> None:
    """P-G.2.2."""
    peer.on(PRODUCE).hold()
    with RawClient(peer) as client:
        client.send_produce(b"v")
        peer.wait_until_held()
        peer.send(b"\0\0\0\1x")
        assert client.read_frame() == b"x"
        peer.release()
        assert client.receive(PRODUCE, 9)[0] == 1


def test_replies_larger_than_the_window_arrive_whole(peer: Peer) -> None:
    frame = len(LARGE * 20).to_bytes(4, "big") + LARGE * 20
    peer.on(PRODUCE).reply(frame).times(2)
    with RawClient(peer) as client:
        client.send_produce(b"1")
        client.send_produce(b"2")
        peer.wait_for(PRODUCE, 2)
        assert [client.read_frame() for _ in range(2)] == [LARGE * 20] * 2
    assert peer.connection(1).sent == frame * 2


def test_the_versions_of_an_api_change_while_the_peer_runs(peer: Peer) -> None:
    peer.speak(PRODUCE, 3, 8)
    peer.speak_no_more(METADATA)
    with RawClient(peer) as client:
        answer = client.ask(API_VERSIONS, 0, {})
        ranges = {each.api_key: each.max_version for each in answer.api_keys}
        assert ranges[PRODUCE] == 8
        assert METADATA not in ranges
        client.send_produce(b"v", version=9)
        client.read_to_end()
    assert "version 9 of API 0" in peer.take_faults()[0]


def test_a_peer_ends_whatever_is_open_held_or_stopped_and_leaves_nothing() -> None:
    before = Census()
    with Peer({"t": 1}) as peer, RawClient(peer) as held, RawClient(peer) as stopped:
        peer.on(PRODUCE).hold()
        held.send_produce(b"v")
        peer.wait_until_held()
        peer.stop_reading()
        stopped.send_produce(b"v")
        peer.hang_connections()
        peer.close()
        assert held.read_to_end()[0] == b""
        peer.close()
    assert before.wait_until_nothing_is_left() == []
    with pytest.raises(LoopStoppedError):
        peer.stop_reading()


def test_many_threads_script_read_and_write_at_once(peer: Peer) -> None:
    errors: list[BaseException] = []

    def write(partition: int) -> None:
        try:
            with RawClient(peer) as client:
                for number in range(30):
                    rule = peer.on(PRODUCE).for_partition("t", partition).error(6).once()
                    assert client.produce(b"v", partition=partition).error_code == 6
                    assert rule.hits == 1
                    client.produce(b"%d" % number, partition=partition)
                    peer.wait_for_log("t", partition, number + 1)
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(partition,)) for partition in range(3)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 30
    for writer in writers:
        writer.join(max(0.0, deadline - time.monotonic()))
    assert errors == []
    for partition in range(3):
        assert peer.values("t", partition) == [b"%d" % number for number in range(30)]
