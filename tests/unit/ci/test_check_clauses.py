"""ci/check_clauses.py finds clauses without proof, and tests that do not say what they prove."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_clauses
import checkout
import contract

TESTS = '''"""P-B.1."""

import pytest


def test_bare() -> None:
    """P-A.1.1, and P-L.2."""


@pytest.mark.parametrize("number", [1, 2])
def test_with_a_comment(number: int) -> None:
    assert number  # P-A.1.2


class TestGroup:
    """P-C.4."""

    def test_inside(self) -> None:
        """Not P-A.1.12."""


# P-D.3.1
test_of_a_machine = TestGroup
'''
PATH = "tests/unit/test_it.py"
PRODUCER = check_clauses.PRODUCER
BROKER = check_clauses.BROKER


def write_clauses(root: Path, document: str, *names: str) -> None:
    (root / document).parent.mkdir(parents=True, exist_ok=True)
    (root / document).write_text("# P-Z\n" + "".join(f"- `{name}` What is so.\n" for name in names))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with four clauses and two cases, all of them proved or excused."""
    (tmp_path / PATH).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / PATH).write_text(TESTS)
    named = ("P-A.1.1", "P-A.1.2", "P-B.1", "P-D.3.1", "P-L.2", "P-L.3")
    write_clauses(tmp_path, PRODUCER.document, *named)
    return tmp_path


def faults(root: Path, clauses: str, cases: str = '"P-L.2" = ["$::test_bare"]') -> list[str]:
    text = f'[clauses]\n{clauses}\n[cases]\n{cases}\n[out_of_scope]\n"P-L.3" = "of others"\n'
    return faults_of(root, text)


def faults_of(root: Path, text: str, held: check_clauses.Contract = PRODUCER) -> list[str]:
    (root / held.map).parent.mkdir(parents=True, exist_ok=True)
    (root / held.map).write_text(text.replace("$", PATH))
    return sorted(check_clauses.check(root, (held,)))


WHOLE = """
"P-A.1.1" = ["$::test_bare"]
"P-A.1.2" = ["$::test_with_a_comment[1]", "$::test_with_a_comment"]
"P-B.1" = ["$::TestGroup::test_inside"]
"P-D.3.1" = ["$::test_of_a_machine"]
"""


def test_a_whole_map_has_no_faults(root: Path) -> None:
    assert faults(root, WHOLE) == []


def test_a_clause_and_a_case_without_a_line_are_found(root: Path) -> None:
    assert faults(root, WHOLE.replace('"P-A.1.1"', '# "P-A.1.1"'), cases="") == [
        "tests/contract/clauses.toml: P-A.1.1 has neither a test nor a reason",
        "tests/contract/clauses.toml: P-L.2 has neither a test nor a reason",
    ]


def test_names_that_are_no_clause_or_case_are_found(root: Path) -> None:
    assert faults(
        root, WHOLE + '"P-A.9" = ["$::test_bare"]', cases='"P-L.2" = []\n"P-L.64" = []'
    ) == [
        "tests/contract/clauses.toml: P-A.9 is no clause or case in scope",
        f"tests/contract/clauses.toml: P-A.9: {PATH}::test_bare does not say that it proves it",
        "tests/contract/clauses.toml: P-L.2 names no test",
        "tests/contract/clauses.toml: P-L.64 is no clause or case in scope",
        "tests/contract/clauses.toml: P-L.64 names no test",
    ]


@pytest.mark.parametrize(
    ("test", "fault"),
    [
        ("tests/unit/test_none.py::test_bare", "tests/unit/test_none.py is no file of tests"),
        ("$::test_none", f"{PATH} has no test test_none"),
        ("$::test_inside", f"{PATH} has no test test_inside"),
        ("$::TestGroup::test_none", f"{PATH} has no test TestGroup::test_none"),
        ("$", f"{PATH} has no test "),
    ],
)
def test_a_test_that_does_not_exist_is_found(root: Path, test: str, fault: str) -> None:
    broken = WHOLE.replace('"P-A.1.1" = ["$::test_bare"]', f'"P-A.1.1" = ["{test}"]')
    assert faults(root, broken) == [f"tests/contract/clauses.toml: P-A.1.1: {fault}"]


def test_a_test_that_does_not_name_the_clause_is_found(root: Path) -> None:
    swapped = WHOLE.replace(
        '"P-A.1.1" = ["$::test_bare"]', '"P-A.1.1" = ["$::TestGroup::test_inside"]'
    )
    assert faults(root, swapped) == [
        f"tests/contract/clauses.toml: P-A.1.1: {PATH}::TestGroup::test_inside "
        "does not say that it proves it"
    ]


