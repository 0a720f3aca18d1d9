"""Log: a logger that imports the module logging only when there is something to log."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from logging import Logger

_SAYS: Final = frozenset({"debug", "info", "warning", "error", "exception"})

_this_thread: Final = threading.local()


class Log:
    """Has the methods of the logger `name`, looked up at each call.

    What handlers and filters of the application raise ends here, shown on standard error where
    logging shows such errors (`logging.raiseExceptions`): it would end the producer's threads,
    which nobody starts again, and fail calls that have done their work.

    The module logging and what it imports took a tenth of the time that `import fastprod` did.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        import logging  # noqa: PLC0415

        logger = logging.getLogger(self._name)
        make = getattr(_this_thread, "make", None)
        if make is not None:
            logger = make(logger)
        found = getattr(logger, attribute)
        return functools.partial(_say, found) if attribute in _SAYS else found


def _say(say: Callable[..., None], *arguments: Any, stacklevel: int = 1, **named: Any) -> None:
    shielded(say, *arguments, stacklevel=stacklevel + 2, **named)


def shielded(say: Callable[..., None], *arguments: Any, **named: Any) -> None:
    """Call what runs handlers of the application's; what they raise is shown, and ends here.

    What is no `Exception`, as of `sys.exit`, goes on to the caller, if the thread is the
    application's.
    """
    try:
        say(*arguments, **named)
    except BaseException as error:
        if not isinstance(error, Exception) and not getattr(_this_thread, "is_own", False):
            raise
        import logging  # noqa: PLC0415
        import traceback  # noqa: PLC0415

        if logging.raiseExceptions:
            with contextlib.suppress(Exception):  # there may be no standard error
                traceback.print_exc()


def own_thread() -> None:
    """This thread is the producer's: it outlasts also a handler that calls `sys.exit`."""
    _this_thread.is_own = True


def hand_over(make: Callable[[Logger], Logger]) -> None:
    """Let this thread log, from now on, by what `make` returns for a logger."""
    _this_thread.make = make


def load_logging() -> None:
    """Import logging now, before a producer has threads.

    A thread that imported it while another forks would leave the child, whose copy of the import's
    lock nobody holds, waiting for ever when it logs.
    """
    import logging  # noqa: F401, PLC0415
