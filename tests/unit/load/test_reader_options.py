"""fastprod.load.reader_options: Spark's names for how text is read."""

from __future__ import annotations

import pytest

from fastprod.load.input_files import InputError, NeedsSpark
from fastprod.load.reader_options import ReaderOptions, reader_options


def test_names_are_sparks_in_any_case() -> None:
    given = {"Header": "FALSE", "delimiter": "\\t", "quote": "", "nullValue": "NA"}
    assert reader_options("csv", given) == ReaderOptions(False, "\t", "", "NA")
    assert reader_options("csv", {}, is_tabbed=True).separator == "\t"


def test_what_only_spark_understands_is_told_so() -> None:
    with pytest.raises(NeedsSpark, match="--option samplingratio is not understood"):
        reader_options("csv", {"samplingRatio": "1"})
    with pytest.raises(NeedsSpark, match="for json there are none"):
        reader_options("json", {"header": "true"})


@pytest.mark.parametrize("given", [{"header": "yes"}, {"sep": "||"}, {"quote": "xy"}])
def test_a_wrong_value_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(InputError, match="must be"):
        reader_options("csv", given)
