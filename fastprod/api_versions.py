"""ApiVersions, the first exchange of a connection: a codec that needs no other library.

Everything else on a connection waits for this answer, and its framing has exceptions of its own
(contract G.5), so it is fixed here instead of being read from a schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from fastprod.errors import UnsupportedVersionError
from fastprod.frames import FrameReader, FrameWriter, SchemaError, response_reader

PRODUCE: Final = 0
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28
SASL_AUTHENTICATE: Final = 36
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72

API_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        PRODUCE: "Produce",
        METADATA: "Metadata",
        FIND_COORDINATOR: "FindCoordinator",
        SASL_HANDSHAKE: "SaslHandshake",
        API_VERSIONS: "ApiVersions",
        CREATE_TOPICS: "CreateTopics",
        DELETE_TOPICS: "DeleteTopics",
        INIT_PRODUCER_ID: "InitProducerId",
        ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
        ADD_OFFSETS_TO_TXN: "AddOffsetsToTxn",
        END_TXN: "EndTxn",
        TXN_OFFSET_COMMIT: "TxnOffsetCommit",
        SASL_AUTHENTICATE: "SaslAuthenticate",
        GET_TELEMETRY_SUBSCRIPTIONS: "GetTelemetrySubscriptions",
        PUSH_TELEMETRY: "PushTelemetry",
    }
)

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
        GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
        PUSH_TELEMETRY: (0, 0),
    }
)
"""Versions the client speaks, by API key (contract J.2)."""

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
        END_TXN: 1,
        TXN_OFFSET_COMMIT: 1,
    }
)

HIGHEST_VERSION: Final = CLIENT_VERSIONS[API_VERSIONS][1]
"""Version of the first ApiVersions request on a connection (contract G.5.1)."""

_FLEXIBLE_FROM: Final = 3
_UNSUPPORTED_VERSION: Final = 35
_TAG_FINALIZED_FEATURES_EPOCH: Final = 1
_TAG_FINALIZED_FEATURES: Final = 2
_SOFTWARE_IDENTIFIER: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """What a broker offers (contract J.4, ApiVersionsResponse).

    Attributes:
        versions: (min, max) version by API key.
        finalized_features: finalized level by feature name.
        finalized_features_epoch: epoch of ``finalized_features``, -1 when the broker told none.
        error_code: 0, or Kafka's error code; with 35 ``versions`` may be empty (G.5.3).
        throttle_ms: time the broker asks the client to stay silent.
    """

    versions: Mapping[int, tuple[int, int]]
    finalized_features: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    finalized_features_epoch: int = -1
    error_code: int = 0
    throttle_ms: int = 0

    def pick(self, api_key: int) -> int:
        """Version to use for ``api_key`` with this broker: ``pick_version`` on its range."""
        return pick_version(api_key, self.versions.get(api_key))


def pick_version(
    api_key: int,
    broker: tuple[int, int] | None,
    client: tuple[int, int] | None = None,
) -> int:
    """Highest version both sides speak (contract G.5.4).

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
    """Whether a throttle time in this response asks the client to wait (contract G.8, KIP-219).

    False for older versions: there the broker has already waited before it answered.
    """
    first = _THROTTLES_AFTER_REPLY_FROM.get(api_key)
    return first is not None and version >= first


def software_identifier(text: str) -> str:
    """``text`` reduced to what brokers accept as client software name or version (KIP-511).

    Other characters become "-"; "unknown" if nothing is left.
    """
    cleaned = re.sub(r"[^a-zA-Z0-9\-.]", "-", text).strip("-.")
    return cleaned or "unknown"


def api_versions_request(
    version: int, correlation_id: int, client_id: str | None, name: str, software_version: str
) -> bytes:
    """The whole request frame, size prefix included (contract G.5.1, G.9, J.4).

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
    if not 0 <= version <= HIGHEST_VERSION:
        raise UnsupportedVersionError(
            f"ApiVersions request of version {version}: the client speaks 0 to {HIGHEST_VERSION}"
        )
    flexible = version >= _FLEXIBLE_FROM
    body = FrameWriter()
    if flexible:
        for text in (name, software_version):
            if not _SOFTWARE_IDENTIFIER.fullmatch(text):
                raise ValueError(
                    f"client software name or version {text!r}: letters, digits, '-' and '.' only,"
                    " a letter or digit first and last"
                )
            body.string(text, flexible)
        body.no_tags(flexible)
    return body.request(API_VERSIONS, version, correlation_id, client_id, flexible=flexible)


def parse_api_versions_response(version: int, payload: bytes) -> tuple[int, ApiVersions]:
    """Decode a response frame (without size prefix) to a request of ``version``.

    The header is always v0 (contract G.5.2). With error 35 the body is read as v0, and a body
    that is not even that gives an empty ``versions`` (G.5.3). Unknown tagged fields and trailing
    bytes are skipped (G.5.6, J.1.4).

    Returns:
        (correlation id, ApiVersions).

    Raises:
        SchemaError: the frame ends early or a length in it cannot be.
    """
    correlation_id, reader = response_reader(
        payload, f"ApiVersions response v{version}", header_tags=False
    )
    error_code = reader.int16()
    if error_code == _UNSUPPORTED_VERSION:
        try:
            return correlation_id, _parse_body(reader, 0, error_code)
        except SchemaError:
            return correlation_id, ApiVersions(MappingProxyType({}), error_code=error_code)
    return correlation_id, _parse_body(reader, version, error_code)


def retry_version(sent_version: int, response: ApiVersions) -> int | None:
    """Version to ask again with on the same connection after an error, or None: close it.

    Error 35 at a version above 0 gives the broker's own maximum for ApiVersions, or 0 if it told
    none or one that was just refused (contract G.5.3). Any other error, or one at version 0, ends
    the connection.
    """
    if response.error_code != _UNSUPPORTED_VERSION or sent_version == 0:
        return None
    _, highest = response.versions.get(API_VERSIONS, (0, 0))
    return highest if 0 <= highest < sent_version else 0


def _parse_body(reader: FrameReader, version: int, error_code: int) -> ApiVersions:
    flexible = version >= _FLEXIBLE_FROM
    versions: dict[int, tuple[int, int]] = {}
    for _ in range(reader.length(flexible, least_item_bytes=6)):
        api_key = reader.int16()
        versions[api_key] = (reader.int16(), reader.int16())
        if flexible:
            reader.skip_tags()
    throttle_ms = reader.int32() if version >= 1 else 0
    features: dict[str, int] = {}
    epoch = -1
    if flexible:
        for tag, value in reader.tags():
            if tag == _TAG_FINALIZED_FEATURES_EPOCH:
                epoch = value.int64()
            elif tag == _TAG_FINALIZED_FEATURES:
                features = _parse_finalized_features(value)
    return ApiVersions(
        MappingProxyType(versions), MappingProxyType(features), epoch, error_code, throttle_ms
    )


def _parse_finalized_features(reader: FrameReader) -> dict[str, int]:
    features: dict[str, int] = {}
    for _ in range(reader.length(True, least_item_bytes=6)):
        name = reader.string(True)
        features[name] = reader.int16()
        reader.int16()
        reader.skip_tags()
    return features
