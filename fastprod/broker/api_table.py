"""The APIs that the broker serves: one row each, with its messages and its versions (B1).

A listed version is one that ApiVersions names; a served one is one that can be read and answered.
They differ where Kafka's own list does: Produce is listed from 0, because old librdkafka derives
its codecs from the minimum (B1.1), and served from 3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fastprod.broker.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from fastprod.broker.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from fastprod.broker.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from fastprod.broker.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from fastprod.broker.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from fastprod.broker.messages.fetch import FetchRequest, FetchResponse
from fastprod.broker.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from fastprod.broker.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from fastprod.broker.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from fastprod.broker.messages.metadata import MetadataRequest, MetadataResponse
from fastprod.broker.messages.produce import ProduceRequest, ProduceResponse
from fastprod.broker.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from fastprod.broker.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from fastprod.broker.request import RequestHeader
from fastprod.broker.schema import Schema, SchemaError, skip_tags
from fastprod.errors import ConfigError, KafkaError

API_VERSIONS: Final = 18
PRODUCE: Final = 0
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36

RELEASES: Final = ("2.1", "2.8", "3.0")
"""Releases of Apache Kafka whose list a broker can be pinned to; columns of the table below."""


class InvalidRequestError(KafkaError):
    """A request that names no API, or no version, that is served: its connection is closed (D5).

    Attributes:
        api_key: what it names, if it got so far.
        version: likewise.
    """

    code = 42


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


@dataclass(frozen=True, slots=True)
class Api:
    """One API.

    Attributes:
        key: its number.
        name: Kafka's name of it.
        request: its requests.
        response: its responses.
        listed: what ApiVersions names unless the broker is pinned.
        served: what can be read and answered; pinning moves inside it.
        flexible_from: first version with tagged fields in body and header; None: no version.
        release_last: the highest version in each of `RELEASES`; None: the API was not there yet.
    """

    key: int
    name: str
    request: Schema[Any]
    response: Schema[Any]
    listed: Versions
    served: Versions
    flexible_from: int | None
    release_last: tuple[int | None, ...]

    def has_flexible_request_header(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def has_flexible_response_header(self, version: int) -> bool:
        # Who asks for versions cannot know yet which header we write (KIP-511, A7.1).
        return self.key != API_VERSIONS and self.has_flexible_request_header(version)


def _api(
    key: int,
    name: str,
    messages: tuple[type, type],
    listed: tuple[int, int],
    flexible_from: int | None,
    release_last: tuple[int | None, ...],
    served_from: int | None = None,
) -> Api:
    first, last = listed
    return Api(
        key,
        name,
        Schema(messages[0], flexible_from),
        Schema(messages[1], flexible_from),
        Versions(first, last),
        Versions(first if served_from is None else served_from, last),
        flexible_from,
        release_last,
    )


APIS: Final = {
    api.key: api
    for api in (
        # key, name, messages, listed, flexible from, the highest version in 2.1, 2.8 and 3.0
        _api(0, "Produce", (ProduceRequest, ProduceResponse), (0, 9), 9, (7, 9, 9), served_from=3),
        _api(1, "Fetch", (FetchRequest, FetchResponse), (4, 12), 12, (10, 12, 12)),
        _api(2, "ListOffsets", (ListOffsetsRequest, ListOffsetsResponse), (1, 7), 6, (4, 6, 7)),
        _api(3, "Metadata", (MetadataRequest, MetadataResponse), (0, 11), 9, (7, 11, 11)),
        _api(
            10,
            "FindCoordinator",
            (FindCoordinatorRequest, FindCoordinatorResponse),
            (0, 4),
            3,
            (2, 3, 4),
        ),
        _api(
            17,
            "SaslHandshake",
            (SaslHandshakeRequest, SaslHandshakeResponse),
            (0, 1),
            None,
            (1, 1, 1),
        ),
        _api(18, "ApiVersions", (ApiVersionsRequest, ApiVersionsResponse), (0, 4), 3, (2, 3, 3)),
        _api(19, "CreateTopics", (CreateTopicsRequest, CreateTopicsResponse), (2, 7), 5, (3, 7, 7)),
        _api(20, "DeleteTopics", (DeleteTopicsRequest, DeleteTopicsResponse), (1, 6), 4, (3, 6, 6)),
        _api(
            22,
            "InitProducerId",
            (InitProducerIdRequest, InitProducerIdResponse),
            (0, 4),
            2,
            (1, 4, 4),
        ),
        _api(
            32,
            "DescribeConfigs",
            (DescribeConfigsRequest, DescribeConfigsResponse),
            (1, 4),
            4,
            (2, 4, 4),
        ),
        _api(
            36,
            "SaslAuthenticate",
            (SaslAuthenticateRequest, SaslAuthenticateResponse),
            (0, 2),
            2,
            (0, 2, 2),
        ),
        _api(
            60,
            "DescribeCluster",
            (DescribeClusterRequest, DescribeClusterResponse),
            (0, 1),
            0,
            (None, 0, 0),
        ),
    )
}

_header = struct.Struct(">hhih")
_correlation_id = struct.Struct(">i")

Pin = int | tuple[int, int] | None
"""What an API is pinned to: its highest version, its lowest and highest, or None to hide it."""


class ApiTable:
    """The APIs as one broker lists them.

    Any thread.

    Args:
        max_versions: list no version that this release of Kafka does not have, one of `RELEASES`;
            default: the table's own lists, which are those of 3.0 with a newer ApiVersions and
            DescribeCluster (B1).
        versions: API, by name or key, to what it is pinned to; it wins over `max_versions`.

    Raises:
        ConfigError: no such release or API, or versions that are not served.
    """

    def __init__(
        self, max_versions: str | None = None, versions: Mapping[str | int, Pin] | None = None
    ) -> None:
        self._listed = {
            key: listed
            for key, api in APIS.items()
            if (listed := _released(api, max_versions)) is not None
        }
        for name, pin in (versions or {}).items():
            api = _named(name)
            self._listed.pop(api.key, None)
            if pin is not None:
                self._listed[api.key] = _pinned(api, pin)

    def listed(self, api_key: int) -> Versions | None:
        """The versions of an API that are listed; None: it is not."""
        return self._listed.get(api_key)

    def is_listed(self, api_key: int, version: int) -> bool:
        """Whether the list holds this version; of ApiVersions it need not (A7.2)."""
        versions = self._listed.get(api_key)
        return versions is not None and versions.first <= version <= versions.last

    def api_versions(self) -> list[ApiVersion]:
        """The list for an ApiVersionsResponse, by key."""
        return [
            ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
            for key, versions in sorted(self._listed.items())
        ]

    def parse_header(self, view: memoryview) -> RequestHeader:
        """Read the header of a frame (request header version 1, or 2 with its tags skipped).

        An ApiVersions request passes in every version: it is answered, not refused (A7.2).

        Raises:
            InvalidRequestError: the header is damaged, or what it names is not listed or not
                served; the connection is to be closed (D5).
        """
        try:
            api_key, version, correlation_id, size = _header.unpack_from(view)
        except struct.error:
            raise InvalidRequestError(
                f"a request of {len(view)} bytes, fewer than the {_header.size} of a header"
            ) from None
        api = self._api(api_key, version)
        try:
            client_id, at = _client_id(view, size)
            if api.has_flexible_request_header(version):
                at = skip_tags(view, at)
        except (SchemaError, IndexError, UnicodeError) as error:
            raise InvalidRequestError(
                f"the header of a {api.name} request, version {version}, is damaged: {error}",
                api_key=api_key,
                version=version,
            ) from None
        return RequestHeader(api_key, version, correlation_id, client_id, at)

    def decode_request(self, header: RequestHeader, view: memoryview) -> Any:
        """Read the body that follows `header`: an object of the API's request class.

        What lies behind it is nobody's, as in Kafka, and librdkafka relies on that: its flexible
        Metadata request for all topics has three bytes too many (2.16.0).

        Raises:
            SchemaError: it is damaged.
        """
        return APIS[header.api_key].request.decode_first(header.version, view, header.body_offset)

    def encode_response(self, header: RequestHeader, response: Any) -> list[bytearray | memoryview]:
        """Write the response to the request of `header`: response header and body.

        To answer ApiVersions in another version than it came in (A7.2), pass
        `header._replace(version=0)`.

        Raises:
            SchemaError: a value has the wrong type, or does not fit this version.
        """
        api, version = APIS[header.api_key], header.version
        head = _correlation_id.pack(header.correlation_id)
        if api.has_flexible_response_header(version):
            head += b"\0"
        return api.response.encode(version, response, head)

    def _api(self, api_key: int, version: int) -> Api:
        """The row that serves this version of an API, which must be listed."""
        versions = self._listed.get(api_key)
        if versions is None:
            known = f" ({APIS[api_key].name})" if api_key in APIS else ""
            raise InvalidRequestError(
                f"API key {api_key}{known}, version {version}, is not listed by this broker",
                api_key=api_key,
                version=version,
            )
        api = APIS[api_key]
        first, last = max(versions.first, api.served.first), versions.last
        if not first <= version <= last and api_key != API_VERSIONS:
            raise InvalidRequestError(
                f"version {version} of {api.name} (API key {api_key}) is not served: "
                f"this broker takes {first}..{last}",
                api_key=api_key,
                version=version,
            )
        return api


def _client_id(view: memoryview, size: int) -> tuple[str | None, int]:
    """The client id of `size` bytes behind the fixed part of the header, and where it ends."""
    start = _header.size
    if size == -1:
        return None, start
    left = len(view) - start
    if not 0 <= size <= left:
        raise SchemaError(f"{size} bytes stated, {left} left", "client_id")
    return str(view[start : start + size], "utf-8"), start + size


def _released(api: Api, release: str | None) -> Versions | None:
    """What `release` lists of an API, above the minimum that we serve; None: nothing."""
    if release is None:
        return api.listed
    if release not in RELEASES:
        raise ConfigError(
            f"max_versions = {release!r}: no such list; there are {', '.join(RELEASES)}",
            key="max_versions",
            value=release,
        )
    last = api.release_last[RELEASES.index(release)]
    return None if last is None else Versions(api.listed.first, last)


def _named(name: str | int) -> Api:
    for api in APIS.values():
        if name in (api.key, api.name):
            return api
    names = ", ".join(api.name for api in APIS.values())
    raise ConfigError(f"versions: no API is called {name!r}; there are {names}", key="versions")


def _pinned(api: Api, pin: int | tuple[int, int]) -> Versions:
    """The versions that a pin asks for."""
    versions = Versions(*(api.listed.first, pin) if isinstance(pin, int) else pin)
    lowest = api.listed.first
    if not lowest <= versions.first <= versions.last <= api.served.last:
        raise ConfigError(
            f"versions of {api.name} = {versions}: they must lie in {lowest}..{api.served.last}",
            key="versions",
            value=pin,
        )
    if versions.last < api.served.first:
        raise ConfigError(
            f"versions of {api.name} = {versions}: none of them is served, "
            f"that begins at {api.served.first}",
            key="versions",
            value=pin,
        )
    return versions
