"""DynamicSettings (B-D4.9); what clients see of it is in apis/test_alter_configs."""

from __future__ import annotations

import socket

import pytest

from fastprod.broker.config import BrokerConfig
from fastprod.broker.network import connection_quotas
from fastprod.broker.network.connection_quotas import ConnectionQuotas
from fastprod.broker.server import dynamic_settings
from fastprod.broker.server.dynamic_settings import DynamicSettings, can_change, is_number
from fastprod.broker.threads.clock import FakeClock
from fastprod.errors import ConfigError

COUNT = "max.connections"
OVERRIDES = "max.connections.per.ip.overrides"


def test_settings_have_kafkas_names() -> None:
    assert can_change(COUNT)
    assert can_change("listener.name.sasl_ssl.max.connection.creation.rate")
    assert not can_change("max_connections")
    assert not can_change("listener.name.ssl")
    assert is_number(COUNT)
    assert not is_number(OVERRIDES)
    assert not is_number("num.partitions")


def test_new_quotas_take_the_place_of_a_nodes_old_ones() -> None:
    settings = DynamicSettings(BrokerConfig(), [0])
    old, new = ConnectionQuotas(FakeClock()), ConnectionQuotas(FakeClock())
    settings.attach(0, old)
    settings.alter(0, {COUNT: "5"})
    settings.attach(0, new)
    settings.alter(0, {COUNT: "6"})
    assert (old._max_connections, new._max_connections) == (5, 6)


def test_overrides_may_have_blanks_and_are_read_once_however_many_nodes_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No address is asked for again either: that would hold up the thread of the network."""
    settings, texts = DynamicSettings(BrokerConfig(), range(100)), []

    def parse_overrides(text: str) -> dict[str, int]:
        texts.append(text)
        return connection_quotas.parse_overrides(text)

    quotas = [ConnectionQuotas(FakeClock()) for _ in range(100)]
    for node_id, each in enumerate(quotas):
        settings.attach(node_id, each)
    monkeypatch.setattr(dynamic_settings, "parse_overrides", parse_overrides)
    monkeypatch.setattr(socket, "getaddrinfo", None)
    settings.alter(None, {OVERRIDES: "127.0.0.1 : 5, [::1]: 6 ,::2:7"})
    for each in quotas:
        assert each._max_per_ip_overrides == {"127.0.0.1": 5, "::1": 6, "::2": 7}
    assert len(texts) == 1


def test_a_number_may_stand_between_blanks_and_control_characters() -> None:
    """As Java's trim takes them away, which is more than int() does."""
    settings = DynamicSettings(BrokerConfig(), [0])
    quotas = ConnectionQuotas(FakeClock())
    settings.attach(0, quotas)
    settings.alter(0, {COUNT: "\x1c 5\x1f"})
    assert quotas._max_connections == 5


def test_what_holds_for_all_has_to_fit_each_node() -> None:
    """0 for each address needs overrides, which only one of two nodes has."""
    settings = DynamicSettings(BrokerConfig(), [0, 1])
    settings.alter(1, {OVERRIDES: "127.0.0.1:1"})
    with pytest.raises(ConfigError, match="nobody could connect"):
        settings.alter(None, {"max.connections.per.ip": "0"})
    settings.alter(1, {"max.connections.per.ip": "0"})
    assert settings.changed(None) == {}
