"""Our broker behind a network with delays, until SIGTERM.

`python -m bench.servers.distant_broker MS...`
It has a node for each number, whose answers come so many ms later. Records are discarded.
"""

from __future__ import annotations

import signal
import sys

from fastprod.broker import Broker
from fastprod.broker.listeners import BrokerListener
from support.chaos.conditions import Conditions
from support.chaos.proxy import ChaosProxy


def main(later_ms: list[int]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ChaosProxy(len(later_ms)) as network:
        ways_in = {"PLAINTEXT": BrokerListener(advertised_port=network.ports[0])}
        with Broker(brokers=len(later_ms), discard=True, listeners=ways_in) as broker:
            network.lead_to([node.port for node in broker.nodes])
            for number, ms in enumerate(later_ms):
                network.set(number, Conditions(latency_s=ms / 2000))
            print(f"listening on {network.bootstrap_servers.partition(',')[0]};", flush=True)
            signal.pause()


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]])
