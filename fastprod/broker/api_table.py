"""The APIs that the broker serves: one row each, with its messages and its versions (B-B1).

A listed version is one that ApiVersions names; a served one is one that can be read and answered.
They differ where Kafka's own list does: Produce is listed from 0, because old librdkafka derives
its codecs from the minimum (B-B1.1), and served from 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fastprod.broker.network.request import RequestHeader
from fastprod.errors import ConfigError, KafkaError
from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    END_TXN,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages import (
    alter_client_quotas,
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
    sasl_authenticate,
    sasl_handshake,
)
from fastprod.protocol.messages.group import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from fastprod.protocol.messages.replica import (
    alter_partition_reassignments,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
    offset_for_leader_epoch,
)
from fastprod.protocol.messages.security import (
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_user_scram_credentials,
)
from fastprod.protocol.messages.transaction import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from fastprod.protocol.schema import SharedList, skip_tags

RELEASES: Final = ("2.1", "2.8", "3.0", "3.7", "3.9", "4.0", "4.1", "4.3")
"""Releases of Apache Kafka whose list a broker can be pinned to; columns of the table below."""


class InvalidRequestError(KafkaError):
    """A request that names no API, or no version, that is served: its connection is closed (B-D5).

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


class Service(NamedTuple):
    """What this broker does of one API.

    Attributes:
        api: its messages.
        listed: what ApiVersions names unless the broker is pinned.
        served: what can be read and answered; pinning moves inside it.
        release_last: the highest version in each of `RELEASES`; None: the API was not there yet.
    """

    api: Api[Any, Any]
    listed: Versions
    served: Versions
    release_last: tuple[int | None, ...]


def _service(
    api: Api[Any, Any],
    listed: tuple[int, int],
    release_last: tuple[int | None, ...],
    served_from: int | None = None,
) -> Service:
    first, last = listed
    served = Versions(first if served_from is None else served_from, last)
    return Service(api, Versions(first, last), served, release_last)


