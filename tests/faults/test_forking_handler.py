"""A signal's handler that forks in the midst of a call: the child never waits for the parent.

Each test runs in a Python of its own, so that a crash or a hang shows what it was.
"""

from __future__ import annotations

import textwrap

import pytest

from fastprod.protocol.api_keys import END_TXN, INIT_PRODUCER_ID
from mock_cluster import MockCluster
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer
from support.processes.fork_scripts import run, values


def test_a_signal_handler_that_forks_while_its_thread_waits(mock_cluster: MockCluster) -> None:
    """The child leaves each wait, whose locks are the parent's; the parent waits on."""
    run(
        mock_cluster,
        "t",
        """
        from support.broker.black_hole import frozen

        from support.broker.black_hole import stands_still

        def wait_in(wait):
            \"\"\"What became of a wait in child and parent, forked in the middle of it.\"\"\"
            parent, read_fd_write_fd = os.getpid(), os.pipe()
            children = []

            def fork(number, frame):
                pid = os.fork()
                if pid:
                    children.append(pid)
                    os.kill(mock, signal.SIGCONT)

            signal.signal(signal.SIGALRM, fork)
            os.kill(mock, signal.SIGSTOP)
            while not stands_still(mock):
                time.sleep(0.001)
            forking.signal_when_asleep(signal.SIGALRM)
            try:
                wait()
                became = "ended"
            except KafkaError as error:
                became = type(error).__name__
            if os.getpid() != parent:
                os.write(read_fd_write_fd[1], became.encode())
                os._exit(0)
            assert forking.wait_for(children[0]) == 0
            return became, os.read(read_fd_write_fd[0], 100).decode()

        mock = MOCK
        producer = new_producer(buffer_memory=1_000_000, batch_size=16_384)
        send(producer, b"parent", 1)[0].result(20)

        def one():
            producer.send(topic, b"parent-1").result(20)

        def fill():
            for _ in range(2_000):
                producer.send(topic, bytes(1_000))

        def flush():
            producer.send(topic, b"parent-2")
            producer.flush(20)

        became = [wait_in(one), wait_in(fill), wait_in(flush)]
        producer.close()
        in_child = ["ForkedFutureError", "ProducerClosedError", "ended"]
        assert became == [("ended", each) for each in in_child], became
        print("{}")
        """.replace("MOCK", str(mock_cluster.pid)),
    )
    assert len(values(mock_cluster, "t")) == 3 + 2000


FORKING_HANDLER = """
def told_in_both(call):
    '''What becomes of a call in whose wait a signal's handler forks: in the child, the parent.'''
    pids = []

    def fork(*_):
        pids.append(os.fork())

    read_fd, write_fd = os.pipe()
    signal.signal(signal.SIGALRM, fork)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        call()
        told = "done"
    except KafkaError as error:
        told = type(error).__name__
    if pids == [0]:
        os.write(write_fd, told.encode())
        os._exit(0)
    forking.wait_for(pids[0])
    os.close(write_fd)
    return [os.read(read_fd, 1000).decode(), told]
"""


def test_a_handler_that_forks_leaves_a_transaction_to_the_parent(new_peer: PeerFactory) -> None:
    """The child does not wait for what only the parent hears."""
    script = """
        producer = new_producer(transactional_id="ledger", max_block_ms=5_000)
        told = {"init": told_in_both(producer.init_transactions)}
        producer.begin_transaction()
        send(producer, b"parent", 1)
        told["commit"] = told_in_both(producer.commit_transaction)
        producer.close()
        print(json.dumps(told))
        """
    peer = new_peer({"t": 1}, features={"transaction.version": 2})
    peer.on(INIT_PRODUCER_ID).delay(1)
    peer.on(END_TXN).delay(1)
    told = run(peer, "t", FORKING_HANDLER + textwrap.dedent(script))
    assert told == {name: ["ProducerClosedError", "done"] for name in ("init", "commit")}


def test_a_handler_that_forks_leaves_metadata_to_the_parent(peer: Peer) -> None:
    script = """
        producer = new_producer(max_block_ms=2_000)
        print(json.dumps(told_in_both(lambda: producer.partitions_for("nowhere"))))
        producer.close()
        """
    told = run(peer, "t", FORKING_HANDLER + textwrap.dedent(script))
    assert told == ["ProducerClosedError", "MetadataTimeoutError"]


FORKING_BETWEEN_LINES = """
from support.processes.between_lines import BetweenLines

def forks_before_each_line(prepare, call, step):
    # Of a call that returns a producer: in parent and child that works, or the child was told.
    line = 1
    while True:
        pids = []
        lines = BetweenLines("/fastprod/", line, lambda: pids.append(os.fork()))
        given = prepare()
        try:
            producer = lines.within(lambda: call(given))
        except ProducerClosedError:
            assert pids == [0]
            producer = given
        if not pids:
            producer.close(20)
            return line
        signal.alarm(30 if pids == [0] else 0)
        assert producer.send(topic, b"x").result(20).offset >= 0
        producer.close(20)
        if pids == [0]:
            os._exit(0)
        ended = forking.wait_for(pids[0])
        assert ended == 0, (line, ended)
        line += step
"""


def test_a_handler_that_forks_while_a_producer_is_made(mock_cluster: MockCluster) -> None:
    """Before it has a thread, too: else parent and child would share what they poll by."""
    script = """
        lines = forks_before_each_line(lambda: None, lambda _: new_producer(), 23)
        print(json.dumps({"lines": lines}))
        """
    told = run(mock_cluster, "t", FORKING_BETWEEN_LINES + textwrap.dedent(script))
    assert told["lines"] > 500


@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("producer.send(topic, b'x').result(20)", 7),
        ("producer.send_many(topic, [b'x'] * 9).result(20)", 7),
        *(
            pytest.param(call, 7, marks=pytest.mark.slow)
            for call in (
                "producer.send(topic, b'x', on_delivery=lambda *_: None).result(20)",
                "producer.append_columns(topic=topic, values=[b'x'] * 9).result(20)",
                "producer.warmup(topic, timeout=20)",
            )
        ),
    ],
)
def test_a_handler_that_forks_in_a_call_leaves_no_child_waiting_for_the_parents_answer(
    mock_cluster: MockCluster, call: str, step: int
) -> None:
    script = """
        def call(producer):
            CALL
            return producer

        lines = forks_before_each_line(new_producer, call, STEP)
        print(json.dumps({"lines": lines}))
        """
    script = textwrap.dedent(script).replace("CALL", call).replace("STEP", str(step))
    assert run(mock_cluster, "t", FORKING_BETWEEN_LINES + script)["lines"] > 1
