"""ApiVersions, the first exchange of a connection: what a broker offers, and what we use of it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from fastprod.error_codes import UNSUPPORTED_VERSION
from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_NAMES,
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    GET_TELEMETRY_SUBSCRIPTIONS,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    PUSH_TELEMETRY,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    TXN_OFFSET_COMMIT,
)
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages.api_versions import API, ApiVersionsRequest, ApiVersionsResponse

CLIENT_VERSIONS: Final[Mapping[int, tuple[int, int]]] = MappingProxyType(
    {
        PRODUCE: (3, 13),
        METADATA: (4, 13),
        FIND_COORDINATOR: (1, 6),
        SASL_HANDSHAKE: (0, 1),
        API_VERSIONS: (0, 4),
        CREATE_TOPICS: (2, 7),
        DELETE_TOPICS: (1, 6),
        INIT_PRODUCER_ID: (0, 5),
        ADD_PARTITIONS_TO_TXN: (0, 3),
        ADD_OFFSETS_TO_TXN: (0, 4),
        END_TXN: (0, 5),
        TXN_OFFSET_COMMIT: (0, 5),
        SASL_AUTHENTICATE: (0, 2),
        DESCRIBE_TRANSACTIONS: (0, 0),
        GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
        PUSH_TELEMETRY: (0, 0),
    }
)
"""Versions the client speaks, by API key (contract P-J.2)."""

_THROTTLES_AFTER_REPLY_FROM: Final[Mapping[int, int]] = MappingProxyType(
    {
        PRODUCE: 6,
        METADATA: 6,
        FIND_COORDINATOR: 2,
        API_VERSIONS: 2,
        CREATE_TOPICS: 3,
        INIT_PRODUCER_ID: 1,
        ADD_PARTITIONS_TO_TXN: 1,
        ADD_OFFSETS_TO_TXN: 1,
        DESCRIBE_TRANSACTIONS: 0,
        END_TXN: 1,
        TXN_OFFSET_COMMIT: 1,
    }
)

HIGHEST_VERSION: Final = CLIENT_VERSIONS[API_VERSIONS][1]
"""Version of the first ApiVersions request on a connection (contract P-G.5.1)."""

_FIRST_SOFTWARE_VERSION: Final = 3
_ERROR_CODE: Final = struct.Struct(">h")
_ERROR_CODE_OFFSET: Final = 4
_MOST_KEPT_BYTES: Final = 4_096
"""Of an answer that is remembered; Kafka's have some 500."""


class ApiVersions(NamedTuple):
    """What a broker offers (contract P-J.4, ApiVersionsResponse).

    Attributes:
        versions: (min, max) version by API key.
        error_code: 0, or Kafka's error code; with 35 ``versions`` may be empty (P-G.5.3).
        throttle_ms: time the broker asks the client to stay silent.
        features: levels that the cluster has agreed on, by name (P-G.5.5).
        features_epoch: when it did; more is later, -1: the broker knows of none.
    """

    versions: Mapping[int, tuple[int, int]]
    error_code: int = 0
    throttle_ms: int = 0
    features: Mapping[str, int] = MappingProxyType({})
    features_epoch: int = -1

    def pick(self, api_key: int) -> int:
        """Version to use for ``api_key`` with this broker: ``pick_version`` on its range."""
        return pick_version(api_key, self.versions.get(api_key))


def pick_version(
    api_key: int,
    broker: tuple[int, int] | None,
    client: tuple[int, int] | None = None,
) -> int:
    """Highest version both sides speak (contract P-G.5.4).

    Args:
        api_key: the API, for the error text and the default of ``client``.
        broker: (min, max) the broker listed, None if it listed none.
        client: (min, max) the client speaks; default: ``CLIENT_VERSIONS[api_key]``.

    Raises:
        UnsupportedVersionError: the broker lacks the API, or the ranges do not meet.
    """
    name = API_NAMES.get(api_key, f"API {api_key}")
    if client is None:
        client = CLIENT_VERSIONS.get(api_key)
        if client is None:
            raise UnsupportedVersionError(f"{name} is not an API this client speaks")
    if broker is None:
        raise UnsupportedVersionError(
            f"the broker does not offer {name}, which the client needs in a version from"
            f" {client[0]} to {client[1]}; use a broker of version 2.1 or later"
        )
    version = min(client[1], broker[1])
    if version < max(client[0], broker[0]):
        raise UnsupportedVersionError(
            f"no common version of {name}: the broker offers {broker[0]} to {broker[1]}, the"
            f" client speaks {client[0]} to {client[1]}; use a broker of version 2.1 or later"
        )
    return version


