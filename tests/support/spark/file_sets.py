"""FileSet: random files of every format, written by libraries that are not Spark's, and their rows.

What was written is known, so that a reading is right, or refuses the files, or is wrong. Some sets
have a trap: something that a reader may leave out, coerce or take for something else.
"""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import fastavro
import pyarrow
import pyarrow.orc
import pyarrow.parquet

KINDS: Final = ("csv", "json", "parquet", "orc", "avro", "text")

_TEXTS: Final = (
    *("", " ", "x", "007", "1.10", "true", "null", "NaN", "2020-01-01", "1e5", "\t", "a,b", "'"),
    *('"', 'a"b', '""', "\\", '\\"', "#x", "\ufeff", "\u00e9", "\U0001f600", "\u2028", "\x85"),
    *(" x ", "-", "{}", "9007199254740993", "2020-01-01T00:00:00Z", "_c0", "\x01", "\x1f"),
)
_BROKEN: Final = ("a\nb", "a\r\nb", "a\rb", "\n", '"\n"', "\0", "x\0", "\0x")
_INTEGERS: Final = (0, 1, -1, 7, 255, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
_FLOATS: Final = (0.0, -0.0, 1.5, 0.1, 1e-7, 1e22, 123456789.125, 1 / 3, -1e300)
_ODD_FLOATS: Final = (math.nan, math.inf, -math.inf)
_NAMES: Final = ("key", "a", "b c", "A.b", "\u00e9", "x_1", "_corrupt_record", "Z`q", "n,m")

Row = dict[str, Any]


@dataclass
class FileSet:
    """Files, and what is in them.

    Attributes:
        kind: their format.
        files: content by name, below one folder.
        rows: what was written; a field that a row does not have is null.
        options: of the reader.
        traps: what may be refused; without any, the files are ordinary.
    """

    kind: str
    files: dict[str, bytes] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    traps: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write the files below a folder."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def file_set(random: Random, kind: str) -> FileSet:
    """Make files of a format; each has a column `value`."""
    made = FileSet(kind)
    {
        "csv": _csv,
        "json": _json,
        "parquet": _typed,
        "orc": _typed,
        "avro": _avro,
        "text": _text,
    }[kind](random, made)
    return made


def plain(value: Any) -> Any:
    """A value as JSON has it once it is read, without nulls in objects."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    return value.isoformat() if isinstance(value, date) else value


def text(value: Any) -> bytes | None:
    """A value as the bytes of a record."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _chance(random: Random, part: float) -> bool:
    return random.random() < part


def _texts(random: Random, trap: bool) -> str:
    return random.choice(_BROKEN) if trap and _chance(random, 0.3) else random.choice(_TEXTS)


def _names(random: Random) -> list[str]:
    names = ["value", *random.sample(_NAMES, random.randint(0, 4))]
    random.shuffle(names)
    return names


def _parts(random: Random, rows: list[Row]) -> list[list[Row]]:
    """Rows, dealt to one to three files; some are empty."""
    bounds = sorted(random.randint(0, len(rows)) for _ in range(random.randint(0, 2)))
    return [rows[low:high] for low, high in zip([0, *bounds], [*bounds, len(rows)], strict=True)]


def _packed(random: Random, name: str, data: bytes) -> tuple[str, bytes]:
    return (f"{name}.gz", gzip.compress(data)) if _chance(random, 0.2) else (name, data)


def _csv(random: Random, made: FileSet) -> None:
    names = _names(random)
    if _chance(random, 0.2):
        names = ["value"]
    has_trap = _chance(random, 0.4)
    separator = random.choice([",", ",", ";", "\t", "|"])
    rows: list[Row] = []
    for _ in range(random.randint(0, 12)):
        # A row of one null would be an empty line, which is none.
        is_null = len(names) > 1 and _chance(random, 0.2)
        cells = [
            None if is_null and _chance(random, 0.7) else _texts(random, has_trap) for _ in names
        ]
        rows.append(dict(zip(names, cells, strict=True)))
    if separator != ",":
        made.options["sep"] = separator
    if _chance(random, 0.4):
        made.options["multiLine"] = "true"
    if has_trap:
        made.traps.append("line ends and NULs")
    if len(names) == 1 or separator == "\t":
        made.traps.append("white space")
    quoting = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    ending = random.choice(["\n", "\n", "\r\n"])
    for index, part in enumerate(_parts(random, rows)):
        out = io.StringIO()
        head = list(names)
        if index and _chance(random, 0.1):
            made.traps.append("other order")
            random.shuffle(head)
        for cells in (head, *([row[name] for name in head] for row in part)):
            out.write(separator.join(_cell(each, quoting, separator) for each in cells) + ending)
        data = out.getvalue().encode()
        if _chance(random, 0.1) and data.endswith(b"\n") and part:
            data = data.removesuffix(ending.encode())
        if _chance(random, 0.1):
            data = b"\xef\xbb\xbf" + data
        name, data = _packed(random, f"{index}.csv", data)
        made.files[name] = data
        made.rows += part


def _cell(value: str | None, quoting: int, separator: str) -> str:
    """A field; null is nothing, and an empty text has quotes."""
    if value is None:
        return ""
    if (
        quoting == csv.QUOTE_ALL
        or not value
        or any(each in value for each in (separator, '"', "\n", "\r"))
    ):
        return '"' + value.replace('"', '""') + '"'
    return value


def _json(random: Random, made: FileSet) -> None:
    names = _names(random)
    makers = {name: _json_maker(random, 2 if name == "value" else 0) for name in names}
    rows: list[Row] = []
    for _ in range(random.randint(1, 12)):
        kept = [name for name in names if _chance(random, 0.9)]
        random.shuffle(kept)
        rows.append({name: None if _chance(random, 0.1) else makers[name]() for name in kept})
    rows[0].setdefault("value", None)
    trap = random.choice([*_JSON_TRAPS, *[None] * len(_JSON_TRAPS)])
    lines = [json.dumps(row, ensure_ascii=_chance(random, 0.5)) for row in rows]
    if trap is not None:
        made.traps.append(trap)
        at = random.randrange(len(rows))
        rows[at], lines[at] = _JSON_TRAPS[trap](rows[at])
    if _chance(random, 0.1):
        rows = [dict(row) for row in rows]
        made.options["multiLine"] = "true"
        made.traps.append("multiLine")
        made.files["0.json"] = ("[" + ",\n".join(lines) + "]").encode("utf-8", "surrogatepass")
        made.rows += rows
        return
    at = 0
    for index, part in enumerate(_parts(random, rows)):
        data = "".join(f"{line}\n" for line in lines[at : at + len(part)])
        at += len(part)
        if _chance(random, 0.1):
            data = data.replace("\n", "\r\n").replace("}\r", "} \t\r")
        name, packed = _packed(random, f"{index}.json", data.encode())
        made.files[name] = packed
    made.rows += rows


def _json_maker(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(8 if depth < 2 else 5)
    if kind == 0:
        return lambda: random.choice(_INTEGERS)
    if kind == 1:
        return lambda: random.choice(_FLOATS)
    if kind == 2:
        return lambda: _chance(random, 0.5)
    if kind in (3, 4):
        return lambda: random.choice(_TEXTS)
    if kind == 5:
        inner = _json_maker(random, depth + 1)
        return lambda: [inner() for _ in range(random.randint(0, 3))]
    fields = {name: _json_maker(random, depth + 1) for name in random.sample("pqr", 2)}
    return lambda: {name: each() for name, each in fields.items()}


def _with(row: Row, name: str, value: Any, written: str | None = None) -> tuple[Row, str]:
    row = {**row, name: value}
    if written is None:
        return row, json.dumps(row)
    line = json.dumps({**row, name: "@@"})
    return row, line.replace('"@@"', written)


_JSON_TRAPS: Final[dict[str, Any]] = {
    "empty object": lambda row: _with(row, "e", {}),
    "empty object in a list": lambda row: _with(row, "e", [{}]),
    "field without a name": lambda row: _with(row, "", 5),
    "other case": lambda row: _with(row, "VALUE", "x"),
    "other case within": lambda row: _with(row, "o", [{"k": 1}, {"K": 2}]),
    "text or number": lambda row: _with(row, "value", 12),
    "object or text": lambda row: _with(row, "value", {"z": 1}),
    "truth or number": lambda row: _with(row, "m", [True, 1]),
    "long number": lambda row: _with(
        row, "d", [1.5, Decimal("12345678901234567.25")], "[1.5, 12345678901234567.25]"
    ),
    "long integer": lambda row: _with(row, "d", [1.5, 2**53 + 1]),
    "huge integer": lambda row: _with(row, "d", 2**64),
    "tiny number": lambda row: _with(row, "d", Decimal("1E-400"), "1E-400"),
    "large number": lambda row: _with(row, "d", Decimal("1E400"), "1E400"),
    "half a pair": lambda row: _with(row, "s", "\ud800x"),
    "NUL": lambda row: _with(row, "s", "x\0y"),
    "twice": lambda row: (row, json.dumps({**row, "t": 1})[:-1] + ', "t": 2}'),
    "second object": lambda row: (row, json.dumps(row) + json.dumps({"value": "lost"})),
    "text behind": lambda row: (row, json.dumps(row) + " and more"),
}


def _typed(random: Random, made: FileSet) -> None:
    names = [name for name in _names(random) if made.kind != "orc" or name not in ("A.b", "Z`q")]
    makers = {name: _typed_maker(random, made.kind) for name in names}
    is_bytes = _chance(random, 0.2)
    makers["value"] = (
        (pyarrow.binary(), lambda: random.choice([b"\xff\0", b"", b"x"]))
        if is_bytes
        else (pyarrow.string(), lambda: _texts(random, True))
    )
    rows: list[Row] = [
        {name: None if _chance(random, 0.15) else make() for name, (_, make) in makers.items()}
        for _ in range(random.randint(0, 12))
    ]
    if any("duration" in str(kind) for kind, _ in makers.values()):
        made.traps.append("duration")
    if made.kind == "orc" and any(
        "date" in f"{kind}" or "time" in f"{kind}" for kind, _ in makers.values()
    ):
        made.traps.append("times of ORC")
    # These have no times without a zone.
    is_old_form = "[us]" not in str(makers) and _chance(random, 0.2)
    for index, part in enumerate(_parts(random, rows)):
        kept, part, trap = _trapped(random, dict(makers), part)
        folder = _FOLDERS.get(trap, "")
        if trap:
            made.traps.append(trap)
        order = list(kept)
        random.shuffle(order)
        table = pyarrow.table(
            {name: pyarrow.array([row[name] for row in part], kept[name][0]) for name in order}
        )
        out = io.BytesIO()
        if made.kind == "orc":
            pyarrow.orc.write_table(table, out)
        else:
            pyarrow.parquet.write_table(
                table,
                out,
                row_group_size=3,
                compression=random.choice(["snappy", "gzip", "zstd", "none"]),
                use_deprecated_int96_timestamps=is_old_form,
            )
        made.files[f"{folder}{index}.{made.kind}"] = out.getvalue()
        made.rows += part


_FOLDERS: Final = {"folder of a column": "value=7/", "folder": "Key=007/"}
_FILE_TRAPS: Final = ("missing", "more", "case", "type", *_FOLDERS, *[""] * 20)


def _trapped(
    random: Random, kept: dict[str, Any], part: list[Row]
) -> tuple[dict[str, Any], list[Row], str]:
    """The columns and rows of a file that may differ from others', and how."""
    trap = random.choice(_FILE_TRAPS)
    if trap == "missing" and len(kept) > 1:
        del kept[random.choice(list(kept))]
        part = [{name: row[name] for name in kept} for row in part]
    elif trap == "more":
        kept["more"] = (pyarrow.int64(), int)
        part = [{**row, "more": 5} for row in part]
    elif trap == "case":
        kept = {name.replace("value", "Value"): each for name, each in kept.items()}
        part = [{n.replace("value", "Value"): each for n, each in row.items()} for row in part]
    elif trap == "type" and "a" in kept:
        kept["a"] = (pyarrow.float64(), float)
        part = [{**row, "a": 0.5} for row in part]
    elif trap == "folder":
        part = [{**row, "Key": "007"} for row in part]
    return kept, part, trap


def _moments(random: Random) -> datetime:
    years = random.choice([1, 1500, 1970, 2020, 2020, 9999])
    return datetime(years, 7, 1, 12) + timedelta(microseconds=random.choice([0, 1, 123456, 999]))


def _typed_maker(random: Random, kind: str, depth: int = 0) -> tuple[pyarrow.DataType, Any]:
    """A type, and what makes its values."""
    bits = random.choice([8, 16, 32, 64])
    scale = random.randint(0, 4)
    is_parquet = kind == "parquet"
    simple: list[tuple[pyarrow.DataType, Any]] = [
        (pyarrow.string(), lambda: _texts(random, True)),
        (pyarrow.binary(), lambda: random.choice([b"\xff", b"", b"\0a"])),
        (pyarrow.bool_(), lambda: _chance(random, 0.5)),
        (
            getattr(pyarrow, f"int{bits}")(),
            lambda: random.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
        ),
        (pyarrow.float64(), lambda: random.choice(_FLOATS + _ODD_FLOATS)),
        (pyarrow.float32(), lambda: random.choice([0.5, -1.25, math.nan])),
        (
            pyarrow.decimal128(random.choice([9, 18, 38]), scale),
            lambda: Decimal(random.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-scale),
        ),
        (pyarrow.date32(), lambda: _moments(random).date()),
        (
            pyarrow.timestamp("us", "Asia/Kathmandu" if is_parquet else "UTC"),
            lambda: _moments(random).replace(tzinfo=UTC),
        ),
    ]
    if is_parquet:
        simple += [
            (getattr(pyarrow, f"uint{bits}")(), lambda: random.randint(0, 2**bits - 1)),
            (pyarrow.timestamp("us"), lambda: _moments(random)),
            (
                pyarrow.timestamp("ms", "UTC"),
                lambda: _moments(random).replace(microsecond=5000, tzinfo=UTC),
            ),
            (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), lambda: random.choice("xyz")),
            (pyarrow.large_string(), lambda: random.choice(_TEXTS)),
            (pyarrow.duration("us"), lambda: timedelta(microseconds=5)),
        ]
    if depth < 2 and _chance(random, 0.25):
        inner, make = _typed_maker(random, kind, depth + 1)
        if not pyarrow.types.is_dictionary(inner):
            shape = random.choice(["list", "struct", "map"])
            if shape == "list":
                return pyarrow.list_(inner), lambda: [make() for _ in range(random.randint(0, 2))]
            if shape == "struct":
                return pyarrow.struct([("p", inner), ("q", pyarrow.int64())]), lambda: {
                    "p": make(),
                    "q": 1,
                }
            return pyarrow.map_(pyarrow.string(), inner), lambda: {"k": make()}
    return random.choice(simple)


def _avro(random: Random, made: FileSet) -> None:
    names = ["value", *random.sample(["key", "a", "b", "c", "d"], random.randint(0, 4))]
    makers = {name: _avro_maker(random, name) for name in names}
    makers["value"] = ("string", lambda: _texts(random, True))
    rows = [
        {name: make() for name, (_, make) in makers.items()} for _ in range(random.randint(0, 12))
    ]
    for index, part in enumerate(_parts(random, rows)):
        kept: dict[str, Any] = {name: ["null", kind] for name, (kind, _) in makers.items()}
        trap = random.choice(["more", "missing", "union", "not null", "long", "time", *[""] * 16])
        if trap == "more":
            kept["more"] = "long"
            part = [{**row, "more": 5} for row in part]
        elif trap == "missing" and len(kept) > 1:
            del kept[names[-1]]
            part = [{name: row[name] for name in kept} for row in part]
        elif trap == "union":
            kept["u"] = ["null", "int", "string"]
            part = [{**row, "u": random.choice([1, "x"])} for row in part]
        elif trap == "not null":
            kept["value"] = "string"
        elif trap == "long":
            kept["l"] = "long" if index else {"type": "long", "logicalType": "timestamp-micros"}
            part = [{**row, "l": 5 if index else datetime(2020, 1, 1, tzinfo=UTC)} for row in part]
        elif trap == "time":
            kept["t"] = {"type": "int", "logicalType": "time-millis"}
            part = [{**row, "t": datetime(2020, 1, 1, 5).time()} for row in part]
        if trap:
            made.traps.append(trap)
        fields = [{"name": name, "type": kind} for name, kind in kept.items()]
        out = io.BytesIO()
        schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
        fastavro.writer(out, schema, part, codec=random.choice(["null", "deflate"]))
        made.files[f"{index}.avro"] = out.getvalue()
        made.rows += part


def _avro_maker(random: Random, name: str) -> tuple[Any, Any]:
    scale = random.randint(0, 3)
    options: list[tuple[Any, Any]] = [
        ("int", lambda: random.choice([0, -(2**31), 2**31 - 1])),
        ("long", lambda: random.choice(_INTEGERS)),
        ("double", lambda: random.choice(_FLOATS)),
        ("boolean", lambda: _chance(random, 0.5)),
        ("bytes", lambda: random.choice([b"", b"\xff"])),
        ({"type": "enum", "name": f"E{name}", "symbols": ["X", "Y"]}, lambda: random.choice("XY")),
        ({"type": "fixed", "name": f"F{name}", "size": 2}, lambda: b"\xffa"),
        ({"type": "array", "items": ["null", "long"]}, lambda: random.choice([[], [1, None]])),
        ({"type": "map", "values": "string"}, lambda: {"k": random.choice(_TEXTS)}),
        ({"type": "int", "logicalType": "date"}, lambda: _moments(random).date()),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            lambda: _moments(random).replace(tzinfo=UTC),
        ),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, lambda: _moments(random)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": scale},
            lambda: Decimal(random.randint(-99999, 99999)).scaleb(-scale),
        ),
    ]
    return random.choice(options)


def _text(random: Random, made: FileSet) -> None:
    has_trap = _chance(random, 0.3)
    lines = [random.choice(_TEXTS).encode() for _ in range(random.randint(0, 12))]
    # A mark of byte order at the very beginning is none of the text.
    lines = [line for line in lines if not line.startswith(b"\xef\xbb\xbf")]
    if has_trap:
        made.traps.append("not UTF-8")
        lines.append(b"\xff\0x")
    rows: list[Row] = [{"value": line} for line in lines]
    for index, part in enumerate(_parts(random, rows)):
        ending = random.choice([b"\n", b"\n", b"\r\n", b"\r"])
        data = b"".join(row["value"] + ending for row in part)
        name, data = _packed(random, f"{index}.txt", data)
        made.files[name] = data
        made.rows += part
