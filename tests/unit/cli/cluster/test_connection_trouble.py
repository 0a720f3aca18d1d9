"""fastprod.cli.cluster.connection_trouble"""

from __future__ import annotations

from fastprod.cli.cluster.connection_trouble import ConnectionTrouble


def test_a_trouble_has_a_cause_and_a_sentence() -> None:
    found = ConnectionTrouble("dns", "DNS does not know it")
    assert (found.cause, str(found)) == ("dns", "DNS does not know it")
