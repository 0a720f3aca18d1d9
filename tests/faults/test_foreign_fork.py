"""Forks that Python is not told of, as those of a server in C such as uWSGI: as after its own."""

from __future__ import annotations

import pytest

from fastprod.broker import Broker
from support.processes.child_python import run_python
from support.processes.fork_scripts import PRELUDE

FOREIGN = """
import ctypes

libc = ctypes.PyDLL(None)  # keeps the GIL, and runs nothing of `os.register_at_fork`

def child(function):
    time.sleep(0.3)  # a thread that wants the GIL at this moment would be awaited in the child
    pid = libc.fork()
    if pid == 0:
        failed = True
        try:
            function()
            failed = False
        finally:
            os._exit(failed)
    return pid

def end_of(pid):
    assert os.waitpid(pid, 0)[1] == 0
"""


def run(broker: Broker, script: str) -> list[bytes]:
    """Run a script after the preludes; every value that is there then, sorted."""
    finished = run_python(PRELUDE + FOREIGN + script, broker.bootstrap_servers, "t")
    assert finished.code == 0, finished.errors
    return sorted(record.value or b"" for record in broker.records("t"))


def test_who_sends_and_waits_in_parent_and_child_loses_nothing_and_doubles_nothing() -> None:
    with Broker(topics={"t": 1}) as broker:
        found = run(
            broker,
            """
producer = new_producer()
for number in range(5):  # from the third on, the waiting thread itself sends and reads
    producer.send("t", b"before-%d" % number).result(20)

def work():
    for number in range(5):
        producer.send("t", b"child-%d" % number).result(20)

end_of(child(work))
for number in range(5):
    producer.send("t", b"parent-%d" % number).result(20)
producer.close(20)
""",
        )
    expected = [b"%s-%d" % (w, i) for w in (b"before", b"child", b"parent") for i in range(5)]
    assert found == sorted(expected)


@pytest.mark.parametrize(
    "call",
    [
        'producer.send("t", b"child").result(20)',
        'producer.send_many("t", [b"child"]).result(20)',
        'producer.append_columns(topic="t", values=[b"child"]).result(20)',
        'producer.warmup("t"); producer.send("t", b"child"); producer.flush(20)',
        'producer.flush(20); producer.send("t", b"child"); producer.close(20)',
        'producer.metrics(); producer.purge(); producer.send("t", b"child").result(20)',
    ],
)
def test_each_call_of_the_child_finds_out_by_itself(call: str) -> None:
    with Broker(topics={"t": 1}) as broker:
        found = run(
            broker,
            f"""
producer = new_producer(linger_ms=0)
producer.send("t", b"parent").result(20)

def work():
    {call}

end_of(child(work))
producer.close(20)
""",
        )
    assert found == [b"child", b"parent"]


def test_what_was_queued_is_the_parents_and_a_child_that_does_nothing_ends_at_once() -> None:
    with Broker(topics={"t": 1}) as broker:
        found = run(
            broker,
            """
producer = new_producer(linger_ms=60_000)
late = producer.send("t", b"queued")

def work():
    began_s = time.monotonic()
    try:
        late.result(20)
    except ForkedFutureError:
        fastprod.producer._close_all()  # as at the interpreter's exit
        assert time.monotonic() - began_s < 5
        return
    raise AssertionError

import fastprod.producer
end_of(child(work))
producer.flush(20)
assert late.done()
producer.close(20)
""",
        )
    assert found == [b"queued"]


def test_threads_of_the_child_find_out_at_the_same_time_and_so_does_its_own_child() -> None:
    with Broker(topics={"t": 1}) as broker:
        found = run(
            broker,
            """
producer = new_producer()
producer.send("t", b"parent").result(20)

def work():
    def first(number):
        together.wait()
        producer.send("t", b"thread-%d" % number).result(20)

    together = threading.Barrier(8)
    threads = [threading.Thread(target=first, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    end_of(child(lambda: producer.send("t", b"grandchild").result(20)))
    forking.Child(lambda: producer.send("t", b"python's").result(20)).result()
    producer.send("t", b"after").result(20)

end_of(child(work))
producer.close(20)
""",
        )
    threads = [b"thread-%d" % number for number in range(8)]
    assert found == sorted([b"parent", *threads, b"grandchild", b"python's", b"after"])


SERVER = """
from fastprod._core.testing.delivery_doors import fork_as_server

def run_python_code():
    while True:
        sum(range(1000))

def server_fork(function):
    pid = fork_as_server(function, keeps_gil)
    assert pid > 0
    return pid

def send_from_threads():
    threads = [threading.Thread(target=send_one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

def send_one(number):
    producer.send("t", b"%d" % number).result(20)
"""


@pytest.mark.parametrize("keeps_gil", [True, False])
@pytest.mark.parametrize("first", ["", 'producer.send("t", b"parent").result(20)'])
def test_the_child_of_a_server_waits_for_no_thread_that_had_or_wanted_the_gil(
    keeps_gil: bool, first: str
) -> None:
    with Broker(topics={"t": 1}) as broker:
        found = run(
            broker,
            f"""
{SERVER}
keeps_gil = {keeps_gil}
threading.Thread(target=run_python_code, daemon=True).start()
producer = new_producer()  # whose threads begin now
{first}
for pid in [server_fork(send_from_threads) for _ in range(3)]:
    end_of(pid)
producer.send("t", b"after").result(20)
producer.close(20)
""",
        )
    sent = [b"%d" % number for number in range(4)] * 3 + [b"after"] + [b"parent"] * bool(first)
    assert found == sorted(sent)


@pytest.mark.parametrize("keeps_gil", [True, False])
def test_python_is_told_of_a_servers_fork_once_and_can_fork_after_it(keeps_gil: bool) -> None:
    with Broker(topics={"t": 1}) as broker:
        found = run(
            broker,
            f"""
{SERVER}
keeps_gil = {keeps_gil}
told = []
os.register_at_fork(
    before=lambda: told.append("before"),
    after_in_parent=lambda: told.append("in parent"),
    after_in_child=lambda: told.append("in child"),
)
producer = new_producer()

def work():
    assert told == ["before", "in child"], told
    forking.Child(lambda: producer.send("t", b"grandchild").result(20)).result()
    producer.send("t", b"child").result(20)

end_of(server_fork(work))
assert told == ["before", "in parent"], told
producer.send("t", b"parent").result(20)
producer.close(20)
""",
        )
    assert found == [b"child", b"grandchild", b"parent"]


def test_threads_of_a_server_may_fork_at_once() -> None:
    with Broker(topics={"t": 1}) as broker:
        found = run(
            broker,
            f"""
{SERVER}
producer = new_producer()
os.register_at_fork(before=lambda: time.sleep(0.01))  # frees the GIL

def fork_often(keeps_gil):
    for number in range(4):
        end_of(fork_as_server(lambda: send_one(number), keeps_gil))

forking_threads = [threading.Thread(target=fork_often, args=(n % 2 == 0,)) for n in range(3)]
for thread in forking_threads:
    thread.start()
for thread in forking_threads:
    thread.join(30)
producer.close(20)
""",
        )
    assert found == sorted([b"%d" % number for number in range(4)] * 3)
