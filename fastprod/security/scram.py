"""SCRAM: both sides of a proof that one knows a password (RFC 5802, RFC 7677; KIP-84; P-G.10.4).

Neither side sends the password, and a server keeps none: what it keeps proves a client's knowledge
and cannot be used to log in. As in Kafka a password is its UTF-8 bytes, without SASLprep, and there
is no channel binding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

HASH_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
)
"""The mechanisms, and the name of the hash of each."""

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 1_000_000
"""A server that asks for more would keep a client busy for seconds; Kafka's limit is 16,384."""

_SALT_BYTES: Final = 24
_NONCE_BYTES: Final = 24
_MOST_DIGITS: Final = 9
# Kafka's names have several letters, those of the RFC have one.
_ATTRIBUTE: Final = re.compile(r"([A-Za-z]+)=(.*)", re.DOTALL)
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+\Z")
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+\Z")
_BAD_ESCAPE: Final = re.compile(r"=(?!2C|3D)")


class ScramError(ValueError):
    """A message is damaged, or proves nothing; the text has no secret."""


class ScramCredentials(NamedTuple):
    """What a server keeps of a password.

    Attributes:
        salt: random bytes.
        stored_key: as many bytes as the hash has: checks a client's proof.
        server_key: as many: proves to the client that this is the server.
        iterations: 4,096 or more.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredentials(iterations={self.iterations})"


def make_credentials(
    mechanism: str,
    password: str,
    *,
    salt: bytes | None = None,
    iterations: int = LEAST_ITERATIONS,
) -> ScramCredentials:
    """Make what a server keeps of a password.

    Args:
        mechanism: one of `HASH_NAMES`.
        password: any text.
        salt: default: 24 random bytes.
        iterations: rounds of the hash, 4,096 to 1,000,000.

    Raises:
        ScramError: no such mechanism, an empty salt, or a number of iterations out of range.
    """
    salt = os.urandom(_SALT_BYTES) if salt is None else salt
    return _credentials(
        _hash_name(mechanism),
        salted_password(mechanism, password, salt, iterations),
        salt,
        iterations,
    )


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """SaltedPassword of RFC 5802: slow on purpose; a kafka-configs user may be made from it.

    Raises:
        ScramError: as `make_credentials`.
    """
    if not salt:
        raise ScramError("the salt is empty")
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ScramError(
            f"{iterations:,} iterations are not within {LEAST_ITERATIONS:,}..{MOST_ITERATIONS:,}"
        )
    return hashlib.pbkdf2_hmac(_hash_name(mechanism), password.encode(), salt, iterations)


def credentials_from_salted(
    mechanism: str, salted: bytes, salt: bytes, iterations: int
) -> ScramCredentials:
    """Make credentials of a `salted_password`, which is what AlterUserScramCredentials carries.

    Raises:
        ScramError: no such mechanism.
    """
    return _credentials(_hash_name(mechanism), salted, salt, iterations)


class Salter:
    """Salts one password, and remembers the last result for who logs in again (RFC 5802 allows it).

    A server's salt stays the same until the user's password changes, and salting is by far the most
    of what an exchange costs: with SCRAM-SHA-512 some 3 ms of a core each time. What is remembered
    is as good as the password for this user, and goes with this object.

    Args:
        mechanism: one of `HASH_NAMES`.
        password: any text.

    Threads: one.
    """

    def __init__(self, mechanism: str, password: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._asked: tuple[bytes, int] | None = None
        self._salted = b""

    def salted(self, salt: bytes, iterations: int) -> bytes:
        """As `salted_password`."""
        if self._asked != (salt, iterations):
            self._salted = salted_password(self._mechanism, self._password, salt, iterations)
            self._asked = salt, iterations
        return self._salted


class ScramClient:
    """The client's side of one authentication: `first`, `final`, `verify`, once each, in order.

    Args:
        mechanism: one of `HASH_NAMES`.
        username: of the user; any text.
        password: the user's.
        authorization_id: whom to act as; "": the user itself.
        extensions: such as ``{"tokenauth": "true"}`` for a delegation token (KIP-48).
        nonce: default: 24 random bytes in base 64; printable, without commas.
        salter: of this mechanism and password, for who makes several clients; default: its own.

    Raises:
        ScramError: no such mechanism, an empty user name, or an extension that cannot be sent.

    Threads: one.
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        *,
        authorization_id: str = "",
        extensions: Mapping[str, str] | None = None,
        nonce: str | None = None,
        salter: Salter | None = None,
    ) -> None:
        self._hash_name = _hash_name(mechanism)
        self._salter = salter or Salter(mechanism, password)
        if not username:
            raise ScramError("the user name is empty")
        self._nonce = _new_nonce() if nonce is None else nonce
        self._header = f"n,{_authorization_field(authorization_id)},"
        self._first_bare = f"n={_escaped(username)},r={self._nonce}{_extension_text(extensions)}"
        self._server_signature = b""

    def first(self) -> bytes:
        """The client's first message."""
        return (self._header + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """The client's proof.

        Args:
            server_first: the server's first message.

        Raises:
            ScramError: it is damaged, belongs to another exchange, or asks for too few or too many
                iterations.
        """
        text = _decoded(server_first)
        fields = _fields(text, ("r", "s", "i"))
        nonce = fields["r"]
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not _NONCE.match(nonce):
            raise ScramError("the server's first message has the nonce of another exchange")
        salt = _from_base64(fields["s"], "salt")
        salted = self._salter.salted(salt, _number(fields["i"]))
        without_proof = f"c={_to_base64(self._header.encode())},r={nonce}"
        auth_message = f"{self._first_bare},{text},{without_proof}".encode()
        client_key = _hmac(self._hash_name, salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        server_key = _hmac(self._hash_name, salted, b"Server Key")
        proof = _xor(client_key, _hmac(self._hash_name, stored_key, auth_message))
        self._server_signature = _hmac(self._hash_name, server_key, auth_message)
        return f"{without_proof},p={_to_base64(proof)}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check that the server knows the user's keys.

        Args:
            server_final: the server's last message.

        Raises:
            ScramError: it is damaged, has an error of the server's, or proves nothing.
        """
        text = _decoded(server_final)
        if text.startswith("e="):
            raise ScramError(f"the server refused the proof: {text[2:].split(',')[0]!r}")
        signature = _from_base64(_fields(text, ("v",))["v"], "signature")
        if not self._server_signature or not hmac.compare_digest(signature, self._server_signature):
            raise ScramError(
                "the server did not prove that it knows the user's keys: it may be another server "
                "than it pretends to be"
            )


class ScramServer:
    """The server's side of one authentication: `read_first`, `first`, `final`, once each, in order.

    Args:
        mechanism: one of `HASH_NAMES`.
        nonce: what is added to the client's; default: 24 random bytes in base 64.

    Attributes:
        username: as the client says, after `read_first`.
        authorization_id: whom it wants to act as; "": itself.
        extensions: what it says beside.

    Raises:
        ScramError: no such mechanism.

    Threads: one.
    """

    def __init__(self, mechanism: str, *, nonce: str | None = None) -> None:
        self._hash_name = _hash_name(mechanism)
        self._own_nonce = _new_nonce() if nonce is None else nonce
        self._nonce = ""
        self._header = ""
        self._first_bare = ""
        self._server_first = ""
        self._credentials: ScramCredentials | None = None
        self.username = ""
        self.authorization_id = ""
        self.extensions: Mapping[str, str] = {}

    def read_first(self, client_first: bytes) -> str:
        """Take the client's first message; returns the user's name.

        Raises:
            ScramError: it is damaged, or asks for channel binding.
        """
        flag, authorization, bare = _parts(_decoded(client_first), 3, "client's first message")
        if flag not in ("n", "y"):
            raise ScramError("channel binding is not supported")
        if authorization and not authorization.startswith("a="):
            raise ScramError("the client's first message has no authorization id where it is due")
        fields = _fields(bare, ("n", "r"))
        self.authorization_id = _unescaped(authorization[2:])
        self.username = _unescaped(fields.pop("n"))
        client_nonce = fields.pop("r")
        if not self.username or not _NONCE.match(client_nonce):
            raise ScramError("the client's first message has no user name, or no nonce")
        self.extensions = fields
        self._header = f"{flag},{authorization},"
        self._first_bare = bare
        self._nonce = client_nonce + self._own_nonce
        return self.username

    def first(self, credentials: ScramCredentials) -> bytes:
        """The server's first message.

        Args:
            credentials: the user's.
        """
        self._credentials = credentials
        self._server_first = (
            f"r={self._nonce},s={_to_base64(credentials.salt)},i={credentials.iterations}"
        )
        return self._server_first.encode()

    def final(self, client_final: bytes) -> bytes:
        """Check the client's proof; returns the server's last message.

        Raises:
            ScramError: the message is damaged, belongs to another exchange, or the proof is wrong.
        """
        text = _decoded(client_final)
        fields = _fields(text, ("c", "r"))
        if "p" not in fields or self._credentials is None:
            raise ScramError("the client's final message has no proof")
        without_proof, _, _ = text.rpartition(",p=")
        if _from_base64(fields["c"], "channel binding") != self._header.encode():
            raise ScramError("the client's final message has another header than its first one")
        if fields["r"] != self._nonce:
            raise ScramError("the client's final message has the nonce of another exchange")
        auth_message = f"{self._first_bare},{self._server_first},{without_proof}".encode()
        proof = _from_base64(fields["p"], "proof")
        if not _is_proof(self._hash_name, self._credentials.stored_key, auth_message, proof):
            raise ScramError("the proof is wrong")
        signature = _hmac(self._hash_name, self._credentials.server_key, auth_message)
        return f"v={_to_base64(signature)}".encode()


def verify_client_proof(
    mechanism: str, stored_key: bytes, auth_message: bytes, proof: bytes
) -> bool:
    """Whether a client's proof shows that it knows the password behind `stored_key`.

    Takes as long for a wrong proof as for a right one.

    Args:
        mechanism: one of `HASH_NAMES`.
        stored_key: of the user's credentials.
        auth_message: the three messages before the proof, as RFC 5802 puts them together.
        proof: the client's.

    Raises:
        ScramError: no such mechanism.
    """
    return _is_proof(_hash_name(mechanism), stored_key, auth_message, proof)


def _is_proof(hash_name: str, stored_key: bytes, auth_message: bytes, proof: bytes) -> bool:
    signature = _hmac(hash_name, stored_key, auth_message)
    if len(proof) != len(signature):
        return False
    client_key = _xor(proof, signature)
    return hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), stored_key)


def _credentials(hash_name: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredentials:
    client_key = _hmac(hash_name, salted, b"Client Key")
    stored_key = hashlib.new(hash_name, client_key).digest()
    return ScramCredentials(salt, stored_key, _hmac(hash_name, salted, b"Server Key"), iterations)


def _hash_name(mechanism: str) -> str:
    name = HASH_NAMES.get(mechanism)
    if name is None:
        raise ScramError(f"no such mechanism: {mechanism!r}; there are {', '.join(HASH_NAMES)}")
    return name


def _hmac(hash_name: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, hash_name)


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes([x ^ y for x, y in zip(a, b, strict=True)])


def _new_nonce() -> str:
    return _to_base64(os.urandom(_NONCE_BYTES))


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str, what: str) -> bytes:
    try:
        data = binascii.a2b_base64(text.encode(), strict_mode=True)
    except ValueError:
        data = b""
    if not data or _to_base64(data) != text:  # spare bits that are not 0 would be ignored
        raise ScramError(f"the {what} is not in base 64")
    return data


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("the message is not UTF-8") from None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise ScramError("the number of iterations is none")
    return int(text)


def _parts(text: str, count: int, what: str) -> list[str]:
    parts = text.split(",", count - 1)
    if len(parts) < count:
        raise ScramError(f"the {what} ends early")
    return parts


def _fields(text: str, first: tuple[str, ...]) -> dict[str, str]:
    """The attributes of a message by name; those of `first` come first, in that order."""
    found: dict[str, str] = {}
    for place, part in enumerate(text.split(",")):
        attribute = _ATTRIBUTE.fullmatch(part)
        name = attribute[1] if attribute else ""
        if name == "m":
            raise ScramError("the message asks for an extension that nobody knows")
        if attribute is None or (place < len(first) and name != first[place]) or name in found:
            raise ScramError(f"the message is damaged at its attribute number {place + 1}")
        found[name] = attribute[2]
    if len(found) < len(first):
        raise ScramError(f"the message has no attribute {first[len(found)]!r}")
    return found


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    if _BAD_ESCAPE.search(name):
        raise ScramError("a name has an '=' that begins neither =2C nor =3D")
    return name.replace("=2C", ",").replace("=3D", "=")


def _authorization_field(authorization_id: str) -> str:
    return f"a={_escaped(authorization_id)}" if authorization_id else ""


def _extension_text(extensions: Mapping[str, str] | None) -> str:
    for name, value in (extensions or {}).items():
        if not _EXTENSION_NAME.match(name) or name in ("m", "n", "r") or "," in value:
            raise ScramError(
                f"the SCRAM extension {name!r} cannot be sent: its name may have letters only and "
                f"be none of m, n and r, and its value no comma"
            )
    return "".join([f",{name}={value}" for name, value in (extensions or {}).items()])
