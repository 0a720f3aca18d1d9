"""Error codes by Kafka's names."""

from __future__ import annotations

from fastprod.broker import codes
from fastprod.error_codes import KAFKA_ERRORS


def test_each_code_has_the_name_that_kafka_gives_it() -> None:
    named = {name: value for name, value in vars(codes).items() if name.isupper()}
    assert len(named) > 20
    for name, value in named.items():
        assert KAFKA_ERRORS[value].name == name
