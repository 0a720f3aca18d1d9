"""The entry point of `fastprod`; without the extra `cli` it says how to install it."""

from __future__ import annotations

import os
import sys
from typing import Final

_EXTRA_MODULES: Final = ("click", "rich")
_MISSING_CODE: Final = 2
_INTERRUPTED_CODE: Final = 130


def main() -> None:
    """Run the command line of this process and exit.

    Where click, or rich for a command that uses it, is missing, it says on stderr what to install,
    and the exit code is 2.
    """
    _replace_closed_streams()
    try:
        from fastprod.cli.command import main as run  # noqa: PLC0415

        run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA_MODULES:
            raise
        print(
            f"fastprod: {missing} is not installed here: python -m pip install 'fastprod[cli]'",
            file=sys.stderr,
        )
        sys.exit(_MISSING_CODE)
    except KeyboardInterrupt:
        print("fastprod: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED_CODE)


def _replace_closed_streams() -> None:
    """Open the null device where a standard stream is closed.

    Otherwise a socket gets the stream's number, and what a library or Java prints. Reading from the
    standard input that was closed is an error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_WRONLY)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))
