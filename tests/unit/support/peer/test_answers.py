"""What a peer answers without a script, version by version, and what it is told to answer."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.client.metadata.metadata_answer import read_metadata
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from support.oracle import record_batch as oracle
from support.oracle.kio_codec import decode_response
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.raw_client import RawClient, message_of
from support.peer.scripted_peer import Peer, PeerCluster
from support.records import known_batches as vectors


def api_versions_request(version: int) -> dict[str, str]:
    if version < 3:
        return {}
    return {"client_software_name": "raw", "client_software_version": "1"}


def metadata_request(version: int, *names: str, create: bool = True) -> dict[str, Any]:
    message: dict[str, Any] = {"topics": [{"name": name} for name in names]}
    if version >= 4:
        message["allow_auto_topic_creation"] = create
    if 8 <= version <= 10:
        message["include_cluster_authorized_operations"] = False
    if version >= 8:
        message["include_topic_authorized_operations"] = False
    return message


def codes_and_offsets(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (each.index, each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ]


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions_lists_what_the_peer_speaks(
    new_peer: PeerFactory, version: int
) -> None:
    """P-G.5.2, P-G.5.6."""
    peer = new_peer(versions={PRODUCE: (3, 8), METADATA: None}, features={"transaction.version": 2})
    with RawClient(peer) as client:
        answer = client.ask(API_VERSIONS, version, api_versions_request(version))
        ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert ranges[PRODUCE] == (3, 8)
        assert ranges[API_VERSIONS] == (0, 4)
        assert METADATA not in ranges
        if version >= 3:
            (feature,) = answer.finalized_features
            assert (feature.name, feature.max_version_level) == ("transaction.version", 2)


def test_api_versions_of_a_version_too_high_is_refused_in_version_0(new_peer: PeerFactory) -> None:
    """P-G.5.3."""
    peer = new_peer(versions={API_VERSIONS: (0, 2)})
    with RawClient(peer) as client:
        client.send(API_VERSIONS, 4, api_versions_request(4))
        answer = client.receive(API_VERSIONS, 0)[1]
        assert answer.error_code == 35
        assert {each.api_key: each.max_version for each in answer.api_keys}[API_VERSIONS] == 2
        assert client.ask(API_VERSIONS, 2, {}).error_code == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [("junk", b"\x00\x23" + b"\xff" * 7), ("bare", b"\x00\x23")],
)
def test_error_35_can_come_in_a_body_that_is_none(
    new_peer: PeerFactory, body: str, expected: bytes
) -> None:
    """P-G.5.3."""
    peer = new_peer(versions={API_VERSIONS: (0, 3)}, unsupported_body=body)
    with RawClient(peer) as client:
        number = client.send(API_VERSIONS, 4, api_versions_request(4))
        assert client.read_frame() == number.to_bytes(4, "big") + expected


def test_error_35_can_come_in_the_version_asked_for(peer: Peer) -> None:
    """P-G.5.3: as confluent-kafka's mock cluster does."""
    peer.on(API_VERSIONS).unsupported("asked")
    with RawClient(peer) as client:
        assert client.ask(API_VERSIONS, 4, api_versions_request(4)).error_code == 35
        assert client.ask(API_VERSIONS, 4, api_versions_request(4)).error_code == 0


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata_tells_nodes_topics_and_leaders(
    new_peer_cluster: PeerClusterFactory, version: int
) -> None:
    cluster: PeerCluster = new_peer_cluster(2, {"t": 2, "u": 1})
    cluster.move_leader("t", 1, to=1)
    with RawClient(cluster.node(2)) as client:
        client.send(METADATA, version, metadata_request(version, "t", "none"))
        frame = client.read_frame()
    answer = decode_response(METADATA, version, frame)[1]
    assert [(each.node_id, each.port) for each in answer.brokers] == [
        (node.node_id, node.port) for node in cluster.nodes
    ]
    assert [(each.name, each.error_code) for each in answer.topics] == [("t", 0), ("none", 3)]
    assert [each.leader_id for each in answer.topics[0].partitions] == [1, 1]
    if version >= 4:
        parsed = read_metadata(version, frame)
        assert [each.leader_epoch for each in parsed.topics[0].partitions] == (
            [0, 1] if version >= 9 else [-1, -1]
        )
        assert parsed.topics[0].topic_id == (cluster.topic_id("t") if version >= 10 else bytes(16))


def test_metadata_without_topics_means_all_and_an_empty_list_means_none(peer: Peer) -> None:
    """P-J.3.1."""
    peer.add_topic("u")
    with RawClient(peer) as client:
        everything = client.ask(METADATA, 12, {**metadata_request(12), "topics": None})
        assert [topic.name for topic in everything.topics] == ["t", "u"]
        assert client.ask(METADATA, 12, metadata_request(12)).topics == ()
        assert len(client.ask(METADATA, 0, {"topics": []}).topics) == 2


