"""Types of what Python sees of `flush_turn`; the docstrings stand in flush_turn.pyx."""

from fastprod._core.delivery.loop_future import LoopFuture
from fastprod._core.engine.engine import Engine

class FlushTurn(LoopFuture[None]):
    def __init__(self, engine: Engine) -> None: ...
    @property
    def undelivered_count(self) -> int: ...
    def expire(self) -> None: ...
