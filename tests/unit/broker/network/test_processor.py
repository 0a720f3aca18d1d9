"""A Processor at its work (B-A3), inline and with a pool, on both poll back ends."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from fastprod._core.io.server_selector import ServerSelector
from fastprod.broker.network.connection import (
    ANONYMOUS,
    UNKNOWN_SOFTWARE,
    ClientSoftware,
    Connection,
)
from fastprod.broker.network.connection_ids import ConnectionIds
from fastprod.broker.network.mute_state import MuteState
from fastprod.broker.network.processor import Processor
from fastprod.broker.network.request import Request
from fastprod.broker.threads.clock import SystemClock
from fastprod.errors import IllegalStateError
from support.broker.processor_stage import (
    API_VERSIONS,
    DISABLED,
    MAX_BYTES,
    PATIENCE_S,
    PRODUCE,
    SETTINGS,
    FailingSelector,
    ProcessorStage,
    exchange,
    is_closed,
    parse_header,
    payload,
    read_frame,
    request,
    say_nothing,
)
from support.oracle.loopback import open_descriptor_count
from support.processes.leak_guard import nothing_is_left as nothing_is_left

MakeStage = Callable[..., ProcessorStage]


@pytest.fixture(params=["inline-epoll", "inline-poll", "pool-epoll", "pool-poll"])
def make_stage(request: pytest.FixtureRequest) -> Iterator[MakeStage]:
    """A stage in each of the four ways to run."""
    mode, backend = request.param.split("-")
    with contextlib.ExitStack() as opened:

        def make(*arguments: object, **options: object) -> ProcessorStage:
            options.setdefault("threads", 2 if mode == "pool" else 0)
            options.setdefault("selector", ServerSelector(MAX_BYTES, backend == "poll"))
            return opened.enter_context(ProcessorStage(*arguments, **options))  # type: ignore[arg-type]

        yield make


@pytest.fixture
def stage() -> Iterator[ProcessorStage]:
    with ProcessorStage() as opened:
        yield opened


def test_what_goes_in_comes_back(make_stage: MakeStage) -> None:
    """B-A10.1 simpleRequest; a large one too."""
    stage = make_stage()
    client = stage.connect()
    for body in (b"ping", b"", b"x" * (MAX_BYTES - 8)):
        client.sendall(request(body))
        assert read_frame(client) == payload(body)


def test_every_connection_gets_its_own_answers_in_order(make_stage: MakeStage) -> None:
    """B-A3.10: pipelined requests are answered one by one, in the order they came."""
    stage = make_stage()
    clients = [stage.connect() for _ in range(5)]
    for index, client in enumerate(clients):
        client.sendall(b"".join(request(b"%d-%d" % (index, i)) for i in range(40)))
    for index, client in enumerate(clients):
        for i in range(40):
            assert read_frame(client) == payload(b"%d-%d" % (index, i))


def test_one_request_of_a_connection_is_in_flight(make_stage: MakeStage) -> None:
    """B-A3.10: the second is delivered when the answer to the first has been written."""
    stage = make_stage(None)
    client = stage.connect()
    client.sendall(request(b"1") + request(b"2"))
    first = stage.next_request()
    stage.no_request()
    first.respond([b"one"])
    assert read_frame(client) == b"one"
    assert bytes(stage.next_request().frame) == payload(b"2")


def test_a_connection_is_muted_in_the_turn_that_queued_its_request() -> None:
    """B-A3.9: between two polls; an answer that overtakes it is sent afterwards."""
    selector = FailingSelector()
    with ProcessorStage(selector=selector, threads=1) as stage:
        mute = selector.mute
        polls: list[int] = []

        def mute_when_answered(channel_id: int, muted: bool) -> None:
            if muted:
                stage.until(lambda: stage.processor.response_queue_size == 1)
                assert stage.processor.connections()[0].mute_state is MuteState.NOT_MUTED
            polls.append(selector.calls["poll"])
            mute(channel_id, muted)

        selector.mute = mute_when_answered  # type: ignore[method-assign]
        client = stage.connect()
        client.sendall(request(b"1") + request(b"2"))
        assert [read_frame(client), read_frame(client)] == [payload(b"1"), payload(b"2")]
        stage.until(lambda: len(polls) == 4)
        assert polls[0] < polls[2]


def test_the_software_a_client_names_is_known_of_its_connection(make_stage: MakeStage) -> None:
    """B-A10.2 and B-A10.3: from ApiVersions v3 on; before, there is no such field."""

    def answer(request: Request) -> None:
        if request.header.api_key == API_VERSIONS and request.header.version >= 3:
            name, version = bytes(request.frame)[request.header.body_offset :].decode().split("/")
            request.connection.client_software = ClientSoftware(name, version)
        request.respond([b"ok"])

    stage = make_stage(answer)
    for version, expected in ((3, ClientSoftware("lib", "1.0")), (2, UNKNOWN_SOFTWARE)):
        client = stage.connect()
        client.sendall(request(b"lib/1.0", key=API_VERSIONS, version=version))
        assert read_frame(client) == b"ok"
        assert stage.registered(client).client_software == expected


def test_requests_are_counted_by_api_and_version(make_stage: MakeStage) -> None:
    """B-A10.4, B-A9 RequestsPerSec and DeprecatedRequestsPerSec: deprecated versions a second
    time.
    """
    stage = make_stage()
    client = stage.connect()
    for key, version in ((1, 0), (1, 1), (1, 1), (API_VERSIONS, 3)):
        client.sendall(request(key=key, version=version))
        read_frame(client)
    stage.until(lambda: stage.metrics_of("ApiVersions").request_count == 1)
    echoed = stage.metrics_of("Echo")
    assert echoed.requests_by_version == {0: 1, 1: 2}
    assert echoed.deprecated_by_version == {1: 2}
    versions = stage.metrics_of("ApiVersions")
    assert (versions.requests_by_version, versions.deprecated_by_version) == ({3: 1}, {})


def test_an_api_that_is_not_served_here_ends_the_connection(make_stage: MakeStage) -> None:
    """B-A10.7 testDisabledRequestIsRejected, B-A3.7: without a byte of an answer."""
    stage = make_stage()
    other, client = stage.connect(), stage.connect()
    client.sendall(request(key=DISABLED))
    assert is_closed(client)
    exchange(other)
    stage.until(lambda: stage.processor.closed_count == 1)
    assert stage.quotas.total == 1


def test_a_request_without_answer_leaves_the_connection_usable(make_stage: MakeStage) -> None:
    """B-A10.10 testNoOpAction, B-A3.3."""

    def answer(request: Request) -> None:
        request.respond(None if bytes(request.frame).endswith(b"quiet") else [b"loud"])

    stage = make_stage(answer)
    client = stage.connect()
    client.sendall(request(b"quiet"))
    client.sendall(request(b"loud"))
    assert read_frame(client) == b"loud"
    stage.until(lambda: stage.metrics_of().request_count == 2)


def test_requests_without_answers_are_handled_after_the_client_left(make_stage: MakeStage) -> None:
    """B-A10.9 testGracefulClose, B-A4.5: what acks=0 producers wrote is not lost."""
    stage = make_stage(say_nothing)
    client = stage.connect()
    client.sendall(b"".join(request(b"%d" % i) for i in range(10)))
    client.close()
    assert [bytes(stage.next_request().frame) for _ in range(10)] == [
        payload(b"%d" % i) for i in range(10)
    ]
    stage.all_gone()


def test_a_handler_can_end_the_connection_instead_of_answering(make_stage: MakeStage) -> None:
    """B-A6.3, B-A3.3."""
    stage = make_stage(Request.close_connection)
    client = stage.connect()
    client.sendall(request())
    assert is_closed(client)
    stage.all_gone()
    assert stage.metrics_of().request_count == 1


def test_a_handler_that_fails_without_an_answer_ends_the_connection(make_stage: MakeStage) -> None:
    """B-A5.4, B-A5.7."""

    def fail(request: Request) -> None:
        raise RuntimeError("broken")

    stage = make_stage(fail)
    client = stage.connect()
    client.sendall(request())
    assert is_closed(client)
    assert [str(error) for error in stage.handler.failures] == ["broken"]


def test_ids_name_the_processor_and_count_the_connections(stage: ProcessorStage) -> None:
    """B-A10.11 testConnectionId."""
    clients = [stage.connect() for _ in range(5)]
    ids = [stage.registered(client).id for client in clients]
    assert [name.split("-")[-2:] for name in ids] == [["0", str(i)] for i in range(5)]
    for client, name in zip(clients, ids, strict=True):
        (server, port), (host, own) = client.getpeername(), client.getsockname()
        assert name.startswith(f"{server}:{port}-{host}:{own}-")


def test_an_id_in_use_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-A10.13 testConnectionIdReuse: not while the first is open, nor while it ends."""
    monkeypatch.setattr(ConnectionIds, "following", lambda *_: "the same")
    with ProcessorStage(None) as stage:
        first = stage.connect()
        first.sendall(request(b"1") + request(b"2"))
        pending = stage.next_request()
        assert is_closed(stage.connect())
        stage.until(lambda: stage.quotas.total == 1)
        first.close()  # it is closing: the second request is still buffered
        assert is_closed(stage.connect())
        pending.close_connection()
        stage.all_gone()
        later = stage.connect()
        later.sendall(request(b"3"))
        stage.next_request().respond([b"ok"])
        assert read_frame(later) == b"ok"


