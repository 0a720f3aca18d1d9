"""Secret: a text that is shown nowhere: passwords, keys, tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

HIDDEN: Final = "[hidden]"
"""What stands in a secret's place."""

_WORDS: Final = (
    "password",
    "passphrase",
    "secret",
    "jaas",
    "keystore_key",
    "key_pem",
    "token",
    "user_info",
    "proxy_url",
    "oauthbearer_config",
    "assertion_private_key",
)

# Longer than any path that a system takes: then it is no path.
_LONGEST_SHOWN: Final = 4_096
_LONGEST_CREDENTIAL_BYTES: Final = 32_767  # Kafka's limit of a line of text


class Secret(str):
    """A text that no repr, `str`, `format`, printed local variable or pickle's bytes show.

    Everything else of `str` works on the text itself: `encode`, `join`, `==`, `len`. An f-string
    holds ``[hidden]`` in its place; `reveal` returns the text for what needs it as a `str`.
    """

    __slots__ = ()

    def __new__(cls, text: str = "") -> Secret:
        # str() of another secret would be what stands in its place.
        return str.__new__(cls, str.__str__(text))

    def reveal(self) -> str:
        """Return the text as a plain `str`."""
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"'{HIDDEN}'"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __reduce__(self) -> tuple[Callable[[bytes], Secret], tuple[bytes]]:
        # Scrambled, not encrypted: who looks at a dump or a log of pickles shall not read it.
        return _unscrambled, (_scramble(self.encode("utf-8", "surrogatepass")),)


def concealed(name: str, value: str) -> str:
    """Return the value of the setting `name`, a `Secret` if its name says so."""
    return Secret(value) if is_secret_name(name) else value


def is_secret_name(name: str) -> bool:
    """Whether a setting's name, with dots or underscores, says that its value is a secret."""
    plain = name.lower().replace(".", "_")
    return any(word in plain for word in _WORDS)


def plain_text(value: str) -> str:
    """Return `value` as a plain `str`, a secret's text too."""
    return str.__str__(value)


def _scramble(data: bytes) -> bytes:
    return bytes(byte ^ ((167 + 61 * index) & 0xFF | 0x80) for index, byte in enumerate(data))


def _unscrambled(data: bytes) -> Secret:
    return Secret(_scramble(data).decode("utf-8", "surrogatepass"))


def shown_path(path: str) -> str:
    """Return a path for an error or a log; not if it is rather the text of a key or a token."""
    is_text = "-----BEGIN" in path or "\n" in path or len(path) > _LONGEST_SHOWN
    return HIDDEN if is_text else repr(path)


def credential_fault(text: str) -> str:
    """Why SASL cannot send a text as a user name or password; "": it can.

    A NUL separates PLAIN's fields, and at a password's end makes no difference to SCRAM.
    """
    if not is_unicode(text):
        return "cannot be written as UTF-8"
    if len(text.encode()) > _LONGEST_CREDENTIAL_BYTES:
        return f"takes more than {_LONGEST_CREDENTIAL_BYTES:,} bytes"
    return "has a NUL character" if "\0" in text else ""


def is_unicode(text: str) -> bool:
    """Whether UTF-8 has it: not what an environment variable in another encoding becomes."""
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True
