"""What rows of Arrow columns are as JSON, slowly: Python objects to compare after parsing."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow

EPOCH = datetime(1970, 1, 1)


def rows_as_json(batch: pyarrow.RecordBatch, ignores_nulls: bool) -> list[dict[str, Any]]:
    """Each row as json.loads would give it back."""
    return [_struct(row, batch.schema, ignores_nulls) for row in batch.to_pylist()]


def _struct(row: Mapping[str, Any], fields: Any, ignores_nulls: bool) -> dict[str, Any]:
    return {
        field.name: _value(row[field.name], field.type, ignores_nulls)
        for field in fields
        if row[field.name] is not None or not ignores_nulls
    }


def _value(value: Any, kind: pyarrow.DataType, ignores_nulls: bool) -> Any:
    types = pyarrow.types
    if value is None:
        return None
    if types.is_dictionary(kind):
        return _value(value, kind.value_type, ignores_nulls)
    if types.is_struct(kind):
        return _struct(value, kind, ignores_nulls)
    if types.is_map(kind):
        return {
            _key(key, kind.key_type): _value(each, kind.item_type, ignores_nulls)
            for key, each in value
        }
    if types.is_list(kind) or types.is_large_list(kind):
        return [_value(each, kind.value_type, ignores_nulls) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        if kind.tz is None:
            return value.isoformat(timespec="milliseconds")
        text = value.isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    return value


def _key(key: Any, kind: pyarrow.DataType) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, datetime):
        since = key.astimezone(UTC).replace(tzinfo=None) if kind.tz else key
        return str((since - EPOCH) // timedelta(microseconds=1))
    if isinstance(key, date):
        return str((key - EPOCH.date()).days)
    return str(key)
