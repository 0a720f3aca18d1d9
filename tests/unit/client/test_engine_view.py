"""EngineView: the engine has all of it."""

from __future__ import annotations

from fastprod._core.engine.engine import Engine
from fastprod.client.engine_settings import engine_settings
from fastprod.client.engine_view import EngineView
from fastprod.config import ProducerConfig


def test_the_engine_offers_what_the_control_thread_asks_for() -> None:
    engine: EngineView = Engine(**engine_settings(ProducerConfig(bootstrap_servers="b0:9092")))
    names = [name for name in vars(EngineView) if not name.startswith("_")]
    assert "send_frame" in names
    assert [name for name in names if not hasattr(engine, name)] == []
    assert engine.next_event(0) is None
