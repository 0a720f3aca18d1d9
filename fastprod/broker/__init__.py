"""An embedded Kafka broker for tests, development and the demo, without a JVM.

>>> from fastprod.broker import Broker
>>> with Broker(topics={"orders": 3}) as broker:
...     print(broker.bootstrap_servers)  # doctest: +SKIP
127.0.0.1:40123
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastprod.broker.broker import Broker as Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    # Every module of the package passes through here: it must not load the whole of it.
    if name == "Broker":
        from fastprod.broker.broker import Broker  # noqa: PLC0415

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
