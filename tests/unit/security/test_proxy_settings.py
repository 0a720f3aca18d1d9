"""fastprod.security.proxy_settings: URLs of proxies."""

from __future__ import annotations

import pickle

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.security.proxy_settings import ProxySettings
from fastprod.security.secret import Secret


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("socks5://h:1080", ProxySettings("socks5", "h", 1080)),
        ("socks5h://h:1080/", ProxySettings("socks5", "h", 1080, resolves_names=True)),
        ("http://h:3128", ProxySettings("http", "h", 3128, resolves_names=True)),
        ("socks5://[::1]:1", ProxySettings("socks5", "::1", 1)),
        ("SOCKS5://u:p%40%3A%2f@h:1", ProxySettings("socks5", "h", 1, "u", Secret("p@:/"))),
        ("socks5://u@h:1", ProxySettings("socks5", "h", 1, "u")),
        ("http://:hunter2@h:1", ProxySettings("http", "h", 1, "", Secret("hunter2"), True)),
    ],
)
def test_a_url_says_protocol_address_and_who_asks(url: str, expected: ProxySettings) -> None:
    config = ProducerConfig(bootstrap_servers="h:1", proxy_url=url)
    assert config.proxy == expected
    assert pickle.loads(pickle.dumps(config)).proxy == expected
    if expected.password is not None:
        assert expected.password not in repr(config) + repr(config.proxy) + repr(config.values())


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("h:1080", "must be socks5://"),
        ("ftp://h:1080", "must be socks5://"),
        ("https://u:hunter2@h:1080", "TLS to the proxy itself"),
        ("socks5://h", "names no host and port"),
        ("socks5://:1080", "names no host and port"),
        ("socks5://u:hunter2@h:port", "names no host and port"),
        ("socks5://u:hunter2@h:70000", "names no host and port"),
        ("socks5://u:hunter2@[h:1", "must be socks5://"),
        ("socks5://u:hunter2@h:1/x", "something behind the port"),
        ("socks5://u:hunter2@h:1?x=1", "something behind the port"),
        ("socks5://" + "u" * 256 + "@h:1", "may have 255 bytes each"),
        ("http://a%3Ab:hunter2@h:1", "a user with ':'"),
        ("socks5h://:hunter2@h:1", "has a password without a user"),
    ],
)
def test_a_malformed_url_is_refused_without_showing_it(url: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig(bootstrap_servers="h:1", proxy_url=url)
    assert why in str(caught.value)
    assert str(caught.value).startswith("proxy_url: ")
    assert "hunter2" not in str(caught.value) + repr(caught.value.__context__)
