"""A descriptor that closes when the last reader lets go of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FEW: Final = 4


class FileHandle:
    """An open file.  A read in progress keeps it open: its descriptor cannot become another's.

    Args:
        path: of the file.
        create: make it if it is not there.

    Raises:
        OSError: it cannot be opened.
    """

    __slots__ = ("fd",)

    def __init__(self, path: Path, create: bool = False) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data`, without the GIL.

        Raises:
            OSError: not all was written.
        """
        view = memoryview(data)
        done = os.pwrite(self.fd, view, position)
        while done < view.nbytes:
            done += os.pwrite(self.fd, view[done:], position + done)

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes, fewer at the file's end; without the GIL."""
        return os.pread(self.fd, size, position)

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return os.fstat(self.fd).st_size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        """Sync the contents: they survive a power cut."""
        os.fsync(self.fd)


class FolderHandle:
    """An open folder, whose names can be synced without another descriptor.

    Args:
        path: of the folder.

    Raises:
        OSError: it cannot be opened.
    """

    __slots__ = ("fd",)

    def __init__(self, path: Path) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def sync(self) -> None:
        """Sync the names in it: they survive a power cut."""
        os.fsync(self.fd)


def check_descriptors(folder: Path) -> None:
    """See whether there are some for a step that has a few files open at a time.

    Raises:
        OSError: there are not.
    """
    opened = [FolderHandle(folder) for _ in range(_FEW)]
    del opened


def sync_folder(path: Path) -> None:
    """Sync the names in a folder: they survive a power cut."""
    FolderHandle(path).sync()


def replace_file(path: Path, content: bytes, sync: bool) -> None:
    """Replace a small file as a whole, or not at all (B-C1.4)."""
    temporary = path.with_name(path.name + ".tmp")
    handle = FileHandle(temporary, create=True)
    handle.truncate(0)
    handle.write_at(content, 0)
    if sync:
        handle.sync()
    temporary.replace(path)
    if sync:
        sync_folder(path.parent)
