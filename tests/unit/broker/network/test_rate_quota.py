"""RateQuota and IpRateQuotas (B-A8.4); what they do for connections is in
test_connection_quotas.
"""

from __future__ import annotations

import pytest

from fastprod.broker.network.rate_quota import UNLIMITED, IpRateQuotas, RateQuota, checked_rate

S = 1_000_000_000


def test_the_throttle_lasts_until_the_rate_has_fallen_to_the_limit() -> None:
    """B-A8.4."""
    quota = RateQuota(10, 2, S)
    assert [quota.record(0) for _ in range(10)] == [0] * 10
    assert quota.record(0) == S // 10
    assert quota.throttle_ns(S // 10) == 0
    quota.unrecord(0)
    assert quota.throttle_ns(0) == 0


def test_without_a_limit_nobody_waits_and_the_rate_is_known() -> None:
    quota = RateQuota(UNLIMITED, 2, S)
    assert [quota.record(0) for _ in range(10)] == [0] * 10
    assert quota.accepted.rate(S) == 10
    quota.limit = 5
    assert quota.throttle_ns(S) > 0


def test_a_rate_is_above_zero() -> None:
    assert checked_rate("rate", 0.5) == 0.5
    with pytest.raises(ValueError, match="rate is 0; a rate is connections a second, above 0"):
        checked_rate("rate", 0)


def test_an_address_without_a_limit_is_not_remembered() -> None:
    rates = IpRateQuotas(2, S)
    assert rates.limit("a") == UNLIMITED
    assert rates.try_record("a", 0) == 0
    assert rates.accept_rates(0) == {}


def test_a_refused_connection_does_not_count() -> None:
    rates = IpRateQuotas(2, S)
    rates.update("a", 1)
    assert rates.try_record("a", 0) == 0
    assert rates.try_record("a", 0) == S
    assert rates.accept_rates(0) == {"a": 1}


def test_addresses_that_went_quiet_are_forgotten() -> None:
    rates = IpRateQuotas(2, S)
    rates.update(None, 100)
    for number in range(1024):
        rates.try_record(f"quiet {number}", 0)
    assert len(rates.accept_rates(0)) == 1024
    rates.try_record("busy", 10 * S)
    assert rates.accept_rates(10 * S) == {"busy": 1}