def throttles_after_reply(api_key: int, version: int) -> bool:
    """Whether a throttle time in this response asks the client to wait (contract P-G.8, KIP-219).

    False for older versions: there the broker has already waited before it answered.
    """
    first = _THROTTLES_AFTER_REPLY_FROM.get(api_key)
    return first is not None and version >= first


def software_identifier(text: str) -> str:
    """``text`` reduced to what brokers accept as client software name or version (KIP-511).

    Other characters become "-"; "unknown" if nothing is left.
    """
    kept = [each.isascii() and (each.isalnum() or each in "-.") for each in text]
    cleaned = "".join([each if is_kept else "-" for each, is_kept in zip(text, kept, strict=True)])
    return cleaned.strip("-.") or "unknown"


@lru_cache(maxsize=8)
def api_versions_request(
    version: int, correlation_id: int, client_id: str | None, name: str, software_version: str
) -> bytes:
    """The whole request frame, size prefix included (contract P-G.5.1, P-G.9, P-J.4).

    Args:
        version: 0 to 4.
        correlation_id: int32.
        client_id: up to 32,767 bytes of UTF-8, or None.
        name: client software name, sent from version 3 on.
        software_version: client software version, sent from version 3 on.

    Raises:
        UnsupportedVersionError: a version outside 0 to 4.
        ValueError: a name or version brokers would refuse (see ``software_identifier``).
    """
    if version >= _FIRST_SOFTWARE_VERSION:
        for text in (name, software_version):
            if software_identifier(text) != text:
                raise ValueError(
                    f"client software name or version {text!r}: letters, digits, '-' and '.' only,"
                    " a letter or digit first and last"
                )
    message = ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version
    )
    return API.request_frame(version, correlation_id, client_id, message)


def parse_api_versions_response(version: int, payload: bytes) -> tuple[int, ApiVersions]:
    """Decode a response frame (without size prefix) to a request of ``version``.

    The header is always v0 (contract P-G.5.2). With error 35 the body is read as v0, and a body
    that is not even that gives an empty ``versions`` (P-G.5.3). Unknown tagged fields and trailing
    bytes are skipped (P-G.5.6, P-J.1.4).

    Returns:
        (correlation id, ApiVersions).

    Raises:
        SchemaError: the frame ends early or a length in it cannot be.
    """
    correlation_id = int.from_bytes(payload[:_ERROR_CODE_OFFSET], "big", signed=True)
    read = _remembered if len(payload) <= _MOST_KEPT_BYTES else _read
    return correlation_id, read(
        version, bytes(len(payload[:_ERROR_CODE_OFFSET])) + payload[_ERROR_CODE_OFFSET:]
    )


def _read(version: int, payload: bytes) -> ApiVersions:
    """The same without a correlation id, of which answers alike differ."""
    if payload[_ERROR_CODE_OFFSET:].startswith(_ERROR_CODE.pack(UNSUPPORTED_VERSION)):
        try:
            _, message = API.read_response(0, payload)
        except SchemaError:
            message = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION)
    else:
        _, message = API.read_response(version, payload)
    return ApiVersions(
        MappingProxyType(
            {each.api_key: (each.min_version, each.max_version) for each in message.api_keys}
        ),
        message.error_code,
        message.throttle_time_ms,
        MappingProxyType(
            {each.name: each.max_version_level for each in message.finalized_features}
        ),
        message.finalized_features_epoch,
    )


# A broker says the same on each connection, and twice on one with SASL. While this thread reads
# some 60 rows, no caller gets on.
_remembered: Final = lru_cache(maxsize=8)(_read)


def retry_version(sent_version: int, response: ApiVersions) -> int | None:
    """Version to ask again with on the same connection after an error, or None: close it.

    Error 35 at a version above 0 gives the broker's own maximum for ApiVersions, or 0 if it told
    none or one that was just refused (contract P-G.5.3). Any other error, or one at version 0, ends
    the connection.
    """
    if response.error_code != UNSUPPORTED_VERSION or sent_version == 0:
        return None
    _, highest = response.versions.get(API_VERSIONS, (0, 0))
    return highest if 0 <= highest < sent_version else 0
