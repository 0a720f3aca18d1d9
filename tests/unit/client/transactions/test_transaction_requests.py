"""TransactionRequests: whom a request goes to, and when (P-I.3)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod._core.io.channel import CloseReason
from fastprod.client.transactions.ending_question import EndingQuestion
from fastprod.client.transactions.transaction_manager import TransactionManager
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.error_codes import COORDINATOR_NOT_AVAILABLE
from fastprod.errors import KafkaError, UnsupportedVersionError
from fastprod.protocol.api_keys import (
    API_VERSIONS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
)
from support.engine import network_world
from support.engine.network_world import World
from support.engine.transaction_world import features
from support.oracle import kio_codec

COORDINATOR = 2
VERSIONS = network_world.VERSIONS | {FIND_COORDINATOR: (0, 6), END_TXN: (0, 5)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Connected to the bootstrap server."""
    monkeypatch.setattr(network_world, "VERSIONS", dict(VERSIONS))
    found = World(
        transactional_id="t",
        retry_backoff_ms=100,
        retry_backoff_max_ms=100,
        reconnect_backoff_ms=50,
        request_timeout_ms=1_000,
        delivery_timeout_ms=1_000,
        linger_ms=0,
    )
    found.ready()
    found.turn()
    assert [header.api_key for _, _, header in found.sent()] == [METADATA]
    return found


def manager(world: World) -> TransactionManager:
    found = world.client.transactions
    assert found is not None
    return found


def names(world: World) -> list[tuple[int, int]]:
    """(slot, api key) of each request since it was last asked for."""
    return [(slot, header.api_key) for slot, _, header in world.sent()]


def answer_search(world: World, code: int = 0, node: int = COORDINATOR) -> None:
    world.answer(
        FIND_COORDINATOR,
        throttle_time=0,
        coordinators=[
            {
                "key": "t",
                "node_id": node,
                "host": f"b{node}",
                "port": 9092,
                "error_code": code,
                "error_message": None,
            }
        ],
    )


def connect_coordinator(world: World) -> int:
    """The coordinator is being connected to, and then is."""
    slot = world.slot(COORDINATOR)
    assert [each[1] for each in world.engine.take("connect")] == [COORDINATOR]
    world.tell(EventKind.ON_CONNECTED, slot)
    world.answer_api_versions()
    return slot


def test_no_producer_id_is_asked_for_before_init_transactions(world: World) -> None:
    """P-I.4: and never one without the transactional id."""
    world.tell(EventKind.ON_PRODUCER_ID_WANTED)
    world.turn()
    assert names(world) == []


def test_the_coordinator_is_found_connected_to_and_asked(world: World) -> None:
    """P-I.3.4, P-I.4"""
    result = manager(world).initialize_transactions()
    world.turn()
    answer_search(world)
    world.turn()
    slot = connect_coordinator(world)
    world.turn()
    frames = world.engine.take("send_frame")
    assert [frame[0] for frame in frames] == [slot]
    world.engine.commands.extend(("send_frame", *frame) for frame in frames)
    world.answer(INIT_PRODUCER_ID, throttle_time=0, error_code=0, producer_id=7, producer_epoch=1)
    assert world.engine.take("set_producer_id") == [(7, 1)]
    assert result.is_completed


def test_the_end_of_a_throttle_is_not_slept_through(world: World) -> None:
    """P-G.8: it ends without an event."""
    manager(world).initialize_transactions()
    world.turn()
    answer_search(world)
    world.turn()
    connect_coordinator(world)
    world.states.throttle(COORDINATOR, world.now_ms + 20)
    assert world.turn() <= 20
    assert names(world) == []
    world.now_ms += 20
    world.turn()
    assert [api_key for _, api_key in names(world)] == [INIT_PRODUCER_ID]


def test_one_request_is_under_way_at_a_time(world: World) -> None:
    """P-I.3"""
    manager(world).initialize_transactions()
    world.turn()
    world.turn()
    assert [api_key for _, api_key in names(world)] == [FIND_COORDINATOR]


def test_a_search_that_fails_is_repeated_after_the_backoff(world: World) -> None:
    """P-I.3.5, P-I.6, P-F.1.3: nobody waits for it meanwhile."""
    manager(world).initialize_transactions()
    world.turn()
    answer_search(world, code=15)
    assert world.turn() <= 100
    assert names(world) == []
    world.now_ms += 100
    world.turn()
    assert [api_key for _, api_key in names(world)] == [FIND_COORDINATOR]


