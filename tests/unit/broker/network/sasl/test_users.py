"""Users: who may log in, by which mechanism."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import pytest

from fastprod.broker.network.sasl.users import Users
from fastprod.errors import ConfigError
from fastprod.security.scram import make_credentials

BOTH = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}


def test_a_user_has_a_password_and_what_scram_makes_of_it() -> None:
    users = Users({"ada": "lovelace"})
    assert users.password("ada") == "lovelace"
    made = users.scram("ada", "SCRAM-SHA-512")
    assert made is not None
    assert made == make_credentials("SCRAM-SHA-512", "lovelace", salt=made.salt)
    assert users.scram("ada", "SCRAM-SHA-512") is made
    assert users.scram_iterations() == {"ada": BOTH}
    assert users.login("ada") == ("lovelace", ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))


def test_a_name_or_password_that_is_more_than_text_is_the_text_that_it_holds() -> None:
    """Principals are made of names, as "User:ada"."""

    class People(str, enum.Enum):  # noqa: UP042
        ADA = "ada"

    users = Users({People.ADA: People.ADA})
    assert [type(name) for name in users.names()] == [str]
    assert type(users.password("ada")) is str


def test_a_user_has_the_mechanisms_that_it_was_given() -> None:
    users = Users()
    users.put("ada", "x", ["SCRAM-SHA-256"])
    assert users.password("ada") is None
    assert users.scram("ada", "SCRAM-SHA-512") is None
    users.put("ada", "x", "PLAIN")
    assert users.password("ada") == "x"
    assert users.scram("ada", "SCRAM-SHA-256") is None


def test_a_new_password_ends_all_earlier_credentials() -> None:
    users = Users({"ada": "old"})
    old = users.scram("ada", "SCRAM-SHA-256")
    users.put_scram("ada", "SCRAM-SHA-512", make_credentials("SCRAM-SHA-512", "third"))
    users.put("ada", "new")
    assert users.password("ada") == "new"
    for mechanism in BOTH:
        found = users.scram("ada", mechanism)
        assert found is not None
        assert found == make_credentials(mechanism, "new", salt=found.salt)
        assert found != old


def test_a_credential_takes_the_place_of_the_passwords() -> None:
    """AlterUserScramCredentials: the other mechanisms keep the password."""
    users = Users({"ada": "lovelace"})
    own = make_credentials("SCRAM-SHA-256", "other", iterations=8192)
    users.put_scram("ada", "SCRAM-SHA-256", own)
    assert users.scram("ada", "SCRAM-SHA-256") is own
    assert users.scram_iterations() == {"ada": BOTH | {"SCRAM-SHA-256": 8192}}
    assert users.password("ada") == "lovelace"
    assert users.remove_scram("ada", "SCRAM-SHA-256")
    assert not users.remove_scram("ada", "SCRAM-SHA-256")
    assert users.scram("ada", "SCRAM-SHA-256") is None


def test_who_is_removed_is_gone_with_all_credentials() -> None:
    users = Users({"ada": "lovelace"})
    users.put_scram("bob", "SCRAM-SHA-256", make_credentials("SCRAM-SHA-256", "b"))
    assert users.names() == ["ada", "bob"]
    assert users.remove("ada")
    assert users.remove("bob")
    assert not users.remove("bob")
    assert users.names() == []
    assert users.scram_iterations() == {}
    assert users.login("ada") is None


def test_the_last_mechanism_takes_the_user_along() -> None:
    users = Users()
    users.put("ada", "x", ["SCRAM-SHA-256"])
    assert users.remove_scram("ada", "SCRAM-SHA-256")
    assert users.names() == []


@pytest.mark.parametrize(
    ("name", "password", "mechanisms"),
    [
        ("", "x", ["PLAIN"]),
        ("a", "", ["PLAIN"]),
        ("a\0b", "x", ["PLAIN"]),
        ("a", 1, ["PLAIN"]),
        ("a", "x", []),
        ("a", "x", ["OAUTHBEARER"]),
    ],
)
def test_a_user_that_cannot_be_is_refused(
    name: str, password: Any, mechanisms: Sequence[str]
) -> None:
    with pytest.raises(ConfigError):
        Users().put(name, password, mechanisms)


def test_nothing_shows_a_password() -> None:
    users = Users({"ada": "lovelace"})
    assert "lovelace" not in repr(vars(users))
