"""IpQuotas (B-D4.10); what clients see of them is in apis/test_client_quotas."""

from __future__ import annotations

from fastprod.broker.network.connection_quotas import ConnectionQuotas
from fastprod.broker.network.rate_quota import UNLIMITED
from fastprod.broker.server.ip_quotas import IpQuotas
from fastprod.broker.threads.clock import FakeClock


def test_an_address_without_a_rate_has_the_default_again() -> None:
    quotas = ConnectionQuotas(FakeClock())
    rates = IpQuotas()
    rates.attach(0, quotas)
    told = []
    for address, rate in ((None, 5.0), ("::ffff:10.0.0.1", 6.0), ("10.0.0.1", None), (None, None)):
        rates.alter(address, rate)
        told.append(quotas._ip_rates.limit("10.0.0.1"))
    assert told == [5, 6, 5, UNLIMITED]
    assert rates.rates() == {}
