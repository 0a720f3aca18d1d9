"""`fastprod doctor`: what is installed here, and whether a cluster can be reached."""

from __future__ import annotations

import click

from fastprod.cli.cluster.broker_access import broker_access
from fastprod.cli.cluster.cluster_probe import (
    BrokerFinding,
    ClusterFinding,
    examine_cluster,
    offered_versions,
)
from fastprod.cli.installation import engine_facts, fastprod_facts, package_facts, python_facts
from fastprod.cli.options.client_settings import (
    SETTINGS_OPTIONS,
    ClientSettings,
    bootstrap_option,
    client_options,
    timeout_option,
)
from fastprod.cli.options.common import verbose_option
from fastprod.cli.output.failure import EXIT_CODES, RecordsFailed, Unreachable
from fastprod.cli.output.report import Report
from fastprod.cli.second_opinion import SAMPLE_COUNT, crc32c_difference


@click.command(epilog=EXIT_CODES)
@client_options(
    "fastprod-doctor",
    bootstrap_option(),
    *SETTINGS_OPTIONS,
    timeout_option(5.0, "Time limit of each step: DNS, connecting, one answer of a broker."),
)
@verbose_option
def doctor(client: ClientSettings) -> None:
    """Show what is installed, what the engine uses of it, and whether a cluster can be reached.

    The CRC-32C that goes into every batch is compared with that of another implementation, the
    package crc32c.

    With --bootstrap-servers, or where a file of settings names some, it asks each of them, and then
    each broker under the address that the cluster announces: a producer must reach those, whatever
    the bootstrap servers are called. It uses TLS, SASL and a proxy as the settings say, as a
    producer does. It changes nothing.
    """
    report = Report()
    for heading, facts in (
        ("fastprod", fastprod_facts()),
        ("machine", python_facts()),
        ("engine", engine_facts()),
        ("packages", package_facts()),
    ):
        report.heading(heading)
        for name, value in facts.items():
            report.line(name, value)
    difference = crc32c_difference()
    agreement = f"the same by the package crc32c, of {SAMPLE_COUNT} samples"
    report.heading("comparison")
    report.line("CRC-32C", difference or agreement)
    if not client.names_cluster or difference is not None:
        report.print()
        if difference is not None:
            raise RecordsFailed(f"the CRC-32C of this engine is not to be trusted: {difference}")
        return
    with broker_access(client.config) as access:
        found = examine_cluster(client.config.bootstrap_servers, client.timeout_s, access)
    _tell(report, found)
    report.print()
    if found.faults:
        raise Unreachable("; ".join(found.faults))


def _tell(report: Report, found: ClusterFinding) -> None:
    report.heading("bootstrap servers")
    for server in found.bootstrap:
        report.line(server.where, _reach(server))
    metadata = found.metadata
    if metadata is None:
        return
    report.heading("cluster")
    report.line("id", metadata.cluster_id or "not told")
    report.line("brokers", len(metadata.brokers))
    partition_count = sum(len(topic.partitions) for topic in metadata.topics)
    leaderless = f", {found.leaderless_count:,} without a leader" if found.leaderless_count else ""
    report.line("topics", f"{len(metadata.topics):,}, {partition_count:,} partitions{leaderless}")
    least = found.least_produce_version
    report.line("least Produce version", "none" if least is None else least)
    for broker in found.brokers:
        report.heading(f"broker {broker.node_id}, announced as {broker.where}")
        report.line("reached", _reach(broker))
        if broker.versions is not None:
            for name, versions in offered_versions(broker.versions).items():
                report.line(name, versions)
            report.line("APIs", f"{len(broker.versions.versions)} offered")


def _reach(finding: BrokerFinding) -> str:
    told = list(finding.troubles)
    if finding.versions is not None:
        told.append(f"yes, at {finding.reached_at}, in {finding.took_ms:.1f} ms")
    return "\n".join(told)
