"""What the options of `fastprod broker` about security make of themselves."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fastprod import ProducerConfig
from fastprod.broker import Broker
from fastprod.broker.listeners import BrokerListener
from fastprod.cli.options.broker_security import BrokerSecurityOptions
from fastprod.cli.options.properties import read_properties


def options(**given: object) -> BrokerSecurityOptions:
    nothing: dict[str, object] = {
        "tls": False,
        "certificate": None,
        "key": None,
        "users": (),
        "mechanisms": (),
        "listeners": (),
        "folder": None,
    }
    return BrokerSecurityOptions(**nothing | given)  # type: ignore[arg-type]


def test_without_options_nothing_is_secured() -> None:
    assert options().arguments() == {"tls": False}


def test_a_certificate_is_tls_and_none_is_made() -> None:
    found = options(tls=True, certificate=Path("c"), key=Path("k")).arguments()
    assert found == {"tls": False, "ssl_certfile": Path("c"), "ssl_keyfile": Path("k")}


def test_a_listener_with_tls_has_a_certificate_made() -> None:
    found = options(listeners=["A=sasl_ssl:9094"]).arguments()
    assert found["tls"]
    assert found["listeners"] == {"A": BrokerListener("SASL_SSL", 9094)}


def test_passwords_are_made_and_not_shown() -> None:
    made = options(users=["ada", "bob:secret"], mechanisms=["PLAIN"])
    users = made.arguments()["sasl_users"]
    assert users["bob"] == "secret"
    assert len(users["ada"]) == 24
    assert users["ada"] != made.arguments()["sasl_users"]["ada"]
    assert "secret" not in repr(made)


def test_a_listener_is_given_once() -> None:
    with pytest.raises(click.UsageError, match="--listener A is given twice"):
        options(listeners=["A=PLAINTEXT:0", "A=SSL:0"]).arguments()


@pytest.mark.parametrize(
    "password", ["p\u00e4ss", "a\nb", "\\n", " =:#!", "\U0001d54f\r", "q\"'", "\\u00e4"]
)
def test_any_password_comes_out_of_its_file(tmp_path: Path, password: str) -> None:
    given = options(users=[f"ada:{password}"], folder=tmp_path)
    with Broker(**given.arguments()) as broker, given.files(broker):
        found = ProducerConfig(read_properties(tmp_path / "ada.properties"))
    assert found.sasl is not None
    assert found.sasl.password is not None
    assert found.sasl.password.reveal() == password


def test_files_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    theirs = tmp_path / "ada.properties"
    theirs.write_text("theirs")
    given = options(users=["ada"], folder=tmp_path)
    with Broker(**given.arguments()) as broker:
        told = pytest.raises(click.UsageError, match=r"ada\.properties is there already")
        with told, given.files(broker):
            pass
        assert theirs.read_text() == "theirs"
        theirs.unlink()
        with given.files(broker) as line:
            assert str(theirs) in line
            assert theirs.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
