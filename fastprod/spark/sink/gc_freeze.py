"""Takes objects that live as long as a worker out of the garbage collection."""

from __future__ import annotations

import gc
from typing import Final

_MOST_FREEZES: Final = 4
# Frozen objects do not count: a worker that has imported all it needs has some tens left.
_MOST_UNFROZEN: Final = 2_000

_freeze_count = 0


def freeze() -> None:
    """Freeze all objects, if there are many; to be called at the end of each piece of work.

    Spark's Python processes, workers and the driver's, collect garbage after every piece of work,
    and walking the objects of pyarrow and pandas takes 10 ms.  They import half of these
    only when the first result is sent back, so later calls look again, a few times at most: objects
    that the work itself makes are not to be frozen again and again.
    """
    global _freeze_count
    if _freeze_count < _MOST_FREEZES and len(gc.get_objects()) > _MOST_UNFROZEN:
        gc.collect()
        gc.freeze()
        _freeze_count += 1