def test_metadata_makes_a_topic_only_where_that_is_configured(new_peer: PeerFactory) -> None:
    peer = new_peer(auto_create_partitions=4)
    with RawClient(peer) as client:
        asked = metadata_request(12, "new", create=False)
        assert client.ask(METADATA, 12, asked).topics[0].error_code == 3
        made = client.ask(METADATA, 12, metadata_request(12, "new")).topics[0]
        assert (made.error_code, len(made.partitions)) == (0, 4)


def test_metadata_says_what_it_is_told_to_say(new_peer_cluster: PeerClusterFactory) -> None:
    """P-H.4.2, P-H.6: stale leaders and epochs, errors of topics and partitions."""
    cluster = new_peer_cluster(2, {"t": 3, "bad": 1})
    cluster.move_leader("t", 0, to=2, told=False)
    cluster.tell("t", 1, leader=-1, epoch=7, error_code=5)
    cluster.set_topic_error("bad", 29)

    def told(client: RawClient) -> list[tuple[int, int, int]]:
        answer = client.ask(METADATA, 12, metadata_request(12, "bad", "t"))
        assert [topic.error_code for topic in answer.topics] == [29, 0]
        return [
            (each.error_code, each.leader_id, each.leader_epoch)
            for each in answer.topics[1].partitions
        ]

    with RawClient(cluster.node(1)) as client:
        assert told(client) == [(0, 1, 0), (5, -1, 7), (0, 1, 0)]
        cluster.tell_truth()
        assert told(client) == [(0, 2, 1), (5, 2, 0), (0, 1, 0)]


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_init_producer_id_gives_a_new_id(peer: Peer, version: int) -> None:
    message = {"transactional_id": None, "transaction_timeout": 1000}
    message |= {"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}
    with RawClient(peer) as client:
        answers = [client.ask(INIT_PRODUCER_ID, version, message) for _ in range(2)]
    assert [(each.producer_id, each.producer_epoch) for each in answers] == [(1000, 0), (1001, 0)]


def test_init_producer_id_bumps_epochs_and_answers_as_scripted(peer: Peer) -> None:
    """P-F.5.9."""

    def init(client: RawClient, producer_id: int, epoch: int) -> tuple[int, int, int]:
        asked = {"transactional_id": None, "transaction_timeout": 1000}
        asked |= {"producer_id": producer_id, "producer_epoch": epoch}
        answer = client.ask(INIT_PRODUCER_ID, 5, asked)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    peer.on(INIT_PRODUCER_ID).answer(producer_id=7, producer_epoch=32766)
    peer.on(INIT_PRODUCER_ID).error(31)
    with RawClient(peer) as client:
        assert init(client, -1, -1) == (0, 7, 32766)
        assert init(client, -1, -1) == (31, -1, -1)
        assert init(client, 7, 5) == (0, 7, 6)
        assert init(client, 7, 32766) == (0, 1001, 0)


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_appends_and_answers_offsets(peer: Peer, version: int) -> None:
    topic: str | bytes = peer.topic_id("t") if version >= 13 else "t"
    peer.set_offsets("t", 2, next_offset=100, start_offset=40)
    with RawClient(peer) as client:
        first = client.produce(b"a", b"b", version=version, topic=topic, partition=2)
        second = client.produce(b"c", version=version, topic=topic, partition=2)
    assert [each.base_offset for each in (first, second)] == [100, 102]
    assert getattr(first, "log_start_offset", 40) == 40
    assert peer.log("t", 2) == [
        (100, 1000, None, b"a", ()),
        (101, 1001, None, b"b", ()),
        (102, 1000, None, b"c", ()),
    ]


def test_a_received_batch_keeps_its_bytes_its_header_and_where_it_came_from(peer: Peer) -> None:
    raw = oracle.encode_batch(
        vectors.RECORDS_A, producer_id=5, producer_epoch=2, base_sequence=0, transactional=True
    )
    with RawClient(peer) as _, RawClient(peer) as client:
        client.ask(PRODUCE, 9, message_of([("t", 1, raw), ("t", 0, vectors.VECTOR_A)]))
    first, second = peer.batches()
    assert (first.topic, first.partition, first.connection, first.arrival) == ("t", 1, 2, 1)
    assert (first.raw, second.raw) == (raw, vectors.VECTOR_A)
    assert (first.header.producer_id, first.header.producer_epoch) == (5, 2)
    assert first.header.is_transactional
    assert second.records == [oracle.Record(*record) for record in vectors.RECORDS_A]
    assert peer.requests(PRODUCE)[0].batches == [first, second]
    assert [record.offset for record in peer.log("t", 0)] == [0, 1, 2]


def test_the_contracts_not_leader_response_comes_out_byte_for_byte(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-J.5: Produce v10, error 6 for topic-a/1, leader 2 with epoch 9 at b2:9092."""
    cluster = new_peer_cluster(2, {"topic-a": 2})
    peer = cluster.node(1)
    peer.on(PRODUCE).leader_hint(2, 9, host="b2", port=9092)
    request = bytes.fromhex(
        "0000008f 0000 000a 00000005 0002 6670 00 00 ffff 00007530"
        "02 08 746f7069632d61 02 00000001 6a"
    )
    with RawClient(peer) as client:
        client.sock.sendall(request + vectors.VECTOR_A + bytes(3))
        assert client.read_frame() == bytes.fromhex(
            "00000005 00 02 08 746f7069632d61 02 00000001 0006 ffffffffffffffff ffffffffffffffff"
            "ffffffffffffffff 01 00 01 00 09 00000002 00000009 00 00 00000000"
            "01 00 0e 02 00000002 03 6232 00002384 00 00"
        )


def test_not_leader_names_the_leader_from_version_10_on(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.6."""
    cluster = new_peer_cluster(2, {"t": 1})
    epoch = cluster.move_leader("t", 0, to=2, told=False)
    with RawClient(cluster.node(1)) as client:
        assert client.produce(b"v", version=9).error_code == 6
        client.send_produce(b"v", version=10)
        answer = client.receive(PRODUCE, 10)[1]
    (refused,) = answer.responses[0].partition_responses
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, epoch)
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.port) == (2, cluster.node(2).port)


