"""SCRAM as a mechanism: proof, and proof of the other side."""

from __future__ import annotations

import pytest

from fastprod.client.sasl.mechanism import MechanismError
from fastprod.client.sasl.scram import ScramMechanism
from fastprod.security.scram import ScramServer, make_credentials


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_exchange_ends_with_the_servers_proof(name: str) -> None:
    """P-G.10.4"""
    mechanism = ScramMechanism(name, "ada", "pencil", "", {"tokenauth": "true"})
    server = ScramServer(name)
    assert server.read_first(mechanism.initial()) == "ada"
    proof = mechanism.next(server.first(make_credentials(name, "pencil")))
    assert proof is not None
    assert not mechanism.is_done
    assert mechanism.next(server.final(proof)) is None
    assert mechanism.is_done


def test_damaged_and_missing_things_are_told() -> None:
    with pytest.raises(MechanismError, match="needs a user name and a password"):
        ScramMechanism("SCRAM-SHA-256", "ada", "")
    with pytest.raises(MechanismError, match="extension"):
        ScramMechanism("SCRAM-SHA-256", "ada", "x", "", {"r": "x"})
    mechanism = ScramMechanism("SCRAM-SHA-256", "ada", "x")
    with pytest.raises(MechanismError, match="damaged"):
        mechanism.next(b"nonsense")
    assert not mechanism.is_done
