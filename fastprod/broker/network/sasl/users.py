"""Users: who may log in, by which mechanism, and with what."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from fastprod.errors import ConfigError
from fastprod.security.secret import plain_text

if TYPE_CHECKING:
    from fastprod.security.scram import ScramCredentials

PLAIN: Final = "PLAIN"
SCRAM_256: Final = "SCRAM-SHA-256"
SCRAM_512: Final = "SCRAM-SHA-512"
SCRAM_MECHANISMS: Final = (SCRAM_256, SCRAM_512)
PASSWORD_MECHANISMS: Final = (PLAIN, SCRAM_256, SCRAM_512)
"""Mechanisms by which somebody with a password can log in."""

DEFAULT_ITERATIONS: Final = 4096


class _User(NamedTuple):
    """One user with a password; that must not be shown."""

    password: str
    mechanisms: tuple[str, ...]

    def __repr__(self) -> str:
        return f"_User({', '.join(self.mechanisms)})"


class Users:
    """Who may log in. Any thread; a change holds for who logs in after it.

    A password is kept as it is, since PLAIN and both SCRAMs need it: a broker for tests. SCRAM
    credentials are made of it when they are first asked for, which takes some milliseconds.

    Args:
        passwords: by name; each user may log in by PLAIN and by SCRAM.

    Raises:
        ConfigError: a name or password is no text, empty, or has a NUL.
    """

    def __init__(self, passwords: Mapping[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._users: dict[str, _User] = {}
        self._scram: dict[tuple[str, str], ScramCredentials] = {}
        for name, password in (passwords or {}).items():
            self.put(name, password)

    def put(
        self, name: str, password: str, mechanisms: Iterable[str] = PASSWORD_MECHANISMS
    ) -> None:
        """Add a user, or change how it logs in; its earlier credentials no longer hold.

        Args:
            name: not empty.
            password: not empty.
            mechanisms: of PASSWORD_MECHANISMS, one or more.

        Raises:
            ConfigError: a name, a password or a mechanism cannot be.
        """
        for text in (name, password):
            if not isinstance(text, str) or not text or "\0" in text:
                raise ConfigError(
                    "sasl_users: names and passwords are text that is not empty, without NUL",
                    key="sasl_users",
                )
        name, password = plain_text(name), plain_text(password)
        chosen = (mechanisms,) if isinstance(mechanisms, str) else tuple(mechanisms)
        unknown = [each for each in chosen if each not in PASSWORD_MECHANISMS]
        if unknown or not chosen:
            raise ConfigError(
                f"mechanisms of user {name!r} are {chosen!r}; those with a password are "
                f"{', '.join(PASSWORD_MECHANISMS)}",
                key="mechanisms",
            )
        with self._lock:
            self._forget(name)
            self._users[name] = _User(password, chosen)

    def remove(self, name: str) -> bool:
        """Remove a user with all credentials; False: there is none. Who is logged in stays so."""
        with self._lock:
            return self._forget(name)

    def names(self) -> list[str]:
        """Everybody, sorted."""
        with self._lock:
            return sorted({*self._users, *(name for name, _ in self._scram)})

    def password(self, name: str) -> str | None:
        """The password for PLAIN; None: no such user, or not by PLAIN."""
        user = self._users.get(name)
        return user.password if user is not None and PLAIN in user.mechanisms else None

    def login(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """Password and mechanisms of a user that has a password; None: there is none."""
        user = self._users.get(name)
        return None if user is None else (user.password, user.mechanisms)

    # SCRAM.

    def scram(self, name: str, mechanism: str) -> ScramCredentials | None:
        """The credential for a SCRAM mechanism; None: the user has none.

        Blocks some milliseconds when it is made of the password.
        """
        found = self._scram.get((name, mechanism))
        if found is not None or not self._has_scram(name, mechanism):
            return found
        user = self._users.get(name)
        if user is None:
            return None
        # It brings 4 MB of OpenSSL, which most brokers do without.
        from fastprod.security.scram import make_credentials  # noqa: PLC0415

        made = make_credentials(mechanism, user.password, iterations=DEFAULT_ITERATIONS)
        with self._lock:
            if self._users.get(name) is not user:
                return None
            return self._scram.setdefault((name, mechanism), made)

    def put_scram(self, name: str, mechanism: str, credential: ScramCredentials) -> None:
        """Give a user a credential, in place of the one that its password stands for."""
        with self._lock:
            self._take_mechanism(name, mechanism)
            self._scram[name, mechanism] = credential

    def remove_scram(self, name: str, mechanism: str) -> bool:
        """Remove one credential; False: there is none."""
        with self._lock:
            had = self._has_scram(name, mechanism)
            self._take_mechanism(name, mechanism)
            return self._scram.pop((name, mechanism), None) is not None or had

    def scram_iterations(self) -> dict[str, dict[str, int]]:
        """Names, sorted, to SCRAM mechanisms to the iterations of their credentials."""
        with self._lock:
            found: dict[str, dict[str, int]] = {}
            for name, user in self._users.items():
                for mechanism in user.mechanisms:
                    if mechanism in SCRAM_MECHANISMS:
                        found.setdefault(name, {})[mechanism] = DEFAULT_ITERATIONS
            for (name, mechanism), credential in self._scram.items():
                found.setdefault(name, {})[mechanism] = credential.iterations
        return {name: dict(sorted(found[name].items())) for name in sorted(found)}

    def _has_scram(self, name: str, mechanism: str) -> bool:
        user = self._users.get(name)
        return user is not None and mechanism in user.mechanisms

    def _take_mechanism(self, name: str, mechanism: str) -> None:
        """Its password no longer stands for this mechanism; the lock is held."""
        user = self._users.get(name)
        if user is None:
            return
        left = tuple(each for each in user.mechanisms if each != mechanism)
        if left:
            self._users[name] = user._replace(mechanisms=left)
        else:
            del self._users[name]

    def _forget(self, name: str) -> bool:
        """The lock is held."""
        keys = [each for each in self._scram if each[0] == name]
        for key in keys:
            del self._scram[key]
        return self._users.pop(name, None) is not None or bool(keys)
