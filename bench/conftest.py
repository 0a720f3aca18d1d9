"""Set-up of the benchmarks that pytest runs: what is imported from where, and how much is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

ROOT = Path(__file__).parent.parent
# As bench/run has it; the clients, which are processes, find the modules there, too.
_PATHS = [str(ROOT), str(ROOT / "ci"), str(ROOT / "tests")]
sys.path[:0] = _PATHS

if TYPE_CHECKING:
    from bench.replay import Measured

_QUICK = (3, 4)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --quick."""
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"points of bench/run with {_QUICK[0]} rounds and 1/{_QUICK[1]} of the records",
    )


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Measures points, each once; its tables are printed as they are made."""
    from bench.replay import Measured  # noqa: PLC0415

    found = os.environ.get("PYTHONPATH", "")
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*_PATHS, *filter(None, [found])]))
        made = Measured(_QUICK if request.config.getoption("--quick") else None, say)
        yield made
        made.close()
