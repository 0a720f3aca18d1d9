"""docs/clients.md, the table of other people's clients on our broker: made by a run of their tests.

A test says what it has shown by its fixture `client_row`, which marks it `client`. With
`--clients-table FILE` a run writes what its tests have said, if all of them have passed: one that
left one out, skipped it or failed writes nothing. `ci/check_clients.py` compares the table with the
tests that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

import kafka_jars

FIXTURE = "client_row"
PACKAGES = ("aiokafka", "confluent-kafka", "kafka-python")
_PROPERTY = "client row"
_HEAD = """# Clients of our broker

What clients and tools of others did on the broker of this package. The tests that this page
names write it, when all of them have passed, as the step `clients` of `make accept`:

    .venv/bin/python ci/accept.py --only clients

| client or tool | version | what it did on our broker | proved by |
|---|---|---|---|
"""

ClientRow = Callable[[str, str], None]


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        client: name of a package, or a tool of Kafka's.
        did: on our broker.
        test: file::function.
    """

    client: str
    did: str
    test: str


def version(client: str) -> str:
    """Of a Python package, or else of Apache Kafka, whose tools all others are."""
    return metadata.version(client) if client in PACKAGES else kafka_jars.KAFKA_VERSION


def text(rows: Iterable[Row]) -> str:
    """The page; what several cases of one test have said alike is one row."""
    return _HEAD + "".join(
        f"| {each.client} | {version(each.client)} | {each.did} | `{each.test}` |\n"
        for each in sorted(set(rows))
    )


@pytest.fixture
def client_row(request: pytest.FixtureRequest) -> ClientRow:
    """`client_row("aiokafka", "what it did")`: a row for the table, if the test passes."""
    function = request.node.nodeid.partition("[")[0]

    def add(client: str, did: str) -> None:
        request.node.user_properties.append((_PROPERTY, Row(client, did, function)))

    return add


class TableWriter:
    """Collects rows while tests run, and writes them at the end.

    Args:
        path: of the table.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: set[Row] = set()
        self._refused = ""

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Note that a test of the table is not run."""
        for each in items:
            if each.get_closest_marker("client"):
                self._refused = f"{each.nodeid} was left out"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the rows of a test when it has cleaned up behind itself, too."""
        if not report.passed:
            self._refused = f"{report.nodeid}: {report.outcome}"
        elif report.when == "teardown":
            self._rows.update(row for _, row in report.user_properties if isinstance(row, Row))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write, or say why not and end with an error."""
        refused = self._refused or ("no test has said anything" if not self._rows else "")
        if exitstatus or refused:
            print(f"\n{self._path} is not written: {refused or f'exit code {exitstatus}'}")
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        self._path.write_text(text(self._rows), "ascii")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients-table", metavar="FILE", help="write what clients of others did")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--clients-table"):
        config.pluginmanager.register(TableWriter(Path(path)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark who has a row, before others are left out."""
    for item in items:
        if FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.client)
