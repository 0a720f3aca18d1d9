"""InputFiles: the files that paths, folders and patterns name, and their formats."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

FORMATS: Final = ("parquet", "csv", "json", "orc", "avro", "text")
TEXTS: Final = ("csv", "json", "text")
"""Formats whose files may be packed as a whole."""
COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_HADOOPS: Final = (".deflate", ".snappy")
# Of these Spark's readers pass over all that is not as Hadoop packs it: of frames of lz4, as the
# tool of that name writes them, of snappy's own format, and of files that end too early.
_PASSED_OVER: Final = (".lz4", ".snappy")
_NOBODYS: Final = (".xz", ".zip", ".lzo", ".br", ".7z", ".z", ".lzma")
_ENDINGS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
    ".log": "text",
}
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://?")
_PATTERN: Final = re.compile(r"[*?\[]")
_SPARKS_PATTERN: Final = re.compile(r"[]\[{}*?\\]")


class InputError(ValueError):
    """The input cannot be loaded; nothing of it has been sent."""


class NoFiles(InputError):
    """There is no file in what was named."""


class NeedsSpark(InputError):
    """It can be loaded, but not without Spark's own readers."""


class UnlikeFiles(InputError):
    """A column that is used by default is in some files only: nobody knows what is wanted."""


@dataclass(frozen=True)
class InputFile:
    """One file as it was found.

    Attributes:
        path: absolute.
        root: the argument by which it was found, absolute: a folder, or the file's own path.
        size_bytes: when it was found.
        mtime_ns: its time of change when it was found, since the epoch.
    """

    path: str
    root: str
    size_bytes: int
    mtime_ns: int

    @property
    def state(self) -> str:
        """Size and time in words."""
        seconds, ns = divmod(self.mtime_ns, 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, UTC)
        return f"{self.size_bytes:,} bytes of {moment:%Y-%m-%d %H:%M:%S}.{ns:09} UTC"

    def check(self) -> None:
        """Refuse the file if it has changed since it was found.

        Raises:
            InputError: it has changed, with both states; or it is gone.
        """
        try:
            found = Path(self.path).stat()
        except OSError as error:
            raise InputError(
                f"{self.path} is not there any more ({error.strerror}); it was found with "
                f"{self.state}"
            ) from error
        now = InputFile(self.path, self.root, found.st_size, found.st_mtime_ns)
        if now != self:
            raise InputError(
                f"{self.path} has changed since it was found: {self.state} then, {now.state} now"
            )


def is_local(path: str) -> bool:
    """Whether the path is in a file system of this machine: no scheme, or ``file:``."""
    return not _SCHEME.match(path) or path.startswith("file:")


def plain_path(path: str) -> str:
    """The path of a file system of this machine, without the scheme ``file:``."""
    return unquote(urlsplit(path).path) if path.startswith("file:") else path


def find_files(paths: Iterable[str]) -> list[InputFile]:
    """Find the files of folders, patterns and files, each once, in the order of their paths.

    Below folders, and by patterns, files and folders are skipped that are markers, or unfinished,
    as Spark does: names that begin with ``.``, or with ``_`` and have no ``=``, or that end in
    ``._COPYING_``.  Links to folders are not followed, as they may form a circle: below a folder
    they are refused.

    Raises:
        NoFiles: a path has no files.
        InputError: it cannot be read, or has a link to a folder, a pipe, a device, or a name that
            is no text.
    """
    found: dict[str, InputFile] = {}
    for given in paths:
        path = plain_path(given)
        matches = [path]
        if not Path(path).exists() and _PATTERN.search(path):
            found_names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
            matches = [each for each in found_names if not _has_mark(each, path)]
        files = [each for match in matches for each in _files_under(Path(match), given)]
        if not files:
            raise NoFiles(f"{given}: no files in it")
        for file in files:
            found.setdefault(file.path, file)
    return sorted(found.values(), key=lambda file: file.path)


