"""The buffer pool against a model that counts bytes and blocks and keeps a line (P-D.3)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from fastprod._core.testing.bytes_doors import PoolForTest
from support.processes.scale import examples

SMALL = 2048
BIG = 32768
NEEDS = st.sampled_from(
    [0, 1, SMALL, SMALL + 1, 2 * SMALL + 1, BIG, BIG + 1, 3 * BIG]
) | st.integers(0, 5 * BIG)


class PoolMachine(RuleBasedStateMachine):
    """Model: held chains by handle, the line as (waiter, bytes wanted, is_delivery) in its order,
    and the bytes that wait for callbacks."""

    chains = Bundle("chains")

    @initialize(
        blocks=st.integers(0, 4),
        smalls=st.integers(0, 15),
        odd=st.integers(0, SMALL - 1),
    )
    def make(self, blocks: int, smalls: int, odd: int) -> None:
        self.blocks, self.smalls = blocks, smalls
        self.pool = PoolForTest(blocks * BIG + smalls * SMALL + odd)
        self.total = blocks * BIG + smalls * SMALL
        self.held: dict[int, list[tuple[int, int]]] = {}
        self.heap: dict[int, tuple[int, int]] = {}
        self.line: list[tuple[int, int, bool]] = []
        self.waits_for_callbacks: list[int] = []
        self.closed = False

    @property
    def available(self) -> int:
        """Bytes nobody holds."""
        return self.total - sum(size for spans in self.held.values() for _, size in spans)

    def is_there(self, need: int, is_delivery: bool) -> bool:
        """What waits for callbacks counts as taken, but not to those who run them."""
        return need + (0 if is_delivery else sum(self.waits_for_callbacks)) <= self.available

    def hold(self, handle: int, need: int) -> int:
        """Note a chain; it has room for `need`, and no slab more than that takes."""
        spans = self.pool.spans(handle)
        sizes = [size for _, size in spans]
        assert sum(sizes) >= need
        assert sum(sizes[:-1]) < need or not sizes
        self.held[handle] = spans
        return handle

    def serve(self) -> list[int]:
        """The first in line get theirs as far as memory goes; the rest is still waiting."""
        served = []
        while self.line and self.is_there(*self.line[0][1:]):
            waiter, need, _ = self.line.pop(0)
            handle = self.pool.look(waiter)
            assert handle is not None, f"a waiter for {need} of {self.available} was not served"
            served.append(self.hold(handle, need))
        for waiter, need, _ in self.line:
            assert self.pool.look(waiter) is None, f"a waiter for {need} overtook the line"
        return served

    @rule(target=chains, need=NEEDS, prefer_big=st.booleans())
    def take(self, need: int, prefer_big: bool) -> object:
        if need > self.total:
            with pytest.raises(ValueError):
                self.pool.take(need, prefer_big)
            return multiple()
        if self.closed:
            with pytest.raises(OSError):
                self.pool.take(need, prefer_big)
            return multiple()
        is_there = self.is_there(need, False)
        handle = self.pool.take(need, prefer_big)
        if self.line or not is_there:
            assert handle is None
            return multiple()
        assert handle is not None
        return self.hold(handle, need)

    @precondition(lambda self: not self.closed)
    @rule(target=chains, need=NEEDS, is_delivery=st.booleans())
    def queue(self, need: int, is_delivery: bool) -> object:
        if need > self.total:
            with pytest.raises(ValueError):
                self.pool.queue(need, is_delivery)
            return multiple()
        is_there = self.is_there(need, is_delivery)
        is_first = is_delivery or not self.line
        handle, waiter = self.pool.queue(need, is_delivery)
        if is_delivery and need + sum(self.waits_for_callbacks) > 2 * self.total:
            assert handle is waiter is None
            return multiple()
        if not is_first or not is_there:
            assert handle is None
            assert waiter is not None
            self.line.insert(0 if is_delivery else len(self.line), (waiter, need, is_delivery))
            assert self.serve() == []
            return multiple()
        assert handle is not None
        return self.hold(handle, need)

    @rule(target=chains, handle=consumes(chains))
    def give(self, handle: int) -> object:
        self.pool.give(handle)
        if self.heap.pop(handle, None) is None:
            del self.held[handle]
        return multiple(*self.serve())

    @precondition(lambda self: self.line)
    @rule(target=chains, data=st.data(), timed_out=st.booleans())
    def cancel(self, data: st.DataObject, timed_out: bool) -> object:
        waiter, _, _ = self.line.pop(data.draw(st.integers(0, len(self.line) - 1)))
        exhausted = self.pool.exhausted_total
        assert self.pool.cancel(waiter, timed_out) is None
        assert self.pool.exhausted_total == exhausted + timed_out
        return multiple(*self.serve())

    @rule(target=chains, handle=consumes(chains))
    def give_and_hold(self, handle: int) -> object:
        """A batch is acknowledged, and its callbacks have still to run."""
        if handle in self.heap:
            return self.give(handle)
        size = sum(size for _, size in self.held[handle])
        self.pool.hold(size)
        self.waits_for_callbacks.append(size)
        return self.give(handle)

    @precondition(lambda self: self.waits_for_callbacks)
    @rule(target=chains)
    def callbacks_have_run(self) -> object:
        self.pool.let_go(self.waits_for_callbacks.pop(0))
        return multiple(*self.serve())

    @rule(target=chains, size=st.integers(1, 100_000))
    def take_heap(self, size: int) -> int:
        handle = self.pool.take_heap(size)
        ((address, length),) = self.pool.spans(handle)
        assert length == size
        self.heap[handle] = (address, length)
        return handle

    @precondition(lambda self: not (self.closed or self.line or self.waits_for_callbacks))
    @rule()
    def every_whole_block_is_to_be_had(self) -> None:
        """Coalescing: a block of which nobody holds a part comes out whole."""
        base = self.pool.arena_address
        touched = {
            (address - base) // BIG
            for spans in self.held.values()
            for address, _ in spans
            if address - base < self.blocks * BIG
        }
        found = []
        while self.pool.free_bytes:
            handle = self.pool.take(1, prefer_big=True)
            assert handle is not None
            found.append(handle)
        sizes = [size for handle in found for _, size in self.pool.spans(handle)]
        assert sizes.count(BIG) == self.blocks - len(touched)
        assert sum(sizes) == self.available
        for handle in found:
            self.pool.give(handle)

    @precondition(lambda self: self.line or self.available < self.total)
    @rule()
    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.pool.close()
        for waiter, _, _ in self.line:
            with pytest.raises(OSError):
                self.pool.look(waiter)
        self.line = []

    @invariant()
    def no_byte_is_held_twice(self) -> None:
        inside = [span for chain in self.held.values() for span in chain]
        spans = sorted([*inside, *self.heap.values()])
        for (address, size), (following, _) in itertools.pairwise(spans):
            assert address + size <= following

    @invariant()
    def held_bytes_lie_in_the_arena(self) -> None:
        base = self.pool.arena_address
        for spans in self.held.values():
            for address, size in spans:
                assert size in (SMALL, BIG)
                assert (address - base) % size == 0
                assert base <= address <= base + self.total - size
        for address, size in self.heap.values():
            assert address + size <= base or base + self.total <= address

    @invariant()
    def no_byte_is_lost(self) -> None:
        assert self.pool.total_bytes == self.total
        assert self.pool.waiting == len(self.line)
        assert self.pool.heap_bytes == sum(size for _, size in self.heap.values())
        assert self.pool.free_bytes == self.available
        assert self.pool.callback_bytes == sum(self.waits_for_callbacks)

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for size in self.waits_for_callbacks:
            self.pool.let_go(size)
            self.waits_for_callbacks = self.waits_for_callbacks[1:]
            self.serve()
        for waiter, _, _ in reversed(self.line):
            assert self.pool.cancel(waiter) is None
        for handle in [*self.held, *self.heap]:
            self.pool.give(handle)
        assert self.pool.free_bytes == self.total
        if not self.closed:
            everything = self.pool.take(self.total, prefer_big=True)
            assert everything is not None
            sizes = [size for _, size in self.pool.spans(everything)]
            assert sizes == [BIG] * self.blocks + [SMALL] * self.smalls


PoolMachine.TestCase.settings = settings(max_examples=examples(300), stateful_step_count=40)
test_the_pool_does_what_the_model_does = PoolMachine.TestCase