def test_a_lost_connection_means_to_look_for_the_coordinator_again(world: World) -> None:
    """P-I.3.6, P-L.141 testDisconnectAndRetry."""
    manager(world).initialize_transactions()
    world.turn()
    answer_search(world)
    world.turn()
    slot = connect_coordinator(world)
    world.turn()
    ((_, token, header),) = world.sent()
    assert header.api_key == INIT_PRODUCER_ID
    world.tell(EventKind.ON_RESPONSE, slot, token=token, data=None)
    world.turn()
    assert [api_key for _, api_key in names(world)] == [FIND_COORDINATOR]


def test_a_coordinator_that_cannot_be_reached_is_looked_for_again(world: World) -> None:
    """P-I.3.4, P-L.90 testNodeNotReady; it is not done without a pause."""
    manager(world).initialize_transactions()
    world.turn()
    answer_search(world)
    world.turn()
    slot = world.slot(COORDINATOR)
    world.tell(EventKind.ON_DISCONNECTED, slot, reason=CloseReason.CLOSE_NOT_CONNECTED)
    searches = 0
    for _ in range(20):
        world.turn()
        searches += sum(key == FIND_COORDINATOR for _, key in names(world))
    assert searches == 0
    world.now_ms += 2_000
    world.turn()
    assert FIND_COORDINATOR in [key for _, key in names(world)]


def test_a_broker_that_is_too_old_is_fatal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-I.3.6, P-L.142 testUnsupportedInitTransactions."""
    result = manager(world).initialize_transactions()
    world.turn()
    answer_search(world)
    world.turn()
    old = {PRODUCE: (0, 12), METADATA: (0, 12), API_VERSIONS: (0, 4)}
    monkeypatch.setattr(network_world, "VERSIONS", old)
    connect_coordinator(world)
    world.turn()
    with pytest.raises(UnsupportedVersionError, match="b2"):
        result.acknowledge()
    assert [type(error) for error in world.listener.fatal] == [UnsupportedVersionError]


def test_whether_an_epoch_can_be_had_is_seen_at_the_coordinator(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-I.3.4"""
    monkeypatch.setattr(network_world, "VERSIONS", VERSIONS | {INIT_PRODUCER_ID: (0, 2)})
    manager(world).initialize_transactions()
    world.turn()
    answer_search(world)
    world.turn()
    connect_coordinator(world)
    world.turn()
    assert not manager(world).can_bump_epoch


def test_an_answer_that_does_not_parse_is_as_good_as_none(world: World) -> None:
    """P-J.1.5: its connection goes, and the request is sent again."""
    manager(world).initialize_transactions()
    world.turn()
    ((slot, token, _),) = world.sent()
    world.tell(EventKind.ON_RESPONSE, slot, token=token, data=b"\0\0\0\0\0")
    assert world.engine.take("close_connection") == [(slot,)]
    assert manager(world).next_request() is not None


def test_a_wait_that_ends_tells_what_it_waited_for(world: World) -> None:
    requests: Any = world.client
    assert requests.why_no_coordinator() == ""
    manager(world).initialize_transactions()
    world.turn()
    assert "FindCoordinator" in requests.why_no_coordinator()
    answer_search(world)
    world.turn()
    assert "b2:9092" in requests.why_no_coordinator()


def test_a_wait_that_ends_tells_the_error_after_which_it_asks_again(world: World) -> None:
    requests: Any = world.client
    manager(world).initialize_transactions()
    world.turn()
    answer_search(world, code=COORDINATOR_NOT_AVAILABLE)
    said = "FindCoordinator is answered with COORDINATOR_NOT_AVAILABLE (15)"
    assert requests.why_no_coordinator().startswith(said)
    world.now_ms += 100
    world.turn()
    assert requests.why_no_coordinator().startswith("FindCoordinator has no answer yet; before, ")
    assert said in requests.why_no_coordinator()


