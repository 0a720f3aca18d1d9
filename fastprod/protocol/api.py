"""Api: a request and an answer of Kafka, their versions, and their headers."""

from __future__ import annotations

import struct
from typing import Generic, TypeVar

from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.api_keys import API_NAMES, API_VERSIONS
from fastprod.protocol.field_types import SchemaError, View
from fastprod.protocol.schema import Schema, skip_tags

Q = TypeVar("Q")
A = TypeVar("A")

_REQUEST_HEAD = struct.Struct(">ihhi")
_SIZE = struct.Struct(">i")
_MOST_CLIENT_ID_BYTES = 0x7FFF


class Api(Generic[Q, A]):
    """The messages of one API.

    Any thread.

    Args:
        key: its number.
        request: class of its requests.
        response: class of its responses.
        versions: the first and the last version that the tables know.
        flexible_from: first version with tagged fields in body and header; None: no version.

    Attributes:
        name: Kafka's name of it.
        request: how requests are read, which anybody may have sent, and written.
        response: how responses are.
    """

    __slots__ = ("_flexible_from", "key", "name", "request", "response", "versions")

    def __init__(
        self,
        key: int,
        request: type[Q],
        response: type[A],
        *,
        versions: tuple[int, int],
        flexible_from: int | None,
    ) -> None:
        self.key = key
        self.name = API_NAMES[key]
        self.request = Schema(request, flexible_from, is_counted=True)
        self.response = Schema(response, flexible_from)
        self.versions = versions
        self._flexible_from = flexible_from

    def has_flexible_request_header(self, version: int) -> bool:
        return self._flexible_from is not None and version >= self._flexible_from

    def has_flexible_response_header(self, version: int) -> bool:
        # Who asks for versions cannot know yet which header we write (KIP-511, B-A7.1).
        return self.key != API_VERSIONS and self.has_flexible_request_header(version)

    def request_frame(
        self, version: int, correlation_id: int, client_id: str | None, message: Q
    ) -> bytes:
        """A whole request: size prefix, header of the right version, body (contract P-G.9).

        Raises:
            UnsupportedVersionError: the tables do not know the version.
            SchemaError: a value has the wrong type, or does not fit this version.
        """
        self._check(version)
        name = None if client_id is None else client_id.encode()
        name_bytes = -1 if name is None else len(name)
        if name_bytes > _MOST_CLIENT_ID_BYTES:
            raise SchemaError(
                f"a string of {name_bytes} bytes, over {_MOST_CLIENT_ID_BYTES}", "client_id"
            )
        tags = b"\0" if self.has_flexible_request_header(version) else b""
        head = struct.pack(">h", name_bytes) + (name or b"") + tags
        body = b"".join(self.request.encode(version, message, head))
        size_bytes = _REQUEST_HEAD.size - _SIZE.size + len(body)
        return _REQUEST_HEAD.pack(size_bytes, self.key, version, correlation_id) + body

    def response_head(self, version: int, correlation_id: int) -> bytes:
        """The header of a response, without the size prefix."""
        head = _SIZE.pack(correlation_id)
        return head + b"\0" if self.has_flexible_response_header(version) else head

    def read_response(self, version: int, payload: View) -> tuple[int, A]:
        """Read a response without its size prefix: (correlation id, message).

        Unknown tagged fields, and what follows the message, are ignored (P-J.1.1, P-J.1.4).

        Raises:
            UnsupportedVersionError: the tables do not know the version.
            SchemaError: it is damaged; the text names the API, the field and the place.
        """
        self._check(version)
        try:
            if len(payload) < _SIZE.size:
                raise SchemaError("the bytes end inside of it", "correlation_id", 0)
            at = _SIZE.size
            if self.has_flexible_response_header(version):
                at = _behind_tags(payload, at)
            return _SIZE.unpack_from(payload)[0], self.response.decode_first(version, payload, at)
        except SchemaError as error:
            raise SchemaError(
                f"{self.name} response v{version} of {len(payload)} bytes: {error}"
            ) from error

    def _check(self, version: int) -> None:
        first, last = self.versions
        if not first <= version <= last:
            raise UnsupportedVersionError(
                f"{self.name} of version {version}: the versions known here are {first} to {last}"
            )


def _behind_tags(payload: View, at: int) -> int:
    try:
        return skip_tags(payload, at)
    except IndexError:
        raise SchemaError("the bytes end inside of it", "header tags", at) from None
