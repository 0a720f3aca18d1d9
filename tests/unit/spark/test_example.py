"""fastprod.spark.example and examples/web_log.py are the same program."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "web_log.py"
# What makes a program of it that can be run.
OWN = {"session", "main"}


def definitions(path: Path) -> dict[str, str | None]:
    """The text of each constant and function, by its name."""
    text = path.read_text()
    found: dict[str, str | None] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = ast.get_source_segment(text, node)
        elif isinstance(node, ast.AnnAssign):
            found[ast.unparse(node.target)] = ast.get_source_segment(text, node)
    return found


def test_the_package_has_the_text_of_the_example() -> None:
    packaged = definitions(ROOT / "fastprod" / "spark" / "example.py")
    example = definitions(EXAMPLE)
    assert set(example) - set(packaged) == OWN
    assert packaged == {name: text for name, text in example.items() if name not in OWN}
    assert len(packaged) == 8


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_example_says_how_it_is_called() -> None:
    told = run("--help")
    assert told.returncode == 0, told.stderr
    for word in ("folder", "--bootstrap-servers", "--requests-topic", "--figures-topic"):
        assert word in told.stdout, word


def test_the_example_refuses_a_folder_without_logs(tmp_path: Path) -> None:
    told = run(str(tmp_path))
    assert told.returncode == 2
    assert f"there is no folder {tmp_path / 'logs'}" in told.stderr
