"""Types of what Python sees of `memory_turn`; the docstrings stand in memory_turn.pyx."""

from fastprod._core.delivery.loop_future import LoopFuture

class MemoryTurn(LoopFuture[None]):
    @property
    def is_expired(self) -> bool: ...
    def expire(self) -> None: ...
