"""PemSource: where a certificate or a key comes from: a file in PEM, or the text itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NoReturn

from fastprod.errors import ConfigError
from fastprod.frozen import Frozen
from fastprod.security.java_stores import content_kind, conversion
from fastprod.security.secret import HIDDEN, Secret, shown_path

_BEGIN: Final = b"-----BEGIN "
_LIMIT_BYTES: Final = 64 << 20
# A block whose lines became one: in an environment variable, a properties file, a JSON value.
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----")
_LINE: Final = 64
# What OpenSSL reads of a directory: the hash of a subject, and a number.
_HASHED: Final = re.compile(r"[0-9a-f]{8}\.[0-9]+")
_TRUSTED: Final = ("truststore", "cafile", "ca_location")  # in names of settings
_ENDINGS: Final = (".pem", ".crt", ".cer")


class PemSource(Frozen):
    """A certificate, a chain, a key or a CRL in PEM; plain data, which pickles.

    Attributes:
        path: file, or directory of CA certificates by the names that `openssl rehash` gives, or
            else with names that end in .pem, .crt or .cer; None: `text`.
        text: the PEM itself; None: `path`.
        setting: the setting that it comes from, for errors.
    """

    __match_args__ = ("path", "text", "setting")

    path: str | None
    text: Secret | None
    setting: str

    def __init__(
        self, path: str | None = None, text: str | None = None, setting: str = "PEM"
    ) -> None:
        if (path is None) == (text is None):
            raise ValueError("a PemSource has a path or a text")
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "text", None if text is None else Secret(text))
        object.__setattr__(self, "setting", setting)

    def read(self) -> bytes:
        """Return the PEM, read anew from the file.  Blocks for the disk.

        Lines of base64 are put in order, so that a text may stand on one line, or have the two
        characters ``\\n`` for the end of each.

        Raises:
            ConfigError: the file cannot be read, holds no PEM or has more than 64 MiB; it names the
                setting and the path, and what to do with one of Java's stores.
        """
        if self.text is not None:
            text = self.text.reveal()
            if "-----BEGIN " not in text:
                self._refuse("holds no PEM, which begins with '-----BEGIN '; a file's path goes to "
                             "the setting whose name ends in location")  # fmt: skip
            return _in_lines(text).encode("utf-8", "replace")
        path = Path(str(self.path))
        if "-----BEGIN" in str(self.path):
            self._refuse("is PEM itself, and not the path of a file; PEM goes to the settings "
                         "whose names end in certificates, chain or key")  # fmt: skip
        try:
            data = _of_directory(path) if path.is_dir() else _of_file(path)
        except OSError as error:
            self._refuse(f"cannot be read: {error.strerror}")
        except ValueError:
            self._refuse("cannot be a path")
        if len(data) > _LIMIT_BYTES:
            self._refuse(f"has more than {_LIMIT_BYTES:,} bytes")
        if _BEGIN not in data:
            kind = content_kind(data)
            if kind is not None:
                plain = self.setting.replace(".", "_")
                is_trusted = any(word in plain for word in _TRUSTED)
                store = "truststore" if is_trusted else "keystore"
                self._refuse(conversion(str(path), store, kind))
            self._refuse("holds no PEM, which has a line '-----BEGIN ...'")
        return data

    def state(self) -> tuple[int, int, int] | None:
        """Return (mtime in ns, bytes, inode) of the file, which change when it is replaced.

        None for a text, which never changes, and for a file that is not there.  Of a directory only
        names are noticed.
        """
        if self.path is None:
            return None
        try:
            found = Path(self.path).stat()
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _refuse(self, why: str) -> NoReturn:
        shown = HIDDEN if self.path is None else shown_path(self.path)
        raise ConfigError(f"{self.setting} = {shown}: {why}", key=self.setting)


def _of_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LIMIT_BYTES + 1)


def _of_directory(path: Path) -> bytes:
    files = sorted(each for each in path.iterdir() if each.is_file())
    chosen = [each for each in files if _HASHED.fullmatch(each.name)]
    chosen = chosen or [each for each in files if each.name.endswith(_ENDINGS)]
    return b"\n".join(_of_file(each) for each in dict.fromkeys(each.resolve() for each in chosen))


def _in_lines(text: str) -> str:
    text = text.replace("\\n", "\n")

    def block(found: re.Match[str]) -> str:
        data = "".join(found[2].split())
        lines = [data[start : start + _LINE] for start in range(0, len(data), _LINE)]
        before = "\n" if text[: found.start()] and text[found.start() - 1] != "\n" else ""
        after = "" if text[found.end() :].startswith(("\n", "\r")) else "\n"
        begin, end = f"{before}-----BEGIN {found[1]}-----", f"-----END {found[1]}-----{after}"
        return "\n".join([begin, *lines, end])

    return _BLOCK.sub(block, text)
