"""Every test of this folder is under the leak guard; sessions that are renewed long before their
end."""

from __future__ import annotations

import pytest

from fastprod.client.sasl import authentications
from support.processes.leak_guard import nothing_is_left

__all__ = ["nothing_is_left"]


@pytest.fixture
def early_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a tenth of a session the next one is prepared: the rest of it is for busy machines."""
    monkeypatch.setattr(authentications, "_EARLIEST", 0.1)
    monkeypatch.setattr(authentications, "_LATEST", 0.12)
