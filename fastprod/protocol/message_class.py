"""Makes message classes with slots and keyword constructors; quicker to import than dataclasses.

They are as dataclasses would make them, which compile some functions for each class at once: about
1 ms a class, and a producer imports a dozen. Here what makes objects is compiled when it has made
some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from fastprod.protocol.field_types import FieldType

MANY = 50
"""After so many objects, or before so many at once, compiling is worth its 100 us."""

_UNSET: Any = object()


class Field:
    """One row of a message's table.

    Attributes:
        name: of the attribute.
        type: on the wire.
        first: the first version that has it.
        last: the last one.
        nullable_from: the first version in which it may be null; above `nullable_to`: none.
        nullable_to: the last one.
        tag: its number as a tagged field; None: an ordinary field.
        default: makes its value where it is not given or not read.
        has_own_default: `default` makes a new object each time: a list, a struct.
    """

    __slots__ = (
        "default",
        "first",
        "has_own_default",
        "last",
        "name",
        "nullable_from",
        "nullable_to",
        "tag",
        "type",
    )

    def __init__(
        self,
        kind: FieldType,
        versions: tuple[int, int],
        nullable: tuple[int, int],
        tag: int | None,
        default: Callable[[], Any],
        has_own_default: bool,
    ) -> None:
        self.name = ""
        self.type = kind
        self.first, self.last = versions
        self.nullable_from, self.nullable_to = nullable
        self.tag = tag
        self.default = default
        self.has_own_default = has_own_default

    def is_nullable(self, version: int) -> bool:
        return self.nullable_from <= version <= self.nullable_to


class Message:
    """What all message classes have.

    Attributes:
        kafka_rows: the class's table.
        kafka_values: the values of an object, to compare.
        kafka_left: how many objects are made before a constructor is compiled.
    """

    __slots__ = ()
    kafka_rows: ClassVar[tuple[Field, ...]] = ()
    kafka_values: ClassVar[Callable[[Message], Any]] = type
    kafka_left: ClassVar[list[int]] = [MANY]

    def __init__(self, **values: Any) -> None:
        kind = type(self)
        kind.kafka_left[0] -= 1
        if kind.kafka_left[0] < 0:
            kind.__init__ = _constructor(kind.kafka_rows)  # type: ignore[method-assign]
        for row in kind.kafka_rows:
            name = row.name
            setattr(self, name, values.pop(name) if name in values else row.default())
        for name in values:
            raise TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values = type(self).kafka_values
        return bool(values(self) == values(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{row.name}={getattr(self, row.name)!r}" for row in self.kafka_rows)
        return f"{type(self).__name__}({values})"


def message_class(kind: type) -> type:
    """The message class whose table `kind` is.

    Raises:
        TypeError: an attribute is not a field.
    """
    body = dict(vars(kind))
    rows = []
    for name in body.pop("__annotations__", {}):
        row = body.pop(name, None)
        if not isinstance(row, Field):
            raise TypeError(f"{kind.__name__}.{name} is not a field")
        row.name = name
        rows.append(row)
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body["__slots__"] = tuple(row.name for row in rows)
    body["kafka_rows"] = tuple(rows)
    body["kafka_left"] = [MANY]
    if rows:
        body["kafka_values"] = staticmethod(attrgetter(*[row.name for row in rows]))
    return type(kind.__name__, (Message,), body)


def tuple_class(kind: Any) -> Any:
    """A NamedTuple whose defaults are fields, made a message class; it has no tagged fields.

    Raises:
        TypeError: it is not like that, or has a default that tuples would share.
    """
    rows = []
    for name, row in kind._field_defaults.items():
        if isinstance(row, Field) and row.tag is None and not row.has_own_default:
            row.name = name
            rows.append(row)
    if len(rows) != len(kind._fields):
        raise TypeError(f"{kind.__name__} has what a tuple's field cannot be")
    defaults = [row.default() for row in rows]
    kind.__new__.__defaults__ = tuple(defaults)
    kind._field_defaults = dict(zip(kind._fields, defaults, strict=True))
    kind.kafka_rows = tuple(rows)
    return kind


Make = Callable[[Sequence[Any]], Any]
"""Makes an object of the values of some fields, in order, and the defaults of the others."""


class Maker:
    """Makes objects of a message class whose version has only some of its fields.

    Any thread.

    Args:
        kind: a message class.
        names: the fields whose values are given.

    Attributes:
        make: to make few.
    """

    __slots__ = ("_compiled", "_kind", "_left", "_names", "_others", "make")

    def __init__(self, kind: Any, names: Sequence[str]) -> None:
        self._kind = kind
        self._names = names
        self._others = [row for row in kind.kafka_rows if row.name not in names]
        self._left = MANY
        self._compiled: Make | None = None
        self.make: Make = self._one
        if issubclass(kind, tuple):
            self.make = self._make_tuple() if self._others else partial(tuple.__new__, kind)
            self._compiled = self.make

    def make_many(self) -> Make:
        """What to make many with."""
        if self._compiled is None:
            self._compiled = self.make = self._function()
        return self._compiled

    def _one(self, values: Sequence[Any]) -> Any:
        self._left -= 1
        if self._left < 0:
            return self.make_many()(values)
        made = object.__new__(self._kind)
        for name, value in zip(self._names, values, strict=True):
            setattr(made, name, value)
        for row in self._others:
            setattr(made, row.name, row.default())
        return made

    def _make_tuple(self) -> Make:
        filled = ", ".join(
            row.name if row.name in self._names else _default_text(row)
            for row in self._kind.kafka_rows
        )
        return self._read([f" return _new(_kind, ({filled},))"], tuple.__new__)

    def _function(self) -> Make:
        lines = [" _made = _new(_kind)"]
        lines += [f" _made.{name} = {name}" for name in self._names]
        lines += [f" _made.{row.name} = {_default_text(row)}" for row in self._others]
        return self._read([*lines, " return _made"], object.__new__)

    def _read(self, lines: Sequence[str], new: Any) -> Make:
        taken = [f" {', '.join(self._names)}, = _values"] if self._names else []
        return _compiled(
            ["def make(_values):", *taken, *lines],
            self._kind.kafka_rows,
            _kind=self._kind,
            _new=new,
        )


def _constructor(rows: Sequence[Field]) -> Callable[..., None]:
    """The constructor of a message class: keyword arguments, each with its default."""
    star = "*, " if rows else ""
    arguments = ", ".join(
        f"{row.name}={'_unset' if row.has_own_default else _default_text(row)}" for row in rows
    )
    lines = [f"def __init__(self, {star}{arguments}):"]
    for row in rows:
        text = row.name
        if row.has_own_default:
            text = f"{_default_text(row)} if {row.name} is _unset else {row.name}"
        lines.append(f" self.{row.name} = {text}")
    return _compiled([*lines, " pass"], rows, _unset=_UNSET)


def _default_text(row: Field) -> str:
    return f"_default_{row.name}()" if row.has_own_default else f"_default_{row.name}"


def _compiled(lines: Sequence[str], rows: Sequence[Field], **names: Any) -> Callable[..., Any]:
    """The function of these lines; `_default_x` is what field x is without a value."""
    for row in rows:
        names[f"_default_{row.name}"] = row.default if row.has_own_default else row.default()
    found: dict[str, Any] = {}
    exec("\n".join(lines), names, found)
    function: Callable[..., Any] = found.popitem()[1]
    return function
