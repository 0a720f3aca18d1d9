"""What Python sees of `layout`; see layout.pxd."""

from collections.abc import Callable

from fastprod._core.json.times import TimePattern, ZoneOffsets

class JsonFormat:
    """How rows become JSON.

    Args:
        date_pattern: of dates.
        timestamp_pattern: of timestamps with a time zone.
        timestamp_ntz_pattern: of those without one.
        zone_of: the offsets of a time zone that an Arrow type names; called once a column and
            batch.
        ignores_nulls: whether a struct's fields that are null are left out; else they are null.

    Threads: any; it never changes.
    """

    def __init__(
        self,
        *,
        date_pattern: TimePattern,
        timestamp_pattern: TimePattern,
        timestamp_ntz_pattern: TimePattern,
        zone_of: Callable[[str], ZoneOffsets],
        ignores_nulls: bool,
    ) -> None: ...

class JsonLayout:
    """An array's type and buffers as C structs. Native only."""

    def __init__(self) -> None: ...
