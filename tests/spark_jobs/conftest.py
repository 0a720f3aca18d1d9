"""Jobs that are processes of their own: each starts its JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

JOB_S = 600
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder the time that a JVM takes to start."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(JOB_S))
