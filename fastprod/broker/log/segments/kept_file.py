"""KeptFile: a file that stays open between uses, as long as there are enough descriptors."""

from __future__ import annotations

import resource
import weakref
from collections import deque
from pathlib import Path
from typing import Final

from fastprod.broker.log.segments.file_handle import FileHandle

_SHARE: Final = 4
_MOST: Final = 16_384

# Open files; the one at the front is the first to be closed, unless it was used meanwhile. No lock:
# the child of a fork could find it taken.
_opened: deque[weakref.ref[KeptFile]] = deque()


class KeptFile:
    """A file that is opened by its first use, and closed when many others are used more often.

    At most a quarter of the descriptors that the process may have (RLIMIT_NOFILE) is kept open so.
    Any thread; a handle stays valid as long as it is held.

    Args:
        path: of the file.
    """

    __slots__ = ("__weakref__", "_handle", "_is_used", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: FileHandle | None = None
        self._is_used = False

    def open(self, create: bool = False) -> FileHandle:
        """The open file.

        Args:
            create: make it if it is not there.

        Raises:
            OSError: it cannot be opened.
        """
        self._is_used = True
        handle = self._handle
        if handle is None:
            _close_unused()
            # Two threads may come here at once; one of the two handles is closed after its use.
            handle = self._handle = FileHandle(self.path, create)
            _opened.append(weakref.ref(self))
        return handle

    def close(self) -> None:
        """Close the descriptor; uses in progress go on, and the next one opens it again."""
        self._handle = None


def most_kept() -> int:
    """How many files may be kept open now."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if limit == resource.RLIM_INFINITY else min(limit // _SHARE, _MOST)


def _close_unused() -> None:
    """Make room for one more: close a file that was not used since it was last considered."""
    most = most_kept()
    while len(_opened) >= most:
        try:
            reference = _opened.popleft()
        except IndexError:
            return
        file = reference()
        if file is None or file._handle is None:
            continue
        if file._is_used:
            file._is_used = False
            _opened.append(reference)
        else:
            file.close()
