"""What the log says of a connection that ended by a mistake."""

from __future__ import annotations

import pytest

from fastprod._core.io.server_selector import Disconnect
from fastprod.broker.network.client_failure import client_failure


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (Disconnect(1, "TLS", 71, 0, "reason=bad\nverified=\n"), "no TLS connection: bad"),
        (Disconnect(1, "FRAME_TOO_LARGE", 0, 1_195_725_856), "of 1,195,725,856 bytes"),
        (Disconnect(1, "OUTGROWN", 0, 0), "queued.max.request.bytes: raise it"),
    ],
)
def test_a_mistake_is_told_with_what_to_change(gone: Disconnect, said: str) -> None:
    assert said in (client_failure(gone) or "")


@pytest.mark.parametrize("reason", ["REMOTE", "EXPIRED", "LOCAL"])
def test_a_usual_end_is_no_mistake(reason: str) -> None:
    assert client_failure(Disconnect(1, reason, 0, 0)) is None