SERVICES: Final = {
    service.api.key: service
    for service in (
        # listed, and the highest version in each of RELEASES
        _service(produce.API, (0, 13), (7, 9, 9, 10, 11, 12, 13, 13), served_from=3),
        _service(fetch.API, (4, 18), (10, 12, 12, 16, 17, 17, 18, 18)),
        _service(list_offsets.API, (1, 11), (4, 6, 7, 8, 9, 10, 10, 11)),
        _service(metadata.API, (0, 13), (7, 11, 11, 12, 12, 13, 13, 13)),
        _service(offset_commit.API, (2, 10), (6, 8, 8, 9, 9, 9, 9, 10)),
        _service(offset_fetch.API, (1, 10), (5, 7, 8, 9, 9, 9, 9, 10)),
        _service(find_coordinator.API, (0, 6), (2, 3, 4, 4, 6, 6, 6, 6)),
        _service(join_group.API, (0, 9), (3, 7, 7, 9, 9, 9, 9, 9)),
        _service(heartbeat.API, (0, 4), (2, 4, 4, 4, 4, 4, 4, 4)),
        _service(leave_group.API, (0, 5), (2, 4, 4, 5, 5, 5, 5, 5)),
        _service(sync_group.API, (0, 5), (2, 5, 5, 5, 5, 5, 5, 5)),
        _service(describe_groups.API, (0, 6), (2, 5, 5, 5, 5, 6, 6, 6)),
        _service(list_groups.API, (0, 5), (2, 4, 4, 4, 5, 5, 5, 5)),
        _service(sasl_handshake.API, (0, 1), (1, 1, 1, 1, 1, 1, 1, 1)),
        _service(api_versions.API, (0, 4), (2, 3, 3, 3, 4, 4, 4, 4)),
        _service(create_topics.API, (2, 7), (3, 7, 7, 7, 7, 7, 7, 7)),
        _service(delete_topics.API, (1, 6), (3, 6, 6, 6, 6, 6, 6, 6)),
        _service(delete_records.API, (0, 2), (1, 2, 2, 2, 2, 2, 2, 2)),
        _service(init_producer_id.API, (0, 5), (1, 4, 4, 4, 5, 5, 5, 5)),
        _service(offset_for_leader_epoch.API, (2, 4), (2, 4, 4, 4, 4, 4, 4, 4)),
        _service(add_partitions_to_txn.API, (0, 5), (1, 3, 3, 4, 5, 5, 5, 5)),
        _service(add_offsets_to_txn.API, (0, 4), (1, 3, 3, 3, 4, 4, 4, 4)),
        _service(end_txn.API, (0, 5), (1, 3, 3, 3, 4, 5, 5, 5)),
        _service(write_txn_markers.API, (1, 2), (None, 1, 1, 1, 1, 1, 1, 2)),
        _service(txn_offset_commit.API, (0, 5), (2, 3, 3, 3, 4, 5, 5, 5)),
        _service(describe_acls.API, (1, 3), (1, 2, 2, 3, 3, 3, 3, 3)),
        _service(create_acls.API, (1, 3), (1, 2, 2, 3, 3, 3, 3, 3)),
        _service(delete_acls.API, (1, 3), (1, 2, 2, 3, 3, 3, 3, 3)),
        _service(describe_configs.API, (1, 4), (2, 4, 4, 4, 4, 4, 4, 4)),
        _service(alter_configs.API, (0, 2), (1, 2, 2, 2, 2, 2, 2, 2)),
        _service(describe_log_dirs.API, (1, 5), (1, 2, 2, 4, 4, 4, 4, 5)),
        _service(sasl_authenticate.API, (0, 2), (0, 2, 2, 2, 2, 2, 2, 2)),
        _service(create_partitions.API, (0, 3), (1, 3, 3, 3, 3, 3, 3, 3)),
        _service(delete_groups.API, (0, 2), (1, 2, 2, 2, 2, 2, 2, 2)),
        _service(elect_leaders.API, (0, 2), (None, 2, 2, 2, 2, 2, 2, 2)),
        _service(incremental_alter_configs.API, (0, 1), (None, 1, 1, 1, 1, 1, 1, 1)),
        _service(alter_partition_reassignments.API, (0, 1), (None, 0, 0, 0, 0, 0, 1, 1)),
        _service(list_partition_reassignments.API, (0, 0), (None, 0, 0, 0, 0, 0, 0, 0)),
        _service(offset_delete.API, (0, 0), (None, 0, 0, 0, 0, 0, 0, 0)),
        _service(describe_client_quotas.API, (0, 1), (None, 1, 1, 1, 1, 1, 1, 1)),
        _service(alter_client_quotas.API, (0, 1), (None, 1, 1, 1, 1, 1, 1, 1)),
        _service(describe_user_scram_credentials.API, (0, 0), (None, 0, 0, 0, 0, 0, 0, 0)),
        _service(alter_user_scram_credentials.API, (0, 0), (None, 0, 0, 0, 0, 0, 0, 0)),
        _service(describe_cluster.API, (0, 2), (None, 0, 0, 1, 1, 2, 2, 2)),
        _service(describe_producers.API, (0, 0), (None, 0, 0, 0, 0, 0, 0, 0)),
        _service(describe_transactions.API, (0, 0), (None, None, 0, 0, 0, 0, 0, 0)),
        _service(list_transactions.API, (0, 2), (None, None, 0, 0, 1, 1, 2, 2)),
        _service(consumer_group_heartbeat.API, (0, 1), (None, None, None, 0, 0, 1, 1, 1)),
        _service(consumer_group_describe.API, (0, 1), (None, None, None, None, 0, 1, 1, 1)),
    )
}

APIS: Final = {key: service.api for key, service in SERVICES.items()}

_TRANSACTION_VERSION_2: Final = ((PRODUCE, 12), (END_TXN, 5), (TXN_OFFSET_COMMIT, 5))

_GROUP_VERSION_1: Final = (
    (CONSUMER_GROUP_HEARTBEAT, 0),
    (OFFSET_COMMIT, 9),
    (OFFSET_FETCH, 9),
    (METADATA, 12),
)

_header = struct.Struct(">hhih")

Pin = int | tuple[int, int] | None
"""What an API is pinned to: its highest version, its lowest and highest, or None to hide it."""