def test_nobody_is_anybody_without_authentication(stage: ProcessorStage) -> None:
    """B-A10.28 testSessionPrincipal."""
    client = stage.connect()
    exchange(client)
    assert stage.next_request().connection.principal == ANONYMOUS


def test_a_request_knows_its_node_and_its_times(stage: ProcessorStage) -> None:
    """B-A9 timestamps: they follow each other."""
    exchange(stage.connect())
    done = stage.next_request()
    stage.until(lambda: done.sent_ns >= 0)
    assert done.node_id == 5
    assert done.received_ns <= done.dequeued_ns <= done.response_enqueued_ns
    assert done.response_enqueued_ns <= done.local_done_ns <= done.response_dequeued_ns
    assert done.response_dequeued_ns <= done.sent_ns


def test_bytes_and_connections_are_counted(stage: ProcessorStage) -> None:
    """B-A9 selector-totals."""
    client = stage.connect()
    exchange(client, b"1234")
    stage.until(lambda: stage.processor.outgoing_bytes == 16)
    assert stage.processor.incoming_bytes == 16
    client.close()
    stage.all_gone()
    assert (stage.processor.created_count, stage.processor.closed_count) == (1, 1)
    assert stage.processor.io_wait_ns > 0


def test_at_most_the_capacity_is_registered_in_one_turn() -> None:
    """B-A10.49, B-A3.1: queue length 1, five sockets: at least four polls before the fifth."""
    selector = FailingSelector()
    with ProcessorStage(selector=selector, new_connections_capacity_count=1) as stage:
        pairs = [stage.pair() for _ in range(5)]
        polls = [0]
        register = selector.register

        def note_polls(fd: int, tls: object = None) -> int:
            polls.append(selector.calls["poll"])
            return register(fd)

        selector.register = note_polls  # type: ignore[method-assign]
        for _, server in pairs:
            stage.quotas.inc(server.getpeername()[0])
            assert stage.processor.accept(server, may_block=True)
        for client, _ in pairs:
            exchange(client)
        assert polls[5] - polls[1] >= 4


