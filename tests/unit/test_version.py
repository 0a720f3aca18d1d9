"""fastprod.version against pyproject.toml, and as a version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from fastprod.version import VERSION

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_the_version_is_the_one_that_is_packaged() -> None:
    assert tomllib.loads(PYPROJECT.read_text())["project"]["version"] == VERSION


def test_the_version_is_one_that_brokers_take_in_api_versions() -> None:
    """KIP-511: the broker refuses a ClientSoftwareVersion that does not match its pattern
    (P-G.5).
    """
    assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?", VERSION)
