"""Results that are split again and again, against a model of lists (contract P-D.9.5, P-D.9.6)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.testing.delivery_doors import IncompleteForTest
from support.processes.scale import examples


@dataclass
class Leaf:
    """A pending result: the root's records first..first+count-1, and its (future, record)."""

    handle: int
    root: int
    first: int
    count: int
    futures: list[tuple[int, int]] = field(default_factory=list)


class World:
    """Leaves in the order of the list."""

    def __init__(self, counts: list[int]) -> None:
        self.results = IncompleteForTest()
        self.leaves: list[Leaf] = []
        self.roots: dict[int, int] = {}
        self.done: list[tuple[int, list[tuple[int, int]]]] = []
        self.futures = 0
        for count in counts:
            handle = self.results.new(count)
            self.roots[handle] = count
            self.leaves.append(Leaf(handle, handle, 0, count))

    def attach(self, leaf: Leaf, index: int) -> None:
        self.futures += 1
        assert self.results.attach(leaf.handle, self.futures, index)
        leaf.futures.append((self.futures, leaf.first + index))

    def split(self, at: int, sizes: list[int]) -> None:
        leaf = self.leaves[at]
        children = []
        first = leaf.first
        for size in sizes:
            handle = self.results.new_child(leaf.handle, size)
            mine = [each for each in leaf.futures if first <= each[1] < first + size]
            children.append(Leaf(handle, leaf.root, first, size, mine))
            first += size
        self.results.split(
            leaf.handle, [(child.first - leaf.first, child.handle) for child in children]
        )
        self.leaves[at : at + 1] = children

    def complete(self, at: int) -> None:
        leaf = self.leaves.pop(at)
        assert self.results.complete(leaf.handle)
        if leaf.futures:
            local = [(future, record - leaf.first) for future, record in leaf.futures]
            self.done.append((leaf.handle, local))


@st.composite
def cut(draw: st.DrawFn, count: int) -> list[int]:
    """Sizes of at least one that make up `count`."""
    places = draw(st.lists(st.integers(1, count - 1), max_size=5, unique=True)) if count > 1 else []
    edges = [0, *sorted(places), count]
    return [b - a for a, b in itertools.pairwise(edges)]


@settings(max_examples=examples(200))
@given(counts=st.lists(st.integers(1, 40), min_size=1, max_size=4), data=st.data())
def test_every_record_finds_its_result_and_every_future_is_delivered_once(
    counts: list[int], data: st.DataObject
) -> None:
    world = World(counts)
    steps = st.sampled_from(["attach", "attach", "split", "split", "complete"])
    where: dict[tuple[int, int], Leaf] = {}
    for step in data.draw(st.lists(steps, max_size=25)):
        if not world.leaves:
            break
        at = data.draw(st.integers(0, len(world.leaves) - 1))
        leaf = world.leaves[at]
        if step == "attach":
            world.attach(leaf, data.draw(st.integers(0, leaf.count - 1)))
        elif step == "split":
            world.split(at, data.draw(cut(leaf.count)))
        else:
            where.update({(leaf.root, leaf.first + i): leaf for i in range(leaf.count)})
            world.complete(at)
    pending = sum(leaf.count for leaf in world.leaves)
    assert world.results.record_count(world.results.last_number) == pending
    for leaf in world.leaves:
        where.update({(leaf.root, leaf.first + i): leaf for i in range(leaf.count)})
    for root, count in world.roots.items():
        for record in range(count):
            leaf = where[root, record]
            assert world.results.resolve(root, record) == (leaf.handle, record - leaf.first)
    # Those whose callbacks have not run are still on the list, in the place of their parents.
    left = {leaf.handle for leaf in world.leaves} | {handle for handle, _ in world.done}
    assert [h for h in world.results.order() if h not in left] == []
    still = [leaf.handle for leaf in world.leaves]
    assert [h for h in world.results.order() if h in still] == still
    assert world.results.batch_count == len(left)
    while world.leaves:
        world.complete(data.draw(st.integers(0, len(world.leaves) - 1)))
    assert world.results.take_ready() == world.done
    for handle, _ in world.done:
        world.results.delivered(handle)
    assert world.results.wait_all(world.results.last_number, 0)
    assert world.results.order() == []
