"""fastprod.security.secret: texts that are shown nowhere."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.security.secret import Secret, concealed, is_secret_name

LONG = st.text(st.characters(min_codepoint=33, max_codepoint=0xFFFF))


@given(LONG)
def test_a_secret_is_shown_nowhere_and_pickles(text: str) -> None:
    """P-B.8."""
    text = "hunter2~" + text  # no word that a pickle has anyway
    secret = Secret(text)
    for shown in (
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>9}",
        f"{secret}",
        repr([secret]),
    ):
        assert text not in shown.replace("[hidden]", "")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(secret, protocol)
        assert text.encode("utf-8", "surrogatepass") not in data
        again = pickle.loads(data)
        assert (type(again), again.reveal()) == (Secret, text)


def test_a_secret_works_as_the_text_it_is() -> None:
    secret = Secret("hunter2")
    assert secret == "hunter2"
    assert secret.encode() == b"hunter2"
    assert "\0".join(["", "u", secret]) == "\0u\0hunter2"
    assert type(secret.reveal()) is str
    assert Secret(secret).reveal() == "hunter2"
    assert type(copy.deepcopy(secret)) is Secret


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl_key_pem", "sasl.jaas.config", "ssl.keystore.key", "proxy_url"],
)
def test_a_name_says_that_its_value_is_secret(name: str) -> None:
    assert is_secret_name(name)
    assert type(concealed(name.upper(), "x")) is Secret
    assert type(concealed("linger.ms", "x")) is str