class ApiTable:
    """The APIs as one broker lists them.

    Any thread.

    Attributes:
        transaction_version: the level of the feature transaction.version: 2 if all that KIP-890
            needs is listed.
        group_version: likewise: 1 if all that KIP-848 needs is listed.

    Args:
        max_versions: list no version that this release of Kafka does not have, one of `RELEASES`;
            default: the table's own lists, which are those of Kafka 4.3 (B-B1).
        versions: API, by name or key, to what it is pinned to; it wins over `max_versions`.

    Raises:
        ConfigError: no such release or API, or versions that are not served.
    """

    def __init__(
        self, max_versions: str | None = None, versions: Mapping[str | int, Pin] | None = None
    ) -> None:
        self._listed = {
            key: listed
            for key, service in SERVICES.items()
            if (listed := _released(service, max_versions)) is not None
        }
        for name, pin in (versions or {}).items():
            service = _named(name)
            self._listed.pop(service.api.key, None)
            if pin is not None:
                self._listed[service.api.key] = _pinned(service, pin)
        # Of each API, the versions that are read: each request is looked up here.
        self._read = {
            key: (SERVICES[key].api, max(listed.first, SERVICES[key].served.first), listed.last)
            for key, listed in self._listed.items()
        }
        self._told = SharedList(
            api_versions.ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in sorted(self._listed.items())
        )
        # KIP-890, KIP-848.
        self.transaction_version = 2 if self._lists(_TRANSACTION_VERSION_2) else 0
        self.group_version = 1 if self._lists(_GROUP_VERSION_1) else 0

    def listed(self, api_key: int) -> Versions | None:
        """The versions of an API that are listed; None: it is not."""
        return self._listed.get(api_key)

    def is_listed(self, api_key: int, version: int) -> bool:
        """Whether the list holds this version; of ApiVersions it need not (B-A7.2)."""
        versions = self._listed.get(api_key)
        return versions is not None and versions.first <= version <= versions.last

    def _lists(self, needed: Iterable[tuple[int, int]]) -> bool:
        return all(self.is_listed(*each) for each in needed)

    def api_versions(self) -> list[api_versions.ApiVersion]:
        """The list for an ApiVersionsResponse, by key; it must not be changed.

        One list for all: each connection asks for it, some twice, and its bytes are kept.
        """
        return self._told

    def parse_header(self, view: memoryview) -> RequestHeader:
        """Read the header of a frame (request header version 1, or 2 with its tags skipped).

        An ApiVersions request passes in every version: it is answered, not refused (B-A7.2).

        Raises:
            InvalidRequestError: the header is damaged, or what it names is not listed or not
                served; the connection is to be closed (B-D5).
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

        What follows it is ignored, as in Kafka, and librdkafka relies on that: its flexible
        Metadata request for all topics has three bytes too many (2.16.0).

        Raises:
            SchemaError: it is damaged.
        """
        return APIS[header.api_key].request.decode_first(header.version, view, header.body_offset)

    def encode_response(self, header: RequestHeader, response: Any) -> list[bytearray | memoryview]:
        """Write the response to the request of `header`: response header and body.

        To answer ApiVersions in another version than it came in (B-A7.2), pass
        `header._replace(version=0)`.

        Raises:
            SchemaError: a value has the wrong type, or does not fit this version.
        """
        api = APIS[header.api_key]
        head = api.response_head(header.version, header.correlation_id)
        return api.response.encode(header.version, response, head)

    def _api(self, api_key: int, version: int) -> Api[Any, Any]:
        """The API that has this version of an API, which must be listed."""
        found = self._read.get(api_key)
        if found is None:
            known = f" ({APIS[api_key].name})" if api_key in APIS else ""
            raise InvalidRequestError(
                f"API key {api_key}{known}, version {version}, is not listed by this broker",
                api_key=api_key,
                version=version,
            )
        api, first, last = found
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


def _released(service: Service, release: str | None) -> Versions | None:
    """What `release` lists of an API, above the minimum that we serve; None: nothing."""
    if release is None:
        return service.listed
    if release not in RELEASES:
        raise ConfigError(
            f"max_versions = {release!r}: no such list; there are {', '.join(RELEASES)}",
            key="max_versions",
            value=release,
        )
    last = service.release_last[RELEASES.index(release)]
    if last is None:
        return None
    return Versions(service.listed.first, min(last, service.listed.last))


def _named(name: str | int) -> Service:
    for service in SERVICES.values():
        if name in (service.api.key, service.api.name):
            return service
    names = ", ".join(service.api.name for service in SERVICES.values())
    raise ConfigError(f"versions: no API is called {name!r}; there are {names}", key="versions")


def _pinned(service: Service, pin: int | tuple[int, int]) -> Versions:
    """The versions that a pin asks for."""
    pair = (service.listed.first, pin) if isinstance(pin, int) else pin
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(n, int) for n in pair)):
        raise ConfigError(
            f"versions of {service.api.name} = {pin!r}: "
            f"it can be the highest, (lowest, highest) or None",
            key="versions",
            value=pin,
        )
    versions = Versions(*pair)
    lowest = service.listed.first
    if not lowest <= versions.first <= versions.last <= service.served.last:
        raise ConfigError(
            f"versions of {service.api.name} = {versions}: "
            f"they must lie in {lowest}..{service.served.last}",
            key="versions",
            value=pin,
        )
    if versions.last < service.served.first:
        raise ConfigError(
            f"versions of {service.api.name} = {versions}: none of them is served, "
            f"that begins at {service.served.first}",
            key="versions",
            value=pin,
        )
    return versions
