"""`fastprod doctor`: what is installed here, and whether a cluster can be reached."""

from __future__ import annotations

import click

from fastprod.cli.cluster_probe import (
    BrokerFinding,
    ClusterFinding,
    examine_cluster,
    offered_versions,
)
from fastprod.cli.failure import EXIT_CODES, Unreachable
from fastprod.cli.installation import engine_facts, fastprod_facts, package_facts, python_facts
from fastprod.cli.options import bootstrap_option, producer_settings, verbose_option
from fastprod.cli.report import Report


@click.command(epilog=EXIT_CODES)
@bootstrap_option(required=False)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Bound of each step towards a broker: DNS, connecting, one answer.",
)
@verbose_option
def doctor(bootstrap_servers: str | None, timeout_s: float) -> None:
    """Tell what is installed, which ways the engine takes, and whether a cluster can be reached.

    With --bootstrap-servers it asks each of them, and then each broker under the address that the
    cluster announces: a producer must reach those, whatever the bootstrap servers are called. It
    changes nothing.
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
    if bootstrap_servers is None:
        report.print()
        return
    config = producer_settings(bootstrap_servers, None, (), "fastprod-doctor")
    found = examine_cluster(config.bootstrap_servers, timeout_s)
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