def test_a_full_queue_of_new_connections_holds_back_the_acceptor() -> None:
    """B-A2.6, B-A2.9: until there is room, or the end comes."""
    with ProcessorStage(started=False, new_connections_capacity_count=1) as stage:
        stage.connect()
        _, second = stage.pair()
        assert not stage.processor.accept(second, may_block=False)
        took: list[bool] = []
        accepting = threading.Thread(
            target=lambda: took.append(stage.processor.accept(second, may_block=True))
        )
        accepting.start()
        stage.processor.begin_shutdown()
        accepting.join(PATIENCE_S)
        assert took == [False]
        second.close()


def test_a_stop_before_the_start_is_clean(stage: ProcessorStage) -> None:
    """B-A10.30 testServerShutdownWithoutEnable, B-A3.16: a socket that waited is uncounted too."""
    before = open_descriptor_count()
    waiting = ProcessorStage(started=False)
    client = waiting.connect()
    waiting.processor.shutdown(PATIENCE_S)
    assert is_closed(client)
    assert waiting.quotas.total == 0
    waiting.close()
    assert open_descriptor_count() <= before
    with pytest.raises(IllegalStateError, match="not after its end"):
        waiting.processor.start()


def test_a_stop_closes_every_connection_and_completes_every_answer() -> None:
    """B-A3.16, B-A3.5."""
    stage = ProcessorStage(None)
    done: list[str] = []
    with stage:
        clients = [stage.connect() for _ in range(3)]
        for client in clients:
            client.sendall(request())
        pending = [stage.next_request() for _ in clients]
        pending[0].respond([bytes(1 << 20)] * 20, on_complete=lambda: done.append("blocked"))
        stage.until(lambda: stage.processor.response_queue_size == 0)
        stage.turn()
        stage.processor.shutdown(PATIENCE_S)
        assert done == ["blocked"]
        assert all(is_closed(client) for client in clients[1:])
        stage.all_gone()
        pending[1].respond([b"late"], on_complete=lambda: done.append("late"))
        assert done == ["blocked", "late"]
        assert stage.processor.has_ended
        # B-A10.34: what is asked after the end is answered.
        assert stage.processor.io_wait_ns > 0
        assert stage.processor.connections() == []
        stage.processor.shutdown(PATIENCE_S)


