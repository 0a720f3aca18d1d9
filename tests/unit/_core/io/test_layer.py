"""What lies between a channel and its socket: made in Python, kept by connections."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from fastprod._core.engine.engine import Engine
from fastprod._core.io.layer import Layer
from fastprod._core.io.proxy_transport import ProxyKind, ProxyPlan
from fastprod._core.tls.tls_context import TlsContext
from fastprod.client.engine_settings import engine_settings
from fastprod.config import ProducerConfig
from support.oracle.loopback import Loopback

PLAN = bytes([ProxyKind.PROXY_HTTP, 0, 5]) + b"hello"


def engine() -> Engine:
    config = ProducerConfig(bootstrap_servers="b0:9092")
    return Engine(**{**engine_settings(config), "seed": 1})


def test_tls_and_the_way_through_a_proxy_are_layers() -> None:
    assert isinstance(TlsContext(), Layer)
    assert isinstance(ProxyPlan(PLAN), Layer)
    assert ProxyPlan(PLAN).data == PLAN


@pytest.mark.parametrize("which", ["tls", "proxy"])
def test_what_is_no_layer_of_either_kind_is_refused(which: str) -> None:
    class Nothing(Layer):
        pass

    for made in (Layer(), Nothing()):
        given: dict[str, Any] = {which: made}
        with pytest.raises(TypeError, match="is no layer"):
            engine().connect(0, 1, b"", **given)


def test_a_layer_may_go_before_what_is_made_by_it() -> None:
    made = engine()
    made.connect(0, 1, b"", tls=TlsContext(), server_name="b.test", proxy=ProxyPlan(PLAN))
    gc.collect()
    del made
    gc.collect()
    with Loopback(force_poll=False) as loopback:
        channel = loopback.selector.connect(loopback.address, proxy=PLAN)
        proxy = loopback.accept()
        gc.collect()
        loopback.poll(timeout_ms=100)
        assert proxy.recv(100) == b"hello"
        loopback.selector.close_channel(channel)
