"""ColumnMapping: which columns of the input become a record's value, key and headers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from fastprod.load.input_files import InputError


@dataclass(frozen=True)
class ColumnMapping:
    """The columns that were asked for; `resolved` fills in the defaults.

    Attributes:
        value: column of the values; None: `value`, or the only one there is.
        key: column of the keys; None: `key` if there is one; "": no keys.
        partition: column of the partitions; None: the partitioner chooses.
        timestamp: column of the timestamps, or of ms since the epoch; None: the time of sending.
        headers: (name, value) that every record gets; not shown, as they may be tokens.
        header_columns: (name, column) of headers that a column holds.
        value_format: "raw": the column as it is; "json": all columns as one JSON object.
    """

    value: str | None = None
    key: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    headers: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    header_columns: tuple[tuple[str, str], ...] = ()
    value_format: str = "raw"

    def resolved(self, columns: Sequence[str]) -> ColumnMapping:
        """Fill in what was not given, by the columns' names, and check what was.

        Afterwards `value` is a column unless the format is json, and `key` a column or "".

        Raises:
            InputError: a column is missing, or it is not clear which has the values.
        """
        options = {
            "--value": self.value,
            "--key": self.key,
            "--partition-column": self.partition,
            "--timestamp-column": self.timestamp,
        } | {f"--header-column {name}": column for name, column in self.header_columns}
        for option, column in options.items():
            if column and column not in columns:
                raise InputError(
                    f"{option}: there is no column {column!r}; there are {_listed(columns)}"
                )
        key = self.key
        if key is None:
            key = "key" if "key" in columns and self.value != "key" else ""
        value = self.value
        if self.value_format == "raw" and value is None:
            left = [column for column in columns if column != key]
            if "value" in columns:
                value = "value"
            elif len(left) == 1:
                value = left[0]
            else:
                raise InputError(
                    f"which column is the value? There are {_listed(columns)}: give --value "
                    f"COLUMN; spark-load has --value-format json for all of them as an object"
                )
        return dataclasses.replace(self, key=key, value=value)

    @property
    def columns(self) -> list[str]:
        """The columns that a resolved mapping with raw values uses, each once."""
        used = [self.value, self.key, self.partition, self.timestamp]
        used += [column for _, column in self.header_columns]
        return list(dict.fromkeys(column for column in used if column))


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(columns[:50])
    return f"{shown} and {len(columns) - 50} more" if len(columns) > 50 else shown or "none"
