"""What Python sees of `times`; see times.pxd."""

class TimePattern:
    """A date or time as text.

    Args:
        parts: (letter of java.time.format.DateTimeFormatter, how many of it), and (ASCII character,
            0) for one that stands for itself.  Letters: y M d H m s S X x; up to 64 parts.
    """

    def __init__(self, parts: list[tuple[str, int]]) -> None: ...

class ZoneOffsets:
    """What a zone's clocks are ahead of UTC, at any time.

    Args:
        starts_s: seconds since the epoch, rising, from when on an offset holds.
        offsets_s: seconds, one more: the first holds before the first start.
        repeats_from_s: later times are as those 400 years before; the list holds so many years from
            then on.  None: nothing repeats.
    """

    def __init__(
        self, starts_s: list[int], offsets_s: list[int], repeats_from_s: int | None = None
    ) -> None: ...
