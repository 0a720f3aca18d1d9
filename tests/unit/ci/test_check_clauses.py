"""ci/check_clauses.py finds clauses without proof, and tests that do not say what they prove."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import check_clauses
import checkout

TESTS = '''"""B.1."""

import pytest


def test_bare() -> None:
    """A.1.1, and L 2."""


@pytest.mark.parametrize("number", [1, 2])
def test_with_a_comment(number: int) -> None:
    assert number  # A.1.2


class TestGroup:
    """C.4."""

    def test_inside(self) -> None:
        """Not A.1.12."""


# D.3.1
test_of_a_machine = TestGroup
'''
PATH = "tests/unit/test_it.py"
PRODUCER = dataclasses.replace(check_clauses.PRODUCER, cases=frozenset({"2", "3"}))
BROKER = check_clauses.BROKER


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with four clauses and two cases, all of them proved or excused."""
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "vectors").mkdir()
    (tmp_path / PATH).write_text(TESTS)
    (tmp_path / PRODUCER.ids).write_text("A.1.1\nA.1.2\nB.1\nD.3.1\n")
    return tmp_path


def faults(root: Path, clauses: str, cases: str = '"2" = ["$::test_bare"]') -> list[str]:
    text = (
        f'[clauses]\n{clauses}\n[cases]\n{cases}\n[out_of_scope]\n"L 3" = "of transactions only"\n'
    )
    return faults_of(root, text)


def faults_of(root: Path, text: str, contract: check_clauses.Contract = PRODUCER) -> list[str]:
    (root / contract.map).write_text(text.replace("$", PATH))
    return sorted(check_clauses.check(root, (contract,)))


WHOLE = """
"A.1.1" = ["$::test_bare"]
"A.1.2" = ["$::test_with_a_comment[1]", "$::test_with_a_comment"]
"B.1" = ["$::TestGroup::test_inside"]
"D.3.1" = ["$::test_of_a_machine"]
"""


def test_a_whole_map_has_no_faults(root: Path) -> None:
    assert faults(root, WHOLE) == []


def test_a_clause_and_a_case_without_a_line_are_found(root: Path) -> None:
    assert faults(root, WHOLE.replace('"A.1.1"', '# "A.1.1"'), cases="") == [
        "tests/clauses.toml: A.1.1 has neither a test nor a reason",
        "tests/clauses.toml: L 2 has neither a test nor a reason",
    ]


def test_names_that_are_no_clause_or_case_are_found(root: Path) -> None:
    assert faults(root, WHOLE + '"A.9" = ["$::test_bare"]', cases='"2" = []\n"64" = []') == [
        "tests/clauses.toml: A.9 is no clause or case in scope",
        f"tests/clauses.toml: A.9: {PATH}::test_bare does not say that it proves it",
        "tests/clauses.toml: L 2 names no test",
        "tests/clauses.toml: L 64 is no clause or case in scope",
        "tests/clauses.toml: L 64 names no test",
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
    broken = WHOLE.replace('"A.1.1" = ["$::test_bare"]', f'"A.1.1" = ["{test}"]')
    assert faults(root, broken) == [f"tests/clauses.toml: A.1.1: {fault}"]


def test_a_test_that_does_not_name_the_clause_is_found(root: Path) -> None:
    swapped = WHOLE.replace('"A.1.1" = ["$::test_bare"]', '"A.1.1" = ["$::TestGroup::test_inside"]')
    assert faults(root, swapped) == [
        f"tests/clauses.toml: A.1.1: {PATH}::TestGroup::test_inside does not say that it proves it"
    ]


def test_a_reason_beside_tests_or_an_empty_one_is_found(root: Path) -> None:
    text = (
        f'[clauses]\n{WHOLE}[cases]\n"2" = ["$::test_bare"]\n'
        '[out_of_scope]\n"L 3" = " "\n"B.1" = "of transactions only"\n[more]\n'
    )
    assert faults_of(root, text) == [
        "tests/clauses.toml: B.1 has tests and is out of scope",
        "tests/clauses.toml: L 3 is out of scope without a reason",
        "tests/clauses.toml: [more] is no table of it",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A.3.12, and E.8.", {"A.3.12", "E.8"}),
        ("see A.3.12-A.3.14; xB.1, 1.A.2, A.1x", {"A.3.12", "A.3.14"}),
        ("L 38", {"L 38"}),
        ("L.179, L 2-4, 7 and 9; XL 5", {"L 179", "L 2", "L 3", "L 4", "L 7", "L 9"}),
        ("Numbers 1, 3 to 5, 8\nand 9 of contract list L", {f"L {n}" for n in (1, 3, 4, 5, 8, 9)}),
        ("number 187 of list L; number 3 of them", {"L 187"}),
    ],
)
def test_what_counts_as_naming_a_clause_or_case(text: str, expected: set[str]) -> None:
    assert check_clauses.producer_mentions(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A3.12, and E1.", {"A3.12", "E1"}),
        ("broker A4.2; xB1.1, 1.A2.1, A1x, A.3.1, L 38, F2", {"A4.2"}),
        ("A10.50-52, A10.7", {"A10.50", "A10.51", "A10.52", "A10.7"}),
        ("(C4 to C6, D3)", {"C4", "C6", "D3"}),
        ("SelectorTest.testMute, B2; XTest", {"SelectorTest.testMute", "B2", "XTest"}),
        ("SelectorTest.registerFailure.", {"SelectorTest.registerFailure"}),
        ("D1 NOT_LEADER: no", {"D1", "D1 NOT_LEADER"}),
        (
            "D1 BAD_SIZE-odd,\n  NO_KEY and\nLATE; A1",
            {"D1", "D1 BAD_SIZE-odd", "D1 NO_KEY", "A1"} | {"D1 LATE"},
        ),
        ("A9 accept-rate, A5.3", {"A9", "A9 accept-rate", "A5.3"}),
    ],
)
def test_what_counts_as_naming_something_of_the_broker_contract(
    text: str, expected: set[str]
) -> None:
    assert check_clauses.broker_mentions(text) == expected