def test_an_answer_that_crosses_the_end_is_completed() -> None:
    """B-A3.16: the channel still had the Processor when the answer was sent."""
    with ProcessorStage(None) as stage:
        client = stage.connect()
        client.sendall(request())
        pending = stage.next_request()
        stage.processor.shutdown(PATIENCE_S)
        stage.channel.add_processor(stage.processor)
        done: list[str] = []
        pending.respond([b"x"], on_complete=lambda: done.append("late"))
        assert done == ["late"]


def test_two_processors_of_one_id_are_refused(stage: ProcessorStage) -> None:
    with pytest.raises(IllegalStateError, match="processor 0 exists"):
        Processor(
            0,
            "PLAINTEXT",
            stage.channel,
            stage.quotas,
            SETTINGS,
            SystemClock(),
            stage.processor._parse_header,
            stage.metrics,
        )


def test_a_processor_that_gets_no_selector_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(max_receive_bytes: int) -> ServerSelector:
        raise OSError("no descriptor is left")

    monkeypatch.setattr("fastprod.broker.network.processor.ServerSelector", no_descriptor)
    with ProcessorStage(selector=FailingSelector()) as stage:
        arguments = (stage.quotas, SETTINGS, stage.clock, lambda frame: None, stage.metrics)
        with pytest.raises(OSError, match="no descriptor"):
            Processor(1, "PLAINTEXT", stage.channel, *arguments)  # type: ignore[arg-type]
        assert list(stage.channel._processors) == [0]


def test_an_idle_processor_sleeps(make_stage: MakeStage) -> None:
    """No periodic wake-ups: the polls are told to wait until something happens."""
    selector = FailingSelector()
    stage = make_stage(selector=selector)
    exchange(stage.connect())
    stage.until(lambda: stage.metrics_of().request_count == 1)
    stage.until(lambda: selector.last_timeout_ms == -1)


