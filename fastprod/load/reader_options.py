"""ReaderOptions: those of Spark's reader options that also work without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastprod.load.input_files import InputError, NeedsSpark

_CSV: Final = ("header", "sep", "delimiter", "quote", "nullvalue", "multiline")


@dataclass(frozen=True)
class ReaderOptions:
    """How text is read; plain data.

    Attributes:
        has_header: the first line of a CSV file has the names of its columns.
        separator: between two fields of CSV.
        quote: around a field of CSV; inside, two of them stand for one.  "": none.
        null_value: text that stands for null, quoted or not; an empty field without quotes always
            does, and one in quotes never.
        is_multiline: a quoted field of CSV may have line ends, so that no file can be cut.
    """

    has_header: bool = True
    separator: str = ","
    quote: str = '"'
    null_value: str = ""
    is_multiline: bool = False


def reader_options(
    kind: str, given: Mapping[str, str], *, is_tabbed: bool = False
) -> ReaderOptions:
    """Read options by Spark's names.

    Args:
        kind: the format.
        given: names in any case, and values, as for ``spark.read.option``.
        is_tabbed: the separator is a tab unless given.

    Raises:
        NeedsSpark: an option, or its value, is not supported here; Spark may know it.
        InputError: a value is wrong.
    """
    lower = {name.lower(): value for name, value in given.items()}
    known = _CSV if kind == "csv" else ()
    for name in lower:
        if name not in known:
            raise NeedsSpark(
                f"--option {name} is not understood without Spark's own reader; for {kind} there "
                f"are {', '.join(known) or 'none'}"
            )
    found = ReaderOptions(
        has_header=_flag(lower, "header", True),
        separator=lower.get("sep", lower.get("delimiter", "\t" if is_tabbed else ",")),
        quote=lower.get("quote", '"'),
        null_value=lower.get("nullvalue", ""),
        is_multiline=_flag(lower, "multiline", False),
    )
    separator = {"\\t": "\t"}.get(found.separator, found.separator)
    if len(separator.encode()) != 1 or len(found.quote.encode()) > 1:
        raise NeedsSpark("--option sep and quote: each must be one ASCII character without Spark")
    return ReaderOptions(**{**found.__dict__, "separator": separator})


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InputError(f"--option {name}={given[name]}: must be true or false")
    return text == "true"
