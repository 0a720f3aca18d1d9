"""AuthenticationCounters: totals, and the longest repetition."""

from __future__ import annotations

from fastprod.client.metrics.authentication_counters import AuthenticationCounters


def test_each_is_counted_and_the_longest_starts_anew() -> None:
    counters = AuthenticationCounters()
    counters.succeeded()
    counters.failed()
    counters.failed_again()
    for took_ms in (3, 7, 5):
        counters.repeated(took_ms)
    assert counters.totals() == {
        "authentications": 1,
        "failed_authentications": 1,
        "reauthentications": 3,
        "failed_reauthentications": 1,
        "reauthentication_ms": 15,
    }
    assert (counters.longest_ms(False), counters.longest_ms(True)) == (7, 7)
    assert counters.longest_ms(False) == 0