BROKER_TESTS = '''"""The broker (A2.1, A10)."""


def test_rows() -> None:
    """D1 LATE,"""  # EARLY


class TestGroup:
    """A10.3-4, SelectorTest.testMute."""

    def test_inside(self) -> None:
        """Of clause B.1 no word."""
'''


@pytest.fixture
def broker_root(root: Path) -> Path:
    (root / PATH).write_text(BROKER_TESTS)
    (root / BROKER.ids).write_text("A2.1\nA10.4\nD1 LATE\nSelectorTest.testMute\nE2\n")
    return root


def test_the_brokers_contract_is_checked_likewise(broker_root: Path) -> None:
    whole = """
[clauses]
"A2.1" = ["$::test_rows", "$::TestGroup::test_inside"]
"D1 LATE" = ["$::test_rows"]
[cases]
"A10.4" = ["$::TestGroup"]
"SelectorTest.testMute" = ["$::TestGroup::test_inside"]
[out_of_scope]
"E2" = "of groups only"
"""
    assert faults_of(broker_root, whole, BROKER) == []
    assert faults_of(broker_root, whole.replace("test_inside", "test_none"), BROKER) == [
        f"tests/broker_clauses.toml: A2.1: {PATH} has no test TestGroup::test_none",
        f"tests/broker_clauses.toml: SelectorTest.testMute: {PATH} has no test "
        "TestGroup::test_none",
    ]
    assert faults_of(broker_root, whole.replace('"A10.4" = ["$::T', '"E2" = ["$::T'), BROKER) == [
        "tests/broker_clauses.toml: A10.4 has neither a test nor a reason",
        "tests/broker_clauses.toml: E2 has tests and is out of scope",
        f"tests/broker_clauses.toml: E2: {PATH}::TestGroup does not say that it proves it",
    ]


def test_a_row_of_one_text_does_not_go_on_in_the_next(broker_root: Path) -> None:
    (broker_root / BROKER.ids).write_text("D1 EARLY\n")
    assert faults_of(broker_root, '[clauses]\n"D1 EARLY" = ["$::test_rows"]', BROKER) == [
        f"tests/broker_clauses.toml: D1 EARLY: {PATH}::test_rows does not say that it proves it"
    ]


def test_what_is_listed_or_mapped_twice_is_found(broker_root: Path) -> None:
    (broker_root / BROKER.ids).write_text("A2.1\nA2.1\n")
    text = '[clauses]\n"A2.1" = ["$::test_rows"]\n[cases]\n"A2.1" = ["$::test_rows"]'
    assert faults_of(broker_root, text, BROKER) == [
        "tests/broker_clauses.toml: A2.1 is a clause and a case",
        "tests/broker_clauses.toml: A2.1 is listed twice",
    ]


def test_the_brokers_list_has_every_assertion_of_socket_server_test() -> None:
    listed = (checkout.ROOT / BROKER.ids).read_text().splitlines()
    assert {f"A10.{number}" for number in range(1, 59)} <= set(listed)
    for kafkas, count in (("ConnectionQuotasTest", 20), ("SelectorTest", 20)):
        assert sum(each.startswith(f"{kafkas}.") for each in listed) == count


def test_the_cases_are_those_of_the_contract_without_what_is_left_out() -> None:
    assert len(check_clauses.CASES) == 190 - 36
    assert {"1", "63", "65", "130", "164", "179", "182", "190"} <= check_clauses.CASES
    assert not {"0", "64", "131", "163", "180", "181", "191"} & check_clauses.CASES