def _files_under(root: Path, given: str) -> Iterator[InputFile]:
    absolute = Path(os.path.abspath(root))  # noqa: PTH100  resolve() would follow links
    try:
        if absolute.is_dir():
            for folder, below, names in os.walk(absolute, onerror=_unreadable):
                below[:] = sorted(name for name in below if not is_mark(name))
                for name in below:
                    if (Path(folder) / name).is_symlink():
                        raise OSError(
                            0, f"{Path(folder) / name} is a link to a folder: name it by itself"
                        )
                for name in sorted(names):
                    if not is_mark(name):
                        yield _file(Path(folder) / name, absolute)
        else:
            yield _file(absolute, absolute)
    except OSError as error:
        told = error.strerror or str(error)
        raise InputError(f"{given}: {told[:1].lower()}{told[1:]}") from error


def is_mark(name: str) -> bool:
    """Whether Spark passes over files and folders of that name: markers, and unfinished ones."""
    begins = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return begins or name.endswith("._COPYING_")


def _has_mark(match: str, pattern: str) -> bool:
    """Whether a name in the path is a mark where the pattern does not say so."""
    said = Path(pattern).parts
    return any(is_mark(part) and part not in said for part in Path(match).parts)


def _unreadable(error: OSError) -> None:
    """Raise for a folder that cannot be listed, which `os.walk` would skip."""
    raise OSError(error.errno, f"{error.strerror} for the folder {error.filename}") from error


def check_name(path: str) -> None:
    """Refuse a name that is no text: Java finds no such file, and passes over it in a folder.

    Raises:
        InputError: which, with its bytes.
    """
    if any("\udc80" <= letter <= "\udcff" for letter in path):
        shown = os.fsencode(path).decode("ascii", "backslashreplace")
        raise InputError(f"{shown} has a name that is no text in UTF-8: rename it")


def check_pattern(path: str) -> None:
    """Refuse a file, or folder, of a stream whose path has a character of Spark's patterns.

    Raises:
        InputError: which.
    """
    found = _SPARKS_PATTERN.search(path)
    if found is not None:
        raise InputError(
            f"{path} has a {found[0]} in its path: Spark takes it for a pattern, and reads the "
            f"files that come with it several times: rename it"
        )


def _file(path: Path, root: Path) -> InputFile:
    check_name(str(path))
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        # A pipe has no size, cannot be cut, and would be read twice.
        raise OSError(0, f"{path} is no regular file")
    if not os.access(path, os.R_OK):
        raise PermissionError(13, f"permission denied for {path.name}")
    return InputFile(str(path), str(root), found.st_size, found.st_mtime_ns)


def literal(path: str) -> str:
    """The path, escaped so that Spark's readers do not take it for a pattern."""
    return _SPARKS_PATTERN.sub(r"\\\g<0>", path)


def spark_paths(files: Sequence[InputFile]) -> list[str]:
    """Paths by which Spark's readers find just these files.

    Folders, where Spark reads all of their files: then it makes columns of folders named
    name=value. Else the files one by one: Spark skips some folders below one that it is given, and
    reads a file twice that two paths have in common.
    """
    roots = dict.fromkeys(file.root for file in files)
    between = {Path(file.path).relative_to(file.root).parent for file in files}
    is_nested = any("=" not in part for folder in between for part in folder.parts)
    is_double = any(str(above) in roots for root in roots for above in Path(root).parents)
    chosen = [file.path for file in files] if is_nested or is_double else roots
    return [literal(path) for path in chosen]


def folder_columns(file: InputFile) -> list[str]:
    """The columns that Spark's readers make of the folders between root and file, name=value."""
    folders = Path(file.path).relative_to(file.root).parts[:-1]
    pairs = (folder.partition("=") for folder in folders)
    return [unquote(name) for name, equals, _ in pairs if name and equals]