def test_what_the_engine_tells_reaches_the_manager(world: World) -> None:
    """P-I.2.1, P-I.3.2, P-I.6.1"""
    told: list[tuple[Any, ...]] = []
    for name in ("partition_joined", "drained", "batch_failed", "fatal_error"):
        setattr(manager(world), name, lambda *args, name=name: told.append((name, *args)))
    world.tell(EventKind.ON_PARTITION_JOINED, topic="t", partition=3)
    world.tell(EventKind.ON_TRANSACTION_DRAINED, token=5, item_count=2, code=7)
    world.tell(EventKind.ON_FAILED, topic="t", partition=3, code=7, item_count=1)
    world.tell(EventKind.ON_FATAL, code=31)
    assert [each[0] for each in told] == [
        "partition_joined",
        "drained",
        "batch_failed",
        "fatal_error",
    ]
    assert told[0][1] == ("t", 3)
    assert told[1][1:] == (5, 2, 7)
    assert isinstance(told[3][1], KafkaError)


def test_frames_are_kafkas(world: World) -> None:
    """P-J.4: read by another reader."""
    manager(world).initialize_transactions()
    world.turn()
    ((_, _, frame),) = world.engine.take("send_frame")
    header, message = kio_codec.decode_request(frame[4:])
    assert header.api_key == FIND_COORDINATOR
    assert (list(message.coordinator_keys), message.key_type) == (["t"], 1)


# EndTxn that the engine sends by itself, and the question behind it.


class Ending(NamedTuple):
    """A commit whose EndTxn was handed to the engine."""

    slot: int
    token: int
    frame: bytes
    ending: int
    asked: EndingQuestion | None = None
    """What is asked behind its answer."""


def commit(world: World, level: int = 2, *, describes: bool = True) -> TransactionalRequestResult:
    """A transaction with a record is open at its coordinator, and being committed."""
    if describes:
        network_world.VERSIONS[DESCRIBE_TRANSACTIONS] = (0, 0)
    manager(world).learn_features(features(level))
    result = manager(world).initialize_transactions()
    world.turn()
    answer_search(world)
    world.turn()
    connect_coordinator(world)
    world.turn()
    world.answer(INIT_PRODUCER_ID, throttle_time=0, error_code=0, producer_id=7, producer_epoch=1)
    result.acknowledge()
    manager(world).begin_transaction()
    found = manager(world).begin_commit()
    world.engine.commands.clear()
    world.turn()
    return found


def handed_over(world: World) -> Ending:
    """What the engine was given to send at the end of the transaction."""
    ((slot, token, frame, releases, ending, *asked),) = world.engine.take("send_frame")
    assert kio_codec.request_header(frame[4:]).api_key == END_TXN
    assert releases == b""
    return Ending(slot, token, frame, ending, *asked)


def answer_end(world: World, end: Ending, code: int = 0) -> None:
    """Answer EndTxn, of the version with an epoch."""
    body = {
        "throttle_time": 0,
        "error_code": code,
        "producer_id": -1 if code else 7,
        "producer_epoch": -1 if code else 2,
    }
    version = kio_codec.request_header(end.frame[4:]).version
    frame = kio_codec.encode_response(END_TXN, version, 0, body)
    world.tell(EventKind.ON_RESPONSE, end.slot, token=end.token, data=frame[4:])


def drain(world: World, ending: int, partitions: int = 1, code: int = 0) -> None:
    world.tell(EventKind.ON_TRANSACTION_DRAINED, token=ending, item_count=partitions, code=code)


def test_a_commit_is_handed_to_the_engine_while_its_records_are_under_way(world: World) -> None:
    """P-I.3.9: its answer is the first that is heard of the end."""
    result = commit(world)
    end = handed_over(world)
    assert end.ending == manager(world).end_token
    world.turn()
    assert world.engine.take("send_frame") == []
    answer_end(world, end)
    assert result.is_completed
    assert result.error is None
    assert world.engine.take("set_producer_id") == [(7, 2)]


def test_a_commit_that_the_engine_did_not_send_is_sent_as_always(world: World) -> None:
    """P-I.3.9: as when it came too late."""
    result = commit(world)
    end = handed_over(world)
    drain(world, end.ending)
    world.turn()
    ((slot, token, frame),) = world.engine.take("send_frame")
    assert slot == end.slot
    answer_end(world, Ending(slot, token, frame, 0))
    assert result.is_completed
    assert result.error is None


