"""Every verb of a rule, how rules wait in line, and how they are laid over each other."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from fastprod.protocol.api_keys import API_VERSIONS, FIND_COORDINATOR, METADATA, PRODUCE
from support.oracle import record_batch as oracle
from support.peer import scripted_peer
from support.peer.connection import Connection
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.journal import PeerFaultError, Request
from support.peer.raw_client import RawClient, message_of
from support.peer.script import Rule
from support.peer.scripted_peer import Peer, PeerCluster
from support.peer.stage import Stage

BATCH = oracle.encode_batch([(1000, b"k", b"v")])


def code(client: RawClient, partition: int = 0, version: int = 9) -> int:
    answer: int = client.produce(b"v", partition=partition, version=version).error_code
    return answer


def test_an_error_is_answered_for_every_partition_once_and_nothing_is_appended(peer: Peer) -> None:
    peer.on(PRODUCE).error(6).once()
    with RawClient(peer) as client:
        request = message_of([("t", index, BATCH) for index in range(3)])
        for expected in (6, 0):
            answer = client.ask(PRODUCE, 9, request)
            answered = answer.responses[0].partition_responses
            assert [each.error_code for each in answered] == [expected] * 3
    assert [len(peer.log("t", index)) for index in range(3)] == [1, 1, 1]
    assert [batch.error_code for batch in peer.batches()] == [6] * 3 + [0] * 3


def test_counted_rules_wait_in_line_and_after_lets_requests_pass(peer: Peer) -> None:
    peer.on(PRODUCE).after(1).error(7).times(2)
    peer.on(PRODUCE).error(6).once()
    with RawClient(peer) as client:
        assert [code(client) for _ in range(5)] == [6, 7, 7, 0, 0]


def test_a_standing_rule_lies_under_counted_ones(peer: Peer) -> None:
    peer.on(PRODUCE).error(6).always()
    peer.on(PRODUCE).throttle(250).always()
    peer.on(PRODUCE).error(7).once()
    with RawClient(peer) as client:
        answers = [client.ask(PRODUCE, 9, message_of([("t", 0, BATCH)])) for _ in range(3)]
        codes = [each.responses[0].partition_responses[0].error_code for each in answers]
        assert codes == [7, 6, 6]
        assert {each.throttle_time for each in answers} == {250}
        peer.clear_script()
        assert code(client) == 0


def test_a_counted_rule_sets_aside_what_a_standing_one_does_to_the_connection(peer: Peer) -> None:
    peer.on(PRODUCE).close().always()
    peer.on(PRODUCE).error(7).once()
    with RawClient(peer) as client:
        assert code(client) == 7
        client.send_produce(b"v")
        assert client.read_to_end() == (b"", "FIN")


def test_filters_choose_partition_topic_connection_and_request(peer: Peer) -> None:
    peer.add_topic("u")
    peer.on(PRODUCE).error(2).for_partition("t", 1)
    peer.on(PRODUCE).error(3).for_topic("u")
    peer.on(PRODUCE).error(5).on_connection(2)
    peer.on(PRODUCE).when(lambda request: request.version == 8).error(7)
    request = message_of([("t", 0, BATCH), ("t", 1, BATCH), ("u", 0, BATCH)])
    with RawClient(peer) as first, RawClient(peer) as second:
        answer = first.ask(PRODUCE, 9, request)
        codes = [
            each.error_code for topic in answer.responses for each in topic.partition_responses
        ]
        assert codes == [0, 2, 3]
        assert code(first, version=8) == 7
        assert code(second) == 5
        assert code(second, partition=1) == 0


def test_an_error_may_come_although_the_batch_was_appended(peer: Peer) -> None:
    peer.on(PRODUCE).error(20, append=True)
    with RawClient(peer) as client:
        assert code(client) == 20
    assert peer.values("t", 0) == [b"v"]


def test_fields_messages_record_errors_and_hints_are_answered(peer: Peer) -> None:
    """P-F.4.5, P-H.6."""
    errors = {0: "bad", 2: None}
    peer.on(PRODUCE).error(87, message="three", record_errors=errors).leader_hint(5, 9, port=1)
    peer.on(PRODUCE).answer(base_offset=-1, log_append_time=77, log_start_offset=1012)
    with RawClient(peer) as client:
        refused = client.produce(b"1", b"2", b"3", version=10)
        taken = client.produce(b"1", version=10)
        old = client.produce(b"1", version=4)
    listed = {each.batch_index: each.batch_index_error_message for each in refused.record_errors}
    assert (listed, refused.error_message) == (errors, "three")
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (5, 9)
    assert (taken.base_offset, taken.log_append_time, taken.log_start_offset) == (-1, 77, 1012)
    assert [record.timestamp for record in peer.log("t", 0)] == [77, 1000]
    assert old.base_offset == 1


def test_partitions_may_be_left_out_or_come_in_another_order(peer: Peer) -> None:
    """P-F.4.1, P-J.3.5."""
    peer.on(PRODUCE).leave_out().for_partition("t", 1)
    peer.on(PRODUCE).reverse()
    with RawClient(peer) as client:
        answer = client.ask(PRODUCE, 9, message_of([("t", index, BATCH) for index in range(3)]))
    assert [each.index for each in answer.responses[0].partition_responses] == [2, 0]
    assert peer.values("t", 1) == [b"v"]


def test_the_usual_answer_may_be_changed_or_replaced(peer: Peer) -> None:
    def add_partition(message: dict[str, Any]) -> None:
        (topic,) = message["responses"]
        topic["partition_responses"].append({**topic["partition_responses"][0], "index": 7})

    seen: list[Request] = []

    def twice(request: Request) -> bytes:
        seen.append(request)
        return request.usual() + request.usual()

    peer.on(PRODUCE).change(add_partition)
    peer.on(PRODUCE).reply(twice)
    peer.on(PRODUCE).reply(b"\0\0\0\1x")
    peer.on(PRODUCE).reply(lambda request: {"responses": [], "throttle_time": 5})
    with RawClient(peer) as client:
        answer = client.ask(PRODUCE, 9, message_of([("t", 0, BATCH)]))
        assert [each.index for each in answer.responses[0].partition_responses] == [0, 7]
        client.send_produce(b"2", b"3")
        offsets = [
            client.receive(PRODUCE, 9)[1].responses[0].partition_responses[0].base_offset
            for _ in range(2)
        ]
        assert offsets == [1, 3]
        client.send_produce(b"lost")
        assert client.read_frame() == b"x"
        assert client.ask(PRODUCE, 9, message_of([("t", 0, BATCH)])).throttle_time == 5
    assert peer.values("t", 0) == [b"v", b"2", b"3", b"2", b"3"]
    assert seen == peer.requests(PRODUCE)[1:2]


def test_any_listed_api_can_be_scripted(new_peer: PeerFactory) -> None:
    sasl_handshake = 17
    peer = new_peer(versions={sasl_handshake: (0, 1)})
    peer.on(sasl_handshake).reply(lambda request: {"error_code": 33, "mechanisms": ["PLAIN"]})
    peer.on(FIND_COORDINATOR).error(15)
    with RawClient(peer) as client:
        assert client.ask(sasl_handshake, 1, {"mechanism": "X"}).mechanisms == ("PLAIN",)
        answer = client.ask(FIND_COORDINATOR, 4, {"coordinator_keys": ["k"], "key_type": 1})
        assert answer.coordinators[0].error_code == 15
        client.send(sasl_handshake, 1, {"mechanism": "X"})
        client.read_to_end()
    assert "script one with reply()" in peer.take_faults()[0]


def test_a_held_reply_and_those_after_it_wait_for_the_release(peer: Peer) -> None:
    peer.on(PRODUCE).hold().once()
    with RawClient(peer) as client:
        numbers = [client.send_produce(b"%d" % index) for index in range(3)]
        peer.wait_until_held()
        peer.wait_for(PRODUCE, 3)
        assert peer.values("t", 0) == [b"0", b"1", b"2"]
        assert peer.connection(1).sent == b""
        assert peer.release() == 1
        assert [client.receive(PRODUCE, 9)[0] for _ in range(3)] == numbers
    assert peer.held_count == 0


def test_held_requests_are_released_one_by_one_oldest_first(peer: Peer) -> None:
    peer.on(PRODUCE).hold().times(2)
    with RawClient(peer) as first, RawClient(peer) as second:
        first.send_produce(b"1")
        peer.wait_until_held(1)
        second.send_produce(b"2")
        peer.wait_until_held(2)
        assert peer.release(1) == 1
        first.read_frame()
        assert (peer.held_count, peer.connection(2).sent) == (1, b"")
        assert peer.release() == 1
        second.read_frame()


def test_a_request_held_before_its_effect_can_have_it_after_the_client_is_gone(peer: Peer) -> None:
    peer.on(PRODUCE).hold(before_append=True)
    with RawClient(peer) as client:
        client.send_produce(b"late")
        peer.wait_until_held()
    with RawClient(peer) as client:
        assert client.produce(b"early").base_offset == 0
    peer.release()
    assert peer.values("t", 0) == [b"early", b"late"]


def test_a_request_that_has_been_seen_can_be_released(peer: Peer) -> None:
    peer.on(PRODUCE).hold().times(20)
    with RawClient(peer) as client:
        for number in range(1, 21):
            client.send_produce(b"v")
            peer.wait_for(PRODUCE, number)
            assert peer.release() == 1


def test_a_delay_delays_the_reply_and_with_before_append_the_effect(peer: Peer) -> None:
    peer.on(PRODUCE).delay(0.05)
    peer.on(PRODUCE).delay(0.05, before_append=True)
    with RawClient(peer) as client:
        began = time.monotonic()
        assert code(client) == 0
        assert code(client) == 0
        assert time.monotonic() - began >= 0.1


def frame_of_next_reply(peer: Peer, client: RawClient) -> bytes:
    """The reply to a Produce request as it is without a script."""
    client.produce(b"v")
    return peer.connection(1).sent


def test_the_bytes_of_a_reply_are_cut_inverted_renumbered_or_resized(peer: Peer) -> None:
    with RawClient(peer) as client:
        good = frame_of_next_reply(peer, client)
        offsets_differ = slice(8, 14)

        def next_bytes(count: int) -> bytes:
            client.send_produce(b"v")
            return client.read_exactly(count)

        peer.on(PRODUCE).garble()
        assert next_bytes(len(good))[offsets_differ] == bytes(
            255 - byte for byte in good[offsets_differ]
        )
        peer.on(PRODUCE).wrong_correlation_id(by=-1)
        assert next_bytes(len(good))[4:8] == b"\x00\x00\x00\x02"
        peer.on(PRODUCE).dribble(3, pause_s=0.001)
        assert next_bytes(len(good))[:8] == good[:7] + b"\x04"
        peer.on(PRODUCE).duplicate_reply()
        twice = next_bytes(2 * len(good))
        assert twice[: len(good)] == twice[len(good) :]
        peer.on(PRODUCE).unasked_frame(b"\0\0\0\1x")
        assert next_bytes(len(good) + 5)[-5:] == b"\0\0\0\1x"
        peer.on(PRODUCE).truncate(12)
        client.send_produce(b"v")
        data, how = client.read_to_end()
        assert (len(data), data[:4], how) == (12, good[:4], "FIN")
    assert len(peer.log("t", 0)) == 7


@pytest.mark.parametrize("size", [2**31 - 1, -1, 0])
def test_a_reply_announces_any_size_and_then_nothing_more_comes(peer: Peer, size: int) -> None:
    peer.on(PRODUCE).announce(size)
    with RawClient(peer) as client:
        client.send_produce(b"1")
        client.send_produce(b"2")
        assert client.read_exactly(4) == size.to_bytes(4, "big", signed=True)
        peer.wait_for_log("t", 0, 2)
        peer.connection(1).close()
        rest, _ = client.read_to_end()
    assert len(peer.connection(1).sent) == 4 + len(rest)
    assert rest[:4] == b"\0\0\0\1"


def test_a_request_is_closed_upon_without_effect_or_with_it(peer: Peer) -> None:
    peer.on(PRODUCE).close()
    peer.on(PRODUCE).close(reset=True)
    peer.on(PRODUCE).close_after_append()
    peer.on(PRODUCE).close_after_append(reset=True)
    ends = []
    for number in range(4):
        with RawClient(peer) as client:
            client.send_produce(b"%d" % number)
            ends.append(client.read_to_end())
    assert ends == [(b"", "FIN"), (b"", "RST")] * 2
    assert peer.values("t", 0) == [b"2", b"3"]
    assert [batch.error_code for batch in peer.batches()] == [None, None, 0, 0]
    assert {connection.closed_by for connection in peer.connections} == {"peer"}


def test_a_close_does_not_wait_for_a_reply_that_is_held(peer: Peer) -> None:
    peer.on(PRODUCE).hold()
    peer.on(PRODUCE).close()
    with RawClient(peer) as client:
        client.send_produce(b"1")
        client.send_produce(b"2")
        assert client.read_to_end() == (b"", "FIN")
    assert peer.held_count == 0


def test_a_delayed_close_comes_after_the_replies_before_it(peer: Peer) -> None:
    peer.on(PRODUCE).after(1).delay(0.02).close_after_append()
    with RawClient(peer) as client:
        client.send_produce(b"1")
        client.send_produce(b"2")
        client.read_frame()
        assert client.read_to_end() == (b"", "FIN")
    assert peer.values("t", 0) == [b"1", b"2"]


@pytest.mark.parametrize("append", [False, True])
def test_silence_answers_nothing_more_on_the_connection_which_stays_open(
    peer: Peer, append: bool
) -> None:
    peer.on(PRODUCE).after(1).silence(append=append)
    with RawClient(peer) as client, RawClient(peer) as other:
        for value in (b"1", b"2", b"3"):
            client.send_produce(value)
        client.read_frame()
        peer.wait_for(PRODUCE, 3)
        assert code(other, partition=1) == 0
        silent: Connection = peer.connection(1)
        assert silent.is_open
        silent.close()
        assert client.read_to_end() == (b"", "FIN")
    assert peer.values("t", 0) == ([b"1", b"2", b"3"] if append else [b"1", b"3"])


def test_a_half_closed_connection_is_at_its_end_for_the_client_and_still_read(peer: Peer) -> None:
    peer.on(PRODUCE).half_close()
    with RawClient(peer) as client:
        client.send_produce(b"1")
        assert client.read_to_end() == (b"", "FIN")
        client.send_produce(b"2")
        peer.wait_for_log("t", 0, 1)
    assert peer.values("t", 0) == [b"2"]


def test_verbs_join_in_one_rule(peer: Peer) -> None:
    peer.on(PRODUCE).error(7).throttle(9).delay(0.01).wrong_correlation_id().duplicate_reply()
    with RawClient(peer) as client:
        sent = client.send_produce(b"v")
        for _ in range(2):
            number, answer = client.receive(PRODUCE, 9)
            assert (number, answer.throttle_time) == (sent + 1, 9)
            assert answer.responses[0].partition_responses[0].error_code == 7


def test_metadata_is_scripted_like_produce(peer: Peer) -> None:
    """P-H.5.3, P-H.7.1."""
    asked = {
        "topics": [{"name": "t"}],
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
    }
    peer.on(METADATA).error(29).for_topic("t")
    peer.on(METADATA).error(72).for_partition("t", 2)
    peer.on(METADATA).answer(error_code=129, brokers=[])
    peer.on(METADATA).throttle(100).after(1)
    with RawClient(peer) as client:
        first = client.ask(METADATA, 13, asked)
        assert (first.error_code, first.brokers) == (129, ())
        assert (first.topics[0].error_code, first.topics[0].partitions) == (29, ())
        second = client.ask(METADATA, 13, asked)
        assert (second.error_code, second.throttle_time) == (0, 100)
        assert [each.error_code for each in second.topics[0].partitions] == [0, 0, 0]


def test_rules_of_a_node_come_before_those_of_its_cluster(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    cluster = new_peer_cluster(2, {"t": 2})
    cluster.on(PRODUCE).error(5).times(2)
    cluster.node(2).on(PRODUCE).error(7)
    with RawClient(cluster.node(1)) as first, RawClient(cluster.node(2)) as second:
        assert [code(second, 1), code(second, 1), code(first), code(first)] == [7, 5, 5, 0]


def test_a_rule_counts_its_hits_and_can_be_taken_back(peer: Peer) -> None:
    rule = peer.on(PRODUCE).error(6).always()
    with RawClient(peer) as client:
        sender = threading.Thread(target=lambda: [code(client) for _ in range(3)])
        sender.start()
        rule.wait_for_hits(3)
        sender.join()
        rule.cancel()
        assert (code(client), rule.hits) == (0, 3)


def test_a_counted_rule_that_never_came_fails_the_test_at_its_end() -> None:
    peer = Peer({"t": 1})
    with peer:
        never = peer.on(PRODUCE).error(6)
        peer.on(PRODUCE).error(7).cancel()
        peer.on(PRODUCE).error(7).always()
        with pytest.raises(PeerFaultError, match=r"never came: on\(Produce\).*'error_code': 6"):
            peer.check()
        never.cancel()


def test_a_fault_of_a_client_fails_the_test_at_its_end() -> None:
    def misbehave() -> None:
        with Peer({"t": 1}) as peer, RawClient(peer) as client:
            client.produce(raw=BATCH[:-1] + b"\x01")

    with pytest.raises(PeerFaultError, match="CRC"):
        misbehave()


def test_the_error_of_a_test_keeps_its_place_and_gets_a_note() -> None:
    def fail() -> None:
        with Peer({"t": 1}) as peer, RawClient(peer) as client:
            peer.on(PRODUCE).error(6)
            client.ask(API_VERSIONS, 0, {})
            raise KeyError

    with pytest.raises(KeyError) as caught:
        fail()
    assert "ApiVersions v0" in caught.value.__notes__[0]


def test_what_a_reply_function_raises_is_told_and_ends_the_connection(peer: Peer) -> None:
    def fail(request: Request) -> bytes:
        raise LookupError("of the script")

    def wait(request: Request) -> bytes:
        peer.wait_for(PRODUCE)
        return b""

    peer.on(PRODUCE).reply(fail)
    peer.on(PRODUCE).reply(wait)
    for text in ("of the script", "must not wait"):
        with RawClient(peer) as client:
            client.send_produce(b"v")
            assert client.read_to_end() == (b"", "FIN")
        (fault,) = peer.take_faults()
        assert text in fault


def test_words_that_cannot_be_kept_are_refused_at_once(peer: Peer) -> None:
    with pytest.raises(PeerFaultError, match="only byte 8"):
        peer.on(PRODUCE).close(after_bytes_read=7)
    with pytest.raises(PeerFaultError, match="not known while it is read"):
        peer.on(PRODUCE).for_partition("t", 0).stop_reading(100)
    with pytest.raises(TimeoutError, match=r"request number 1 of API 0 did not come in 0.01 s"):
        peer.wait_for(PRODUCE, 1, timeout_s=0.01)
    with pytest.raises(LookupError, match="no partition t-3"):
        peer.log("t", 3)


def test_the_table_of_the_module_names_every_verb() -> None:
    text = scripted_peer.__doc__ or ""
    verbs = [
        name
        for name, each in vars(Rule).items()
        if getattr(each, "__annotations__", {}).get("return") == "Self"
    ]
    verbs = [name for name in verbs if not name.startswith("_")]
    assert len(verbs) > 25
    faces = [name for face in (Stage, Peer, PeerCluster) for name in vars(face)]
    named = [name for name in faces if not name.startswith("_")]
    assert [name for name in verbs + named if not re.search(rf"\b{name}\b", text)] == []
