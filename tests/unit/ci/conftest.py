"""Children that run pytest on small projects start without plug-ins, which take a second each."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_plugins_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
