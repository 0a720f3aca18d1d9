"""NetworkClient: the control thread's turns, on a recorded engine and the test's own clock."""

from __future__ import annotations

import contextlib

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod._core.io.channel import CloseReason
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.control_requests import PendingRequest
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA
from fastprod.records import Node
from support.broker.sockets import until
from support.engine.network_world import AF_INET, BOOTSTRAP_SLOT, World
from support.oracle import kio_codec
from support.oracle.metadata_world import B1, B2, answer


def test_the_first_turn_connects_to_a_bootstrap_server() -> None:
    """P-H.5.1"""
    world = World()
    world.turn()
    assert world.engine.take("connect") == [
        (
            BOOTSTRAP_SLOT,
            -1,
            Address(AF_INET, "127.0.0.1", 9092).packed(),
            "b0:9092",
            None,
            "",
            None,
        )
    ]


def test_metadata_and_the_producer_id_are_asked_for_when_a_node_is_ready() -> None:
    """P-A.1.5, P-F.5.1, P-H.2.8"""
    world = World()
    world.ready()
    world.turn()
    assert sorted(header.api_key for _, _, header in world.sent()) == [METADATA, INIT_PRODUCER_ID]
    world.turn()
    assert world.sent() == [], "one of each at a time (P-H.2.7)"


def test_leaders_of_warm_topics_are_connected_to_as_soon_as_they_are_known() -> None:
    """P-A.1.9: once; what fails is left to the first record."""
    world = World(warmup_topics=["t"], enable_idempotence=False)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1, 2, 1]})
    world.turn()
    assert [each[1] for each in world.engine.take("connect")] == [1, 2]
    for node_id in (1, 2):
        world.tell(EventKind.ON_DISCONNECTED, world.slot(node_id), reason=CloseReason.CLOSE_REMOTE)
    world.now_ms += 10_000
    world.turn()
    assert len(world.engine.take("connect")) <= 1, "metadata needs one broker, and no more"


def test_no_producer_id_without_idempotence() -> None:
    """P-F.5.13"""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    assert [header.api_key for _, _, header in world.sent()] == [METADATA]


def test_a_turn_that_fails_does_not_keep_events_waiting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-F.1.1: the end is one of them."""
    world = World()
    monkeypatch.setattr(world.client, "_do_what_is_due", lambda: 1 // 0)
    found = [ControlEvent(EventKind.ON_STOPPED)]
    world.engine.next_event = lambda timeout_s: found.pop()  # type: ignore[attr-defined]
    world.client.start()
    while not world.client.join(0.05):
        pass
    until(lambda: "ZeroDivisionError" in caplog.text)


def test_an_answer_that_does_not_parse_closes_the_connection() -> None:
    """P-J.1.5"""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    ((slot, token, _),) = world.sent()
    world.tell(EventKind.ON_RESPONSE, slot, token=token, data=b"\0\0\0\0\0")
    assert world.engine.take("close_connection") == [(slot,)]


def test_retriable_errors_of_the_producer_id_back_off() -> None:
    """P-F.5.1; P-L.126 testSenderShouldRetryWithBackoffOnRetriableError."""
    world = World(retry_backoff_ms=100, retry_backoff_max_ms=100)
    world.ready()
    world.turn()
    frames = world.engine.take("send_frame")
    world.engine.commands.extend(
        ("send_frame", *frame)
        for frame in frames
        if kio_codec.request_header(frame[2][4:]).api_key == INIT_PRODUCER_ID
    )
    world.answer(
        INIT_PRODUCER_ID, throttle_time=0, error_code=14, producer_id=-1, producer_epoch=-1
    )
    world.turn()
    assert world.sent() == []
    world.now_ms += 101
    world.turn()
    assert [header.api_key for _, _, header in world.sent()] == [INIT_PRODUCER_ID]


@pytest.mark.parametrize(("code", "command"), [(31, "abort_pending"), (42, "fail")])
def test_what_a_refused_producer_id_means(code: int, command: str) -> None:
    """P-F.5.1: not authorized fails what waits; anything else is the end."""
    world = World()
    world.ready()
    world.turn()
    frames = world.engine.take("send_frame")
    world.engine.commands.extend(
        ("send_frame", *frame)
        for frame in frames
        if kio_codec.request_header(frame[2][4:]).api_key == INIT_PRODUCER_ID
    )
    world.answer(
        INIT_PRODUCER_ID, throttle_time=0, error_code=code, producer_id=-1, producer_epoch=-1
    )
    assert world.engine.take(command) == [(code,)]
    assert len(world.listener.fatal) == (command == "fail")
    world.turn()
    assert world.sent() == []


@pytest.mark.parametrize(
    ("node_id", "where"), [(-1, "b0:9092"), (1, "b1:9092 (node 1)"), (9, "node 9")]
)
def test_a_broker_that_gave_no_producer_id_is_named_with_its_id(node_id: int, where: str) -> None:
    """A bootstrap server has none yet."""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    world.answer_metadata({})
    world.client._connections._requests._pending[77] = PendingRequest(INIT_PRODUCER_ID, 4, node_id)
    world.tell(EventKind.ON_RESPONSE, token=77)
    ((text,),) = world.engine.take("set_producer_id_error")
    assert text == f"the connection to broker {where} ended before it answered InitProducerId"
    assert world.client.producer_id_error() == text


def test_a_connection_with_a_garbled_answer_is_not_asked_again() -> None:
    """P-F.5.1: what was wrong with the answer would give way to the end of the connection."""
    world = World()
    world.ready()
    world.turn()
    world.answer(INIT_PRODUCER_ID, throttle_time=0, error_code=0, producer_id=-5, producer_epoch=0)
    assert world.engine.take("close_connection") == [(BOOTSTRAP_SLOT,)]
    ((text,),) = world.engine.take("set_producer_id_error")
    assert "InitProducerId that does not parse" in text
    world.now_ms += 2_000
    world.turn()
    assert world.sent() == [], "the I/O thread has not closed it yet"
    world.tell(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_LOCAL)
    world.now_ms += 2_000
    world.turn()
    world.connect()
    world.turn()
    assert [each[2].api_key for each in world.sent() if each[2].api_key == INIT_PRODUCER_ID]


def test_what_is_due_does_not_wait_for_a_flood_of_events() -> None:
    """P-G.1, P-F.2: a leader that has records is connected to in the midst of it."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    ((_, _, leaders),) = world.engine.take("set_topic")
    events = [ControlEvent(EventKind.ON_CONNECT_WANTED, leaders[0][0])]
    events += [ControlEvent(EventKind.ON_METADATA_WANTED, topic="t")] * 5_000
    events += [ControlEvent(EventKind.ON_STOPPED)]
    handled = iter(events)
    left_at_connect: list[int] = []
    world.engine.next_event = lambda timeout_s: next(handled)  # type: ignore[attr-defined]
    world.engine.connect = (  # type: ignore[attr-defined]
        lambda *args, **words: left_at_connect.append(sum(1 for _ in handled))
    )
    with contextlib.suppress(StopIteration):
        world.client._take_events(0)
        while not left_at_connect and not world.client._is_stopped:
            world.turn()
            world.client._take_events(0)
    assert left_at_connect
    assert left_at_connect[0] >= 4_000


