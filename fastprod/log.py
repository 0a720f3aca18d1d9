"""Log: a logger that imports the module logging only when there is something to log."""

from __future__ import annotations

from typing import Any


class Log:
    """Has the methods of the logger `name`, looked up at each call.

    The module logging and what it imports took a tenth of the time that `import fastprod` did.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        import logging  # noqa: PLC0415

        return getattr(logging.getLogger(self._name), attribute)


def load_logging() -> None:
    """Import logging now, before a producer has threads.

    A thread that imported it while another forks would leave the child, whose copy of the import's
    lock nobody holds, waiting for ever when it logs.
    """
    import logging  # noqa: F401, PLC0415