def test_a_round_trip_is_one_turn_of_the_loop() -> None:
    """B-A11: request, answer and unmuting, all between two polls."""
    with ProcessorStage() as stage:
        client = stage.connect()
        exchange(client)
        before = stage.processor.turn_count
        for _ in range(50):
            exchange(client)
        assert stage.processor.turn_count - before <= 52


def test_records_of_a_turn_are_answered_before_anything_else_is_handled() -> None:
    """B-A11: a login takes some three times as long as they do."""
    is_held, go_on = threading.Event(), threading.Event()
    answers: list[bytes] = []

    def answer(request: Request) -> None:
        body = bytes(request.frame)[request.header.body_offset :]
        if body == b"hold":
            is_held.set()
            assert go_on.wait(PATIENCE_S)
        elif body == b"other":
            answers.append(read_frame(producer))
        request.respond([body])

    with ProcessorStage(answer) as stage:
        holder, other, producer = (stage.connect() for _ in range(3))
        for client in (holder, other, producer):
            client.sendall(request(b"first"))
            assert read_frame(client) == b"first"
        holder.sendall(request(b"hold"))
        assert is_held.wait(PATIENCE_S)
        other.sendall(request(b"other"))
        producer.sendall(request(b"records", key=PRODUCE))
        go_on.set()
        assert [read_frame(holder), read_frame(other)] == [b"hold", b"other"]
        assert answers == [b"records"]


def test_the_least_recently_used_connection_makes_room(stage: ProcessorStage) -> None:
    """B-A3.14: one a turn, until it is enough."""
    clients = [stage.connect() for _ in range(3)]
    for client in clients:
        exchange(client)
    closed: list[Connection] = []

    def enough(connection: Connection) -> None:
        closed.append(connection)
        stage.quotas.exceeded = len(closed) < 2

    stage.processor._disconnect_listeners += (enough,)
    stage.quotas.exceeded = True
    stage.processor.wake()
    assert is_closed(clients[0])
    assert is_closed(clients[1])
    exchange(clients[2])
    assert [each.remote_address for each in closed] == [each.remote_address for each in stage.ended]


def test_too_many_connections_elsewhere_do_not_keep_it_awake() -> None:
    """B-A3.14: without a connection there is nothing to close."""
    selector = FailingSelector()
    with ProcessorStage(selector=selector) as stage:
        stage.quotas.exceeded = True
        stage.turn()
        stage.until(lambda: selector.last_timeout_ms == -1)


def test_processors_that_share_a_channel_serve_all_of_their_connections() -> None:
    """B-A2.1, B-A11: each handles the requests of its own connections."""
    with ProcessorStage() as stage:
        second = Processor(
            1,
            "OTHER",
            stage.channel,
            stage.quotas,
            SETTINGS,
            stage.clock,
            parse_header,
            stage.metrics,
            stage.handler,
            disconnect_listeners=[stage.ended.append],
        )
        second.start()
        clients = []
        for index in range(6):
            client, server = stage.pair()
            clients.append(client)
            stage.quotas.inc("127.0.0.1")
            assert (second if index % 2 else stage.processor).accept(server, may_block=True)
        for client in clients:
            client.sendall(b"".join(request(b"%d" % i) for i in range(100)))
        for client in clients:
            assert [read_frame(client) for _ in range(100)] == [
                payload(b"%d" % i) for i in range(100)
            ]
        stage.until(lambda: stage.metrics_of().request_count == 600)
        assert stage.channel.request_queue_size == 0
        second.shutdown(PATIENCE_S)
        assert stage.processor.connection_count == 3


def test_a_forked_child_lets_go_and_the_parent_goes_on(stage: ProcessorStage) -> None:
    """The child's descriptors go; the connections are not shut down."""
    client = stage.connect()
    exchange(client)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            stage.processor.abandon()
            status = 0 if stage.processor.has_ended else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    exchange(client)
