"""The engine's bits of the error table are the error table (contract P-F.4)."""

from __future__ import annotations

import pytest

from fastprod._core.delivery.error_flags import classes
from fastprod.error_codes import KAFKA_ERRORS

RETRIABLE = {2, 3, 5, 6, 7, 13, 19, 20, 51, 56, 72, 74, 75, 89, 100, 103}
REFRESHING = {3, 5, 6, 13, 56, 72, 74, 100, 103}
FATAL = {31, 35, 49, 53, 90}
PLAIN = {-1, 0, 10, 17, 18, 21, 29, 32, 42, 43, 44, 45, 46, 47, 48, 59, 76, 87, 120}


@pytest.mark.parametrize("code", sorted(KAFKA_ERRORS))
def test_every_code_of_the_table_is_what_the_table_says(code: int) -> None:
    row = KAFKA_ERRORS[code]
    assert classes(code) == (row.retriable, row.refresh_metadata, row.fatal_for_idempotent)


@pytest.mark.parametrize("code", sorted(RETRIABLE | FATAL | PLAIN))
def test_codes_that_produce_meets_are_what_the_contract_says(code: int) -> None:
    """P-F.4, columns R, M and "Idem"; 45 and 59 are retried by the rules of P-F.5 alone."""
    assert classes(code) == (code in RETRIABLE, code in REFRESHING, code in FATAL)


@pytest.mark.parametrize("code", [-(2**31), -32768, -1003, -2, 510, 511, 512, 32767, 2**31 - 1])
def test_an_unknown_code_is_nothing_in_particular(code: int) -> None:
    """P-F.4, "other"; the engine's own codes are below -1000."""
    assert code not in KAFKA_ERRORS
    assert classes(code) == (False, False, False)
