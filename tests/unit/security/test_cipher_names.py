"""fastprod.security.cipher_names: Java's names become OpenSSL's, which OpenSSL knows."""

from __future__ import annotations

import ssl

import pytest

from fastprod.errors import ConfigError
from fastprod.security.cipher_names import cipher_lists
from fastprod.security.secret import Secret

BOTH = ("TLSv1.2", "TLSv1.3")
PAIRS = [
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("SSL_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256"),
]


@pytest.mark.parametrize(("java", "openssl"), PAIRS)
def test_a_name_of_javas_is_one_that_openssl_knows(java: str, openssl: str) -> None:
    assert cipher_lists("k", [java]) == (openssl, None, ("TLSv1.2",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{openssl}:@SECLEVEL=0")
    assert openssl in [each["name"] for each in context.get_ciphers()]


def test_suites_of_one_version_shut_the_other_out_as_in_java() -> None:
    new, old = "TLS_AES_128_GCM_SHA256", PAIRS[0][0]
    assert cipher_lists("k", [new]) == (None, new, ("TLSv1.3",))
    assert cipher_lists("k", [old, new]) == (PAIRS[0][1], new, BOTH)
    assert cipher_lists("k", []) == (None, None, BOTH)
    assert cipher_lists("k", ["TLS_EMPTY_RENEGOTIATION_INFO_SCSV"]) == (None, None, BOTH)


def test_words_of_openssls_leave_the_other_version_as_it_is() -> None:
    assert cipher_lists("k", ["HIGH:!aNULL:ECDHE+AESGCM"]) == (
        "HIGH:!aNULL:ECDHE+AESGCM",
        None,
        BOTH,
    )


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="k: 'a/b' is no name of a cipher suite"):
        cipher_lists("k", ["a/b"])


def test_what_stands_elsewhere_is_not_shown() -> None:
    with pytest.raises(ConfigError) as told:
        cipher_lists("k", ["HIGH", Secret("hush/hush")])
    assert str(told.value) == "k: [hidden] is no name of a cipher suite"
    ciphers, suites, _ = cipher_lists("k", [Secret("HIGH:TLS_AES_128_GCM_SHA256")])
    assert (repr(ciphers), repr(suites)) == ("'[hidden]'", "'[hidden]'")
    assert (ciphers, suites) == ("HIGH", "TLS_AES_128_GCM_SHA256")