def test_a_topic_made_anew_has_a_new_id_and_the_old_one_is_unknown(peer: Peer) -> None:
    """P-J.3.4."""
    old = peer.topic_id("t")
    with RawClient(peer) as client:
        assert client.produce(b"1", version=13, topic=old).error_code == 0
        new = peer.recreate_topic("t")
        assert client.produce(b"2", version=13, topic=old).error_code == 100
        assert client.produce(b"3", version=13, topic=new).base_offset == 0
    assert peer.values("t", 0) == [b"3"]
    assert [batch.topic for batch in peer.batches()] == ["t", None, "t"]


@pytest.mark.parametrize(("partition", "topic", "code"), [(3, "t", 3), (-1, "t", 3), (0, "u", 3)])
def test_a_partition_that_is_not_there_is_unknown(
    peer: Peer, partition: int, topic: str, code: int
) -> None:
    with RawClient(peer) as client:
        assert client.produce(b"v", topic=topic, partition=partition).error_code == code


def test_a_batch_over_the_limit_is_too_large(new_peer: PeerFactory) -> None:
    """P-D.9.1."""
    peer = new_peer({"t": 1}, max_message_bytes=100)
    with RawClient(peer) as client:
        assert client.produce(b"x" * 100).error_code == 10
        assert client.produce(b"x").error_code == 0


def test_acks_0_gets_no_answer_and_an_error_only_the_end_of_the_connection(peer: Peer) -> None:
    """P-F.3.2."""
    with RawClient(peer) as client:
        client.send_produce(b"1", acks=0)
        assert client.produce(b"2").base_offset == 1
        client.send_produce(b"3", acks=0, topic="none")
        assert client.read_to_end() == (b"", "FIN")
    assert peer.values("t", 0) == [b"1", b"2"]