def base_path(files: Sequence[InputFile], paths: Sequence[str]) -> str | None:
    """The folder that Spark has to be told, or it makes no columns of folders.

    Args:
        files: all of them.
        paths: those that Spark is given for them, by `spark_paths`.

    Returns:
        None: it finds them by itself, or there are none.

    Raises:
        InputError: there is no such folder, so that Spark would leave the columns out.
    """
    roots = {file.root for file in files}
    if all(literal(root) in paths for root in roots) or not any(map(folder_columns, files)):
        return None
    if len(roots) > 1:
        raise InputError(
            f"{' and '.join(sorted(roots)[:2])} have files in folders named name=value, and in "
            f"other folders or in common: load them one by one"
        )
    return next(iter(roots))


def check_spark_reads(files: Iterable[InputFile], kind: str) -> None:
    """Refuse files that Spark's readers skip even if they are named, or cannot decompress.

    Args:
        files: all of them.
        kind: the format.

    Raises:
        InputError: which, and what to do.
    """
    files = list(files)
    if kind in TEXTS:
        check_packing(files, is_spark=True)
    for file in files:
        if is_mark(Path(file.path).name):
            raise InputError(
                f"{file.path}: Spark's readers pass over files whose names begin with _ or ., or "
                f"end in ._COPYING_: rename it, or leave it out"
            )


def reads_by_folders(options: Mapping[str, str]) -> bool:
    """Whether Spark's reader makes columns of folders named name=value, and passes over others."""
    given = {name.lower(): value.strip().lower() for name, value in options.items()}
    return given.get("recursivefilelookup") != "true"


def check_folders(files: Iterable[InputFile]) -> None:
    """Refuse files in different folders named name=value: Spark passes over those in none.

    Raises:
        InputError: two of them.
    """
    found: dict[tuple[str, ...], str] = {}
    for file in files:
        found.setdefault(tuple(folder_columns(file)), file.path)
    if len(found) > 1:
        told = " and ".join(
            f"{path} ({', '.join(names) or 'none'})" for names, path in sorted(found.items())[:2]
        )
        raise InputError(
            f"folders named name=value give files different columns, {told}, of which Spark passes "
            f"over some: load them one by one"
        )


def check_packing(files: Iterable[InputFile], *, is_spark: bool = False) -> None:
    """Refuse compressed files whose bytes would be read as text, or of which rows would be lost.

    Raises:
        NeedsSpark: only Spark's readers decompress it.
        InputError: nothing here decompresses it, or Spark's readers may lose rows of it.
    """
    for file in files:
        ending = Path(file.path).suffix.lower()
        if ending in _NOBODYS:
            raise InputError(f"{file.path}: {ending} is not unpacked here: unpack it before")
        if ending in _PASSED_OVER and is_spark:
            raise InputError(
                f"{file.path}: Spark's readers may pass over a whole file that ends in {ending} "
                f"without a word: unpack it before, or pack it by gzip or zstd"
            )
        if ending in _HADOOPS and not is_spark:
            raise NeedsSpark(f"{file.path}: {ending} is not unpacked without Spark")


def compression_of(path: str) -> str | None:
    """The codec that the whole file is compressed with, by its name; None: none."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def format_of(paths: Sequence[str]) -> str:
    """The format that the names of the files end in.

    Raises:
        InputError: they end in none, or in several.
    """
    found: dict[str, str] = {}
    for path in paths:
        name = Path(path)
        if name.suffix.lower() in COMPRESSIONS:
            name = name.with_suffix("")
        kind = _ENDINGS.get(name.suffix.lower())
        if kind is None:
            raise InputError(
                f"{path}: its name does not tell its format; give --format, one of "
                f"{', '.join(FORMATS)}"
            )
        found.setdefault(kind, path)
    if len(found) > 1:
        told = " and ".join(f"{kind} ({path})" for kind, path in sorted(found.items())[:2])
        raise InputError(f"the files are of different formats, {told}: load them one by one")
    return next(iter(found))
