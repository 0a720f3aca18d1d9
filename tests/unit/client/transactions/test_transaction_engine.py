"""TransactionEngine: the engine has all of it."""

from __future__ import annotations

from fastprod._core.engine.engine import Engine
from fastprod.client.engine_settings import engine_settings
from fastprod.client.transactions.end_result import EndEngine
from fastprod.client.transactions.transaction_engine import TransactionEngine
from fastprod.config import ProducerConfig


def test_the_engine_offers_what_a_transaction_asks_for() -> None:
    engine: TransactionEngine = Engine(
        **engine_settings(ProducerConfig(bootstrap_servers="b0:9092", transactional_id="ledger"))
    )
    members = [*vars(EndEngine), *vars(TransactionEngine)]
    names = [name for name in members if not name.startswith("_")]
    assert {"await_end", "end_transaction"} <= set(names)
    assert [name for name in names if not hasattr(engine, name)] == []
