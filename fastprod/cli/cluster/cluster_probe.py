"""Whether a cluster can be reached from here, and if not, why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Final

from fastprod.cli.cluster.broker_access import BrokerAccess
from fastprod.cli.cluster.broker_connection import BrokerConnection, Channel
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.cluster.resolution import resolve_in_time
from fastprod.cli.output.failure import Unreachable
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.metadata.metadata_answer import NO_LEADER
from fastprod.config_values import BootstrapAddress
from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from fastprod.protocol.messages.metadata import MetadataResponse

NEEDED_APIS: Final = {PRODUCE: "Produce", METADATA: "Metadata", INIT_PRODUCER_ID: "InitProducerId"}
"""The APIs that a producer needs, by key, with their names."""


@dataclass
class BrokerFinding:
    """What was found at one host and port.

    Attributes:
        host: as it was given, or as the cluster announces it.
        port: as it was given, or as the cluster announces it.
        node_id: the broker's id; None for a bootstrap server.
        reached_at: the address that answered; "" if none did.
        took_ms: time from DNS to the answer to ApiVersions, in ms.
        troubles: what went wrong, one sentence each, in the order of trying.
        versions: what the broker offers; None if none answered.
    """

    host: str
    port: int
    node_id: int | None = None
    reached_at: str = ""
    took_ms: float = 0.0
    troubles: list[str] = field(default_factory=list)
    versions: ApiVersions | None = None

    @property
    def where(self) -> str:
        """host:port."""
        return str(BootstrapAddress(self.host, self.port))

    @property
    def produce_version(self) -> int | None:
        """The version of Produce to use with this broker; None if there is no common one."""
        return common_version(self.versions, PRODUCE)


@dataclass
class ClusterFinding:
    """What was found out about a cluster; see `examine_cluster`.

    Attributes:
        bootstrap: one finding a bootstrap server.
        brokers: one finding a broker that the cluster announces.
        metadata: of all topics; None if no bootstrap server answered.
    """

    bootstrap: list[BrokerFinding]
    brokers: list[BrokerFinding] = field(default_factory=list)
    metadata: MetadataResponse | None = None

    @property
    def least_produce_version(self) -> int | None:
        """The lowest Produce version in use with any broker; None if a broker has none."""
        versions = [broker.produce_version for broker in self.brokers]
        known = [version for version in versions if version is not None]
        return min(known) if known and len(known) == len(versions) else None

    @property
    def leaderless_count(self) -> int:
        """How many partitions have no leader: nothing can be sent to them."""
        topics = () if self.metadata is None else self.metadata.topics
        return sum(each.leader_id == NO_LEADER for topic in topics for each in topic.partitions)

    @property
    def faults(self) -> list[str]:
        """Why records cannot be sent to this cluster, or to parts of it; empty: they can."""
        if self.metadata is None:
            return [trouble for server in self.bootstrap for trouble in server.troubles]
        found = []
        for broker in self.brokers:
            what = f"broker {broker.node_id}, which the cluster announces as {broker.where}"
            if broker.versions is None:
                found.append(f"{what}, cannot be reached: {'; '.join(broker.troubles)}")
            elif broker.produce_version is None:
                found.append(f"{what}, shares no version of Produce with this client")
        return found


def common_version(versions: ApiVersions | None, api_key: int) -> int | None:
    """The version to use, or None where there is no common one."""
    try:
        return None if versions is None else versions.pick(api_key)
    except UnsupportedVersionError:
        return None


def _ways(
    broker: BootstrapAddress, timeout_s: float, access: BrokerAccess | None
) -> list[Callable[[], Address | Channel]]:
    """How a broker may be reached, in the order of trying."""
    if access is None:
        addresses = resolve_in_time(broker.host, broker.port, timeout_s)
        return [partial(Address, *each) for each in addresses]
    from fastprod.cli.cluster.engine_channel import EngineChannel  # noqa: PLC0415

    routes = access.routes(broker, timeout_s)
    return [partial(EngineChannel, access, broker, each, timeout_s) for each in routes]


def connect(
    broker: BootstrapAddress,
    timeout_s: float,
    finding: BrokerFinding,
    access: BrokerAccess | None = None,
) -> BrokerConnection | None:
    """Connect to the first address of a host that answers; the result goes into `finding`."""
    began_s = time.monotonic()
    try:
        ways = _ways(broker, timeout_s, access)
    except ConnectionTrouble as error:
        finding.troubles.append(str(error))
        return None
    for way in ways:
        try:
            connection = BrokerConnection(way(), timeout_s)
        except ConnectionTrouble as error:
            finding.troubles.append(str(error))
            continue
        finding.reached_at = connection.where
        finding.took_ms = (time.monotonic() - began_s) * 1000
        finding.versions = connection.versions
        return connection
    return None


def reach_cluster(
    servers: Iterable[BootstrapAddress], timeout_s: float, access: BrokerAccess | None = None
) -> BrokerConnection:
    """A connection to the first bootstrap server that answers.

    Args:
        servers: in the order of trying.
        timeout_s: limit of each step, in seconds.
        access: how they are reached; None: in plain text.

    Raises:
        Unreachable: none answers; the message has each one's reason.
    """
    troubles: list[str] = []
    for server in servers:
        finding = BrokerFinding(server.host, server.port)
        connection = connect(server, timeout_s, finding, access)
        if connection is not None:
            return connection
        troubles += finding.troubles
    raise Unreachable("; ".join(troubles))


def examine_cluster(
    servers: Iterable[BootstrapAddress], timeout_s: float, access: BrokerAccess | None = None
) -> ClusterFinding:
    """Ask every bootstrap server, and every broker that the cluster announces.

    Args:
        servers: bootstrap servers.
        timeout_s: limit of each step, in seconds.
        access: how they are reached; None: in plain text.
    """
    found = ClusterFinding([])
    for server in servers:
        finding = BrokerFinding(server.host, server.port)
        found.bootstrap.append(finding)
        connection = connect(server, timeout_s, finding, access)
        if connection is None:
            continue
        with connection:
            if found.metadata is None:
                try:
                    found.metadata = connection.metadata()
                except ConnectionTrouble as error:
                    finding.troubles.append(str(error))
    if found.metadata is not None:
        found.brokers = _examine_brokers(found.metadata, timeout_s, access)
    return found


def _examine_brokers(
    metadata: MetadataResponse, timeout_s: float, access: BrokerAccess | None
) -> list[BrokerFinding]:
    found = []
    for node in sorted(metadata.brokers, key=attrgetter("node_id")):
        finding = BrokerFinding(node.host, node.port, node.node_id)
        where = BootstrapAddress(node.host, node.port)
        connection = connect(where, timeout_s, finding, access)
        if connection is not None:
            connection.close()
        found.append(finding)
    return found


def offered_versions(versions: ApiVersions) -> Mapping[str, str]:
    """For each of `NEEDED_APIS`: what the broker offers, and what is used of it."""
    told = {}
    for api_key, name in NEEDED_APIS.items():
        offered = versions.versions.get(api_key)
        used = common_version(versions, api_key)
        if offered is None:
            told[name] = "not offered"
        else:
            use = "none in common" if used is None else f"{used} is used"
            told[name] = f"{offered[0]}..{offered[1]}, {use}"
    return told