def test_a_commit_whose_records_failed_is_not_sent(world: World) -> None:
    """P-I.3.9, P-I.6.1"""
    result = commit(world)
    end = handed_over(world)
    failed = ControlEvent(EventKind.ON_FAILED, topic="t", partition=0, code=10, item_count=1)
    manager(world).batch_failed(failed)
    drain(world, end.ending, code=10)
    world.turn()
    assert world.engine.take("send_frame") == []
    assert result.error is not None
    assert result.error.abortable


def test_the_end_before_is_not_this_one(world: World) -> None:
    """P-I.3.9"""
    commit(world)
    end = handed_over(world)
    drain(world, end.ending - 1)
    world.turn()
    assert world.engine.take("send_frame") == []
    drain(world, end.ending)
    world.turn()
    assert len(world.engine.take("send_frame")) == 1


def test_a_commit_is_lost_with_its_connection(world: World) -> None:
    """P-I.3.6: it is sent again, by the coordinator that is found then."""
    result = commit(world)
    end = handed_over(world)
    world.tell(EventKind.ON_RESPONSE, end.slot, token=end.token, data=None)
    world.turn()
    answer_search(world)
    world.now_ms += 100
    world.turn()
    ((slot, token, frame),) = world.engine.take("send_frame")
    answer_end(world, Ending(slot, token, frame, 0))
    assert result.error is None
    assert result.is_completed


def test_before_kip_890_a_commit_waits_in_line(world: World) -> None:
    """P-I.3.9: partitions that join late go before it."""
    commit(world, level=1)
    assert world.engine.take("send_frame") == []


def test_an_abort_waits_in_line(world: World) -> None:
    """P-I.3.9"""
    commit(world)
    end = handed_over(world)
    answer_end(world, end)
    begin_another(world)
    manager(world).begin_abort()
    world.turn()
    assert world.engine.take("send_frame") == []


def begin_another(world: World) -> Any:
    """A transaction behind one that has ended; what is asked before its records go."""
    result = manager(world).pending_result
    assert result is not None
    result.acknowledge()
    manager(world).begin_transaction()
    ((adds_implicitly, question),) = world.engine.take("begin_transaction")
    assert adds_implicitly
    return question


def test_who_coordinates_is_asked_whether_the_transaction_has_ended(world: World) -> None:
    """P-I.7.8"""
    commit(world)
    answer_end(world, handed_over(world))
    question = begin_another(world)
    assert question.slot == world.slot(COORDINATOR)
    assert question.state.endswith(b"PrepareCommit")


def test_where_transactions_follow_each_other_it_is_asked_behind_the_end(world: World) -> None:
    """P-I.7.8: of the first two nobody knows that another one follows."""
    commit(world)
    for is_asked in (False, True, True):
        end = handed_over(world)
        assert (end.asked is not None) == is_asked
        answer_end(world, end)
        question = begin_another(world)
        assert question is not None
        assert end.asked in (None, question)
        manager(world).begin_commit()
        world.turn()
    assert handed_over(world).asked is not None


def test_who_takes_his_time_is_not_asked_for(world: World) -> None:
    """P-I.7.8: the transaction before was long over."""
    commit(world)
    answer_end(world, handed_over(world))
    begin_another(world)
    manager(world).begin_commit()
    world.turn()
    end = handed_over(world)
    assert end.asked is not None
    answer_end(world, end)
    world.now_ms += 100
    assert begin_another(world) is None
    manager(world).begin_commit()
    world.turn()
    assert handed_over(world).asked is None


@pytest.mark.parametrize("why", ["too old", "refused", "late", "no records"])
def test_nothing_is_asked(world: World, why: str) -> None:
    """P-I.7.8"""
    commit(world, describes=why != "too old")
    end = handed_over(world)
    if why == "no records":
        drain(world, end.ending, partitions=0)
        world.turn()
    else:
        answer_end(world, end)
    if why == "refused":
        world.tell(EventKind.ON_QUESTION_REFUSED)
    elif why == "late":
        world.now_ms += 100
    assert begin_another(world) is None


def test_a_coordinator_that_does_not_tell_is_not_asked_again(world: World) -> None:
    """P-I.7.8"""
    commit(world)
    answer_end(world, handed_over(world))
    assert begin_another(world) is not None
    world.tell(EventKind.ON_QUESTION_REFUSED)
    manager(world).begin_commit()
    world.turn()
    answer_end(world, handed_over(world))
    assert begin_another(world) is None