def sequence_of(client: RawClient, epoch: int, sequence: int, count: int = 1) -> tuple[int, int]:
    values = [b"%d-%d" % (epoch, sequence)] * count
    answer = client.produce(*values, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
    return answer.error_code, answer.base_offset


def test_sequences_are_checked_as_a_broker_checks_them(peer: Peer) -> None:
    """P-F.5.3."""
    with RawClient(peer) as client:
        assert sequence_of(client, 1, 0, 2) == (0, 0)
        assert sequence_of(client, 1, 2) == (0, 2)
        assert sequence_of(client, 1, 0, 2) == (0, 0)
        assert sequence_of(client, 1, 2) == (0, 2)
        assert sequence_of(client, 1, 4) == (45, -1)
        for sequence in range(3, 7):
            assert sequence_of(client, 1, sequence) == (0, sequence)
        assert sequence_of(client, 1, 0, 2) == (45, -1)
        assert sequence_of(client, 2, 7) == (45, -1)
        assert sequence_of(client, 2, 0) == (0, 7)
        assert sequence_of(client, 1, 7) == (47, -1)
        peer.forget_producers("t", 0)
        assert sequence_of(client, 1, 7) == (0, 8)
    assert [batch.is_duplicate for batch in peer.batches()][:5] == [False] * 2 + [True] * 2 + [
        False
    ]
    assert len(peer.log("t", 0)) == 9


def test_sequences_go_from_the_highest_to_0(peer: Peer) -> None:
    """P-F.5.2."""
    with RawClient(peer) as client:
        assert sequence_of(client, 0, 2**31 - 2, 3) == (0, 0)
        assert sequence_of(client, 0, 1) == (0, 3)
        assert sequence_of(client, 0, 2**31 - 2, 3) == (0, 0)


@pytest.mark.parametrize(
    ("idempotence", "at_5", "then_at_0"),
    [("strict", (45, -1), (0, 0)), ("kafka", (0, 0), (45, -1)), ("off", (0, 0), (0, 1))],
)
def test_how_strict_a_peer_is_about_sequences_is_chosen(
    new_peer: PeerFactory, idempotence: str, at_5: tuple[int, int], then_at_0: tuple[int, int]
) -> None:
    peer = new_peer({"t": 1}, idempotence=idempotence)
    with RawClient(peer) as client:
        assert sequence_of(client, 0, 5) == at_5
        assert sequence_of(client, 0, 0) == then_at_0


BATCH = oracle.encode_batch([(1000, b"k", b"v")])
PART = BATCH[oracle.HEADER_SIZE :]


@pytest.mark.parametrize(
    ("raw", "code", "complaint"),
    [
        (b"", 87, "0 bytes"),
        (BATCH[:-1], 87, "not one batch"),
        (BATCH + BATCH, 87, "not one batch"),
        (BATCH[:-1] + b"\x01", 2, "CRC"),
        (oracle.assemble(PART, magic=1, base_timestamp=1000, max_timestamp=1000), 87, "magic 1"),
        (oracle.encode_batch([(1, b"k", b"v")], base_offset=1), 87, "base offset 1"),
        (oracle.encode_batch([(1, b"k", b"v")], record_count=2), 87, "lastOffsetDelta 0 of 2"),
        (oracle.encode_batch([]), 87, "0 records"),
        (oracle.encode_batch([(1, b"k", b"v")], control=True), 87, "control"),
        (oracle.encode_batch([(1, b"k", b"v")], producer_id=4), 87, "base sequence -1"),
        (oracle.encode_batch([(1, b"k", b"v")], max_timestamp=2), 87, "maxTimestamp 2"),
        (oracle.encode_batch([(1, b"", b"")] * 2, offset_deltas=[1, 1]), 87, "offset deltas"),
        (oracle.assemble(PART, base_timestamp=1, record_count=2, last_offset_delta=1), 87, "bytes"),
        (oracle.assemble(b"\xff" * 9, attributes=3), 2, "codec 3"),
        (oracle.assemble(b"\xff" * 9, attributes=5), 87, "codec 5"),
    ],
)
def test_a_batch_that_is_not_sound_is_refused_and_told_at_the_end(
    peer: Peer, raw: bytes, code: int, complaint: str
) -> None:
    """P-E.1.3: so that each test against a peer holds our batches to a broker's checks."""
    with RawClient(peer) as client:
        assert client.produce(raw=raw).error_code == code
    (fault,) = peer.take_faults()
    assert complaint in fault
    assert peer.log("t", 0) == []
    assert peer.batches()[0].raw == raw


def test_checking_crcs_alone_lets_records_pass_that_do_not_parse(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1}, check="crc")
    with RawClient(peer) as client:
        assert client.produce(raw=oracle.assemble(b"\xff" * 9)).error_code == 0
        assert client.produce(raw=BATCH[:-1] + b"\x01").error_code == 2
    assert "CRC" in peer.take_faults()[0]


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("ffffffff", "a frame of -1 bytes"),
        ("7fffffff", "a frame of 2147483647 bytes"),
        ("00000003 000000", "a frame of 3 bytes"),
        ("0000000a 0000 000e 00000001 ffff", "version 14 of API 0"),
        ("0000000a 0000 0002 00000001 ffff", "version 2 of API 0"),
        ("0000000a 0063 0000 00000001 ffff", "version 0 of API 99"),
        ("0000000a 0003 000c 00000001 ffff", "offset 10 of 10 bytes"),
        ("00000008 0003 000c 00000001", "offset 8 of 8 bytes"),
    ],
)
def test_a_request_that_no_broker_takes_ends_the_connection_and_is_told(
    peer: Peer, frame: str, complaint: str
) -> None:
    with RawClient(peer) as client:
        client.sock.sendall(bytes.fromhex(frame))
        assert client.read_to_end()[0] == b""
    (fault,) = peer.take_faults()
    assert complaint in fault


def test_partitions_told_apart_in_one_request_are_answered_apart(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    cluster = new_peer_cluster(2, {"t": 3})
    with RawClient(cluster.node(1)) as client:
        sent = message_of([("t", index, BATCH) for index in (2, 0, 1)])
        answer = client.ask(PRODUCE, 9, sent)
    assert codes_and_offsets(answer) == [(2, 0, 0), (0, 0, 0), (1, 6, -1)]
