"""FrozenObjects: what lives as long as a worker, out of its garbage collector's sight."""

from __future__ import annotations

import gc
from typing import Final

_MOST_FREEZES: Final = 4
# What is frozen is in sight no more: a worker that has settled has some tens.
_OBJECTS_IN_SIGHT: Final = 2_000

_freeze_count = 0


def freeze() -> None:
    """Freeze what is there, if that is much; to be called at the end of each piece of work.

    Spark's Python processes, workers and the driver's, collect garbage after every piece of work,
    and walking the objects of pyarrow and pandas takes 10 ms.  They import a half of them only when
    the first outcome is sent back, so a later call looks again; a process whose work keeps making
    objects is soon left alone.
    """
    global _freeze_count
    if _freeze_count < _MOST_FREEZES and len(gc.get_objects()) > _OBJECTS_IN_SIGHT:
        gc.collect()
        gc.freeze()
        _freeze_count += 1
