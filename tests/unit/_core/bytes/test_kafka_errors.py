"""fastprod/_core/bytes/kafka_errors.pxd: the codes that C code names are Kafka's."""

from __future__ import annotations

import re

import checkout
from fastprod.error_codes import KAFKA_ERRORS

DECLARATIONS = checkout.ROOT / "fastprod/_core/bytes/kafka_errors.pxd"


def test_every_code_has_its_name_of_the_table() -> None:
    found = re.findall(r"^ +([A-Z_]+) = (-?\d+)", DECLARATIONS.read_text(), re.MULTILINE)
    assert found
    named = {int(code): name.replace("NO_ERROR", "NONE") for name, code in found}
    assert len(named) == len(found)
    assert named == {code: KAFKA_ERRORS[code].name for code in named}