def test_a_metadata_request_that_was_lost_long_ago_says_nothing_about_the_next_one() -> None:
    """P-H.2.6: the news that it was lost may come after that of its connection."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    for node_id in (1, 2):
        world.tell(EventKind.ON_WARM_WANTED, node_id=node_id)
        world.turn()
        world.connect(world.slot(node_id))
    world.now_ms += 1000
    world.metadata.request_update()
    world.turn()
    ((slot, token, _),) = world.sent()
    world.tell(EventKind.ON_DISCONNECTED, slot, reason=CloseReason.CLOSE_REMOTE)
    world.now_ms += 1000
    world.turn()
    world.tell(EventKind.ON_RESPONSE, slot, token=token)
    world.turn()
    world.answer_metadata({"t": [2]})
    assert world.metadata.cluster.leader_for("t", 0) == Node(2, "b2", 9092)


def test_a_node_that_is_not_there_for_want_of_a_token_is_told_so() -> None:
    """P-A.4.5: to callers of `warmup`, and by the timeouts of others."""

    class Callback:
        def token(self) -> str:
            return "abc"

    world = World(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Callback(),
    )
    name = Callback.__qualname__
    awaited = f"the access token from the token callback {name} is still awaited"
    assert world.client.disconnect_reason(1) == awaited
    assert world.metadata._awaited() == awaited
    world.client.close_login(0.0)
    assert world.client.disconnect_reason(1) == ""
    World().client.close_login(0.0)


def test_it_ends_with_the_io_thread() -> None:
    world = World()
    world.tell(EventKind.ON_STOPPED)
    assert world.client._is_stopped


def test_a_node_that_metadata_does_not_name_now_is_connected_to_when_it_does() -> None:
    """P-D.5.1: the engine asks once for a connection, and brokers leave out those that are down."""
    world = World(enable_idempotence=False)

    def learn(*nodes: Node) -> None:
        world.metadata.update(
            world.metadata.new_request(world.now_ms), answer(nodes=nodes), world.now_ms
        )

    slot = world.slot(2)
    learn(B1)
    world.tell(EventKind.ON_CONNECT_WANTED, slot)
    world.turn()
    assert world.engine.take("connect") == []
    learn(B1, B2)
    world.turn()
    assert [each[0] for each in world.engine.take("connect")] == [slot]