def test_a_reason_beside_tests_or_an_empty_one_is_found(root: Path) -> None:
    text = (
        f'[clauses]\n{WHOLE}[cases]\n"P-L.2" = ["$::test_bare"]\n'
        '[out_of_scope]\n"P-L.3" = " "\n"P-B.1" = "of transactions only"\n[more]\n'
    )
    assert faults_of(root, text) == [
        "tests/contract/clauses.toml: P-B.1 has tests and is out of scope",
        "tests/contract/clauses.toml: P-L.3 is out of scope without a reason",
        "tests/contract/clauses.toml: [more] is no table of it",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P-A.3.12, and P-E.8.", {"P-A.3.12", "P-E.8"}),
        ("see P-A.3.12 to P-A.3.14; xP-B.1, 1-P-A.2, P-A.1x", {"P-A.3.12", "P-A.3.14"}),
        ("P-L.2-4, P-L.7; P-B, and P-A.4's", {f"P-L.{n}" for n in (2, 3, 4, 7)} | {"P-B", "P-A.4"}),
        ("P-L.9-7 and P-A-3 are no ranges", {"P-L.9-7", "P-A-3"}),
        ("B-A3.12, and B-E1.", {"B-A3.12", "B-E1"}),
        ("broker A4.2; xB-B1.1, B-A1x, A.3.1, L 38, B-F2", {"B-F2"}),
        ("B-A10.50-52, B-A10.7", {"B-A10.50", "B-A10.51", "B-A10.52", "B-A10.7"}),
        ("(B-C4 to B-C6, B-D3)", {"B-C4", "B-C6", "B-D3"}),
        ("SelectorTest.testMute, B-B2; XTest", {"SelectorTest.testMute", "B-B2", "XTest"}),
        ("SelectorTest.registerFailure.", {"SelectorTest.registerFailure"}),
        ("B-D1 NOT_LEADER: no", {"B-D1", "B-D1 NOT_LEADER"}),
        (
            "B-D1 BAD_SIZE-odd,\n  NO_KEY and\nLATE; B-A1",
            {"B-D1", "B-D1 BAD_SIZE-odd", "B-D1 NO_KEY", "B-A1", "B-D1 LATE"},
        ),
        ("B-A9 accept-rate, B-A5.3", {"B-A9", "B-A9 accept-rate", "B-A5.3"}),
    ],
)
def test_what_counts_as_naming_something_of_a_contract(text: str, expected: set[str]) -> None:
    assert contract.mentions(text) == expected


BROKER_TESTS = '''"""The broker (B-A2.1, B-A10)."""


def test_rows() -> None:
    """B-D1 LATE,"""  # EARLY


class TestGroup:
    """B-A10.3-4, SelectorTest.testMute."""

    def test_inside(self) -> None:
        """Of clause B-B1 no word."""
'''


@pytest.fixture
def broker_root(root: Path) -> Path:
    (root / PATH).write_text(BROKER_TESTS)
    named = ("B-A2.1", "B-A10.4", "B-D1 LATE", "SelectorTest.testMute", "B-E2")
    write_clauses(root, BROKER.document, *named)
    return root


def test_the_brokers_contract_is_checked_likewise(broker_root: Path) -> None:
    whole = """
[clauses]
"B-A2.1" = ["$::test_rows", "$::TestGroup::test_inside"]
"B-D1 LATE" = ["$::test_rows"]
[cases]
"B-A10.4" = ["$::TestGroup"]
"SelectorTest.testMute" = ["$::TestGroup::test_inside"]
[out_of_scope]
"B-E2" = "of groups only"
"""
    assert faults_of(broker_root, whole, BROKER) == []
    assert faults_of(broker_root, whole.replace("test_inside", "test_none"), BROKER) == [
        f"tests/contract/broker_clauses.toml: B-A2.1: {PATH} has no test TestGroup::test_none",
        f"tests/contract/broker_clauses.toml: SelectorTest.testMute: {PATH} has no test "
        "TestGroup::test_none",
    ]
    assert faults_of(
        broker_root, whole.replace('"B-A10.4" = ["$::T', '"B-E2" = ["$::T'), BROKER
    ) == [
        "tests/contract/broker_clauses.toml: B-A10.4 has neither a test nor a reason",
        "tests/contract/broker_clauses.toml: B-E2 has tests and is out of scope",
        f"tests/contract/broker_clauses.toml: B-E2: {PATH}::TestGroup "
        "does not say that it proves it",
    ]


def test_a_row_of_one_text_does_not_go_on_in_the_next(broker_root: Path) -> None:
    write_clauses(broker_root, BROKER.document, "B-D1 EARLY")
    assert faults_of(broker_root, '[clauses]\n"B-D1 EARLY" = ["$::test_rows"]', BROKER) == [
        f"tests/contract/broker_clauses.toml: B-D1 EARLY: {PATH}::test_rows "
        "does not say that it proves it"
    ]


def test_what_is_listed_or_mapped_twice_is_found(broker_root: Path) -> None:
    write_clauses(broker_root, BROKER.document, "B-A2.1", "B-A2.1")
    text = '[clauses]\n"B-A2.1" = ["$::test_rows"]\n[cases]\n"B-A2.1" = ["$::test_rows"]'
    assert faults_of(broker_root, text, BROKER) == [
        "tests/contract/broker_clauses.toml: B-A2.1 is a clause and a case",
        "tests/contract/broker_clauses.toml: B-A2.1 is listed twice",
    ]


def test_the_brokers_list_has_every_assertion_of_socket_server_test() -> None:
    listed = [clause.id for clause in contract.clauses(checkout.ROOT / BROKER.document)]
    assert {f"B-A10.{number}" for number in range(1, 59)} <= set(listed)
    for kafkas, count in (("ConnectionQuotasTest", 20), ("SelectorTest", 20)):
        assert sum(each.startswith(f"{kafkas}.") for each in listed) == count


def test_the_producers_list_has_every_case() -> None:
    listed = {clause.id for clause in contract.clauses(checkout.ROOT / PRODUCER.document)}
    due = {f"P-L.{number}" for number in range(1, 191)}
    assert {name for name in listed if name.startswith("P-L.")} == due
