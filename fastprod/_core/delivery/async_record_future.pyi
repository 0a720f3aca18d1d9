"""Types of what Python sees of `async_record_future`; the docstrings stand in the .pyx."""

from typing import final

from fastprod._core.delivery.future import RecordFuture
from fastprod._core.delivery.loop_future import LoopFuture
from fastprod.records import RecordMetadata

@final
class AsyncRecordFuture(LoopFuture[RecordMetadata]):
    @property
    def record(self) -> RecordFuture: ...
    def __init__(self) -> None: ...

def await_future(record: RecordFuture) -> AsyncRecordFuture: ...
def need_loop() -> None: ...
