"""ci/check_contract.py finds ids that nothing explains, and explanations that nobody needs."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_contract
import checkout
import contract

PRODUCER = """# P-A The API

## P-A.3 send
- `P-A.3.1` First this.
- `P-A.3.2` Then that. (unnamed: nobody has seen it)
- `P-L.7` A case.
- `P-L.8` Another.
"""
BROKER = """## B-A3 Processor
- `B-A3.1` It turns.
- `B-D1` It looks.
- `B-D1 TOO_LARGE` It refuses.
- `SelectorTest.testMute` It does not read.
"""
SOURCE = """# P-A.3.1 of P-A and P-A.3; P-L.7-8; B-A3.1, SelectorTest.testMute
# and B-D1 TOO_LARGE, which is read
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout in which all is named and explained."""
    (tmp_path / "docs" / "contract").mkdir(parents=True)
    (tmp_path / contract.PRODUCER).write_text(PRODUCER)
    (tmp_path / contract.BROKER).write_text(BROKER)
    (tmp_path / "source.pyx").write_text(SOURCE)
    return tmp_path


def test_what_is_named_and_explained_has_no_faults(root: Path) -> None:
    assert check_contract.check(root) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("P-A.3.9", "P-A.3.9 is not explained in docs/contract"),
        ("P-L.7-9", "P-L.9 is not explained in docs/contract"),
        ("P-L.8-7", "P-L.8-7 is not explained in docs/contract"),
        ("B-A.3.1", "B-A.3.1 is not explained in docs/contract"),
        ("B-D1 NOT_THERE", "B-D1 NOT_THERE is not explained in docs/contract"),
        ("see A.3.1", "A.3.1 is to be written P-A.3.1"),
        ("(contract A)", "contract A is to be written P-A"),
        ("contract A3.", "contract A3 is to be written B-A3"),
        ("A3.1", "A3.1 is to be written B-A3.1"),
        ("L 7", "L 7 is to be written P-L.7"),
    ],
)
def test_an_id_that_leads_nowhere_is_found(root: Path, text: str, fault: str) -> None:
    (root / "tests.toml").write_text(f"# nothing\nnote = {text}\n")
    assert check_contract.check(root) == [f"tests.toml:2: {fault}"]


def test_what_only_looks_like_an_id_is_let_be(root: Path) -> None:
    text = "A3 = Node(1)  # A.7.1, v1.A.3.1, P-A.3.1's, contract of A; Appendix: appendix A.3.1"
    (root / "node.py").write_text(text + "\n")
    assert check_contract.check(root) == []


def test_lines_that_nobody_names_are_found(root: Path) -> None:
    (root / "source.pyx").write_text(SOURCE.replace("P-L.7-8", "P-L.7").replace("Mute", "None"))
    assert check_contract.check(root) == [
        "docs/contract: nobody names P-L.8",
        "docs/contract: nobody names SelectorTest.testMute",
    ]


def test_a_reason_has_to_be_one_and_to_be_true(root: Path) -> None:
    (root / "more.py").write_text("# P-A.3.2\n")
    (root / contract.BROKER).write_text(BROKER + "- `B-A3.1` Again.\n- `B-A3.2` x (unnamed: )\n")
    assert check_contract.check(root) == [
        "docs/contract: P-A.3.2 is named after all",
        "docs/contract: B-A3.1 is explained twice",
        "docs/contract: B-A3.2 is unnamed without a reason",
    ]


@pytest.mark.slow
def test_this_checkout_has_none() -> None:
    assert check_contract.check(checkout.ROOT) == []
