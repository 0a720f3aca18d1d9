"""JSON: names that Arrow would cut; what rows become is in tests/property/test_json_rows.py."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, LongType, StructType

from fastprod.spark.formats import json
from fastprod.spark.formats.column_types import FormatError


def test_a_name_that_would_arrive_cut_is_refused_at_any_depth() -> None:
    inner = StructType().add("a\0b", LongType())
    for schema in (inner, StructType().add("list", ArrayType(inner))):
        with pytest.raises(FormatError, match=r"a\\x00b' has a NUL character in its name.*rename"):
            json.plan(schema, {})
    json.plan(StructType().add("a b", LongType()), {})
