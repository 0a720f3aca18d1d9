"""The module `threading` where another library has put green threads in its place."""

from __future__ import annotations

import threading

from fastprod.broker import Broker
from fastprod.client.system_threads import threads
from support.processes.child_python import run_python

# As gevent and eventlet patch them, but that no green thread ever gets its turn: whoever waits
# outside of Python for one has just that.
PATCHED = """
import _thread, sys, threading

def start_green_thread(*args, **kwargs):
    return 1

for module in (_thread, threading):
    for name in ("start_new_thread", "_start_new_thread", "_start_joinable_thread"):
        if hasattr(module, name):
            setattr(module, name, start_green_thread)
"""


def test_it_is_the_module_itself_where_nothing_is_patched() -> None:
    assert threads() is threading


def test_threads_locks_and_conditions_are_the_systems_where_they_are_patched() -> None:
    finished = run_python(
        PATCHED
        + """
from fastprod.client.system_threads import threads

assert threads() is threads() and threads() is not threading
assert sys.modules["threading"] is threading and sys.modules["_thread"] is _thread
found, changed = [], threads().Condition(threads().RLock())

def run():
    with changed:
        found.append(threads().current_thread())
        changed.notify()

thread = threads().Thread(target=run)
with changed:
    thread.start()
    assert changed.wait(10)
thread.join(10)
assert found == [thread] and not thread.is_alive()
"""
    )
    assert finished.code == 0, finished.errors


def test_a_thread_closes_the_event_loop_that_gevent_made_for_it() -> None:
    finished = run_python(
        PATCHED
        + """
import types
from fastprod.client.system_threads import threads

hubs, closed = {}, []

class Hub:
    def destroy(self, destroy_loop):
        closed.append((threads().current_thread(), destroy_loop))

def make_hub():
    hubs[threads().current_thread()] = Hub()
    raise SystemExit  # ends a thread without a word

local = types.SimpleNamespace(get_hub_if_exists=lambda: hubs.get(threads().current_thread()))
sys.modules["gevent._hub_local"] = local
with_hub, without = threads().Thread(target=make_hub), threads().Thread(target=print)
for thread in (with_hub, without):
    thread.start()
    thread.join(10)
assert closed == [(with_hub, True)], closed
"""
    )
    assert finished.code == 0, finished.errors


def test_a_producer_sends_calls_back_and_logs_where_they_are_patched() -> None:
    with Broker(topics={"t": 1}) as broker:
        finished = run_python(
            PATCHED
            + """
from fastprod import KafkaProducer
from fastprod.errors import KafkaError

told = []
with KafkaProducer(bootstrap_servers=sys.argv[1], max_block_ms=10_000) as producer:
    producer.warmup("t", timeout=10)
    assert producer.send("t", b"one").result(10).offset == 0
    producer.send("t", b"two", on_delivery=lambda metadata, error: told.append(metadata.offset))
    producer.flush(10)
    late = producer.send("t", b"three", deadline=10)
    assert late.result(10).offset == 2
    assert producer.purge() == 0
assert told == [1], told
down = KafkaProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=300)
assert isinstance(down.send("t", b"nowhere").exception(10), KafkaError)
down.close(1)
""",
            broker.bootstrap_servers,
        )
        assert finished.code == 0, finished.errors
        assert [record.value for record in broker.records("t")] == [b"one", b"two", b"three"]
    assert "Connection refused" in finished.errors
