"""What a coordinator does later."""

from __future__ import annotations

from functools import partial

from fastprod.broker.coordinator.delayed_call import DelayedCall
from fastprod.broker.threads.clock import FakeClock
from support.groups.group_world import ManualPurgatory


def test_it_is_done_once_when_it_is_due() -> None:
    purgatory = ManualPurgatory(FakeClock())
    done: list[str] = []
    operations = [DelayedCall(10, partial(done.append, name)) for name in "abc"]
    for each in operations:
        purgatory.complete_or_watch(each, (each,))
        assert not each.try_complete()
    purgatory.advance(9)
    assert done == []
    assert purgatory.withdraw(operations[0])
    operations[0].on_withdrawn()
    # As when the purgatory closes.
    operations[1].force_complete()
    purgatory.advance(10)
    assert done == ["c"]
