"""Frozen: behaves like a frozen dataclass, without importing the module dataclasses.

That module imports inspect, and compiles some functions for each class: a sixth of the time that
`import fastprod` took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

if TYPE_CHECKING:
    import dataclasses


class _MadeByDataclasses:
    """An attribute by which the module dataclasses knows its classes: made when it is looked at."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        names = getattr(owner, "__match_args__", None)
        if names is None:  # Frozen itself
            raise AttributeError(self._name)
        from dataclasses import make_dataclass  # noqa: PLC0415

        types: dict[str, Any] = {}
        for each in reversed(owner.__mro__):
            types |= getattr(each, "__annotations__", {})
        twin = make_dataclass(
            owner.__name__, [(name, types[name]) for name in names], init=False, frozen=True
        )
        return getattr(twin, self._name)


@dataclass_transform(frozen_default=True)
class Frozen:
    """Base of classes whose objects never change; `dataclasses.replace` and `fields` take them.

    A subclass names its fields in `__match_args__`, and its constructor puts them into place with
    `object.__setattr__`. Objects are equal if all fields are, and as hashable as these.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
        __match_args__: ClassVar[tuple[str, ...]]
    else:
        __dataclass_fields__ = _MadeByDataclasses("__dataclass_fields__")
        __dataclass_params__ = _MadeByDataclasses("__dataclass_params__")

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __setattr__(self, name: str, value: object) -> NoReturn:
        _refuse(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        _refuse(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frozen) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        pairs = zip(self.__match_args__, self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join(f'{name}={it!r}' for name, it in pairs)})"

    def __getstate__(self) -> dict[str, Any]:
        return dict(zip(self.__match_args__, self._values(), strict=True)) | getattr(
            self, "__dict__", {}
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __replace__(self, /, **changes: Any) -> Any:
        """What `copy.replace` of Python 3.13 calls."""
        return type(self)(**dict(zip(self.__match_args__, self._values(), strict=True)) | changes)


def _refuse(why: str) -> NoReturn:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415

    raise FrozenInstanceError(why)


class FrozenRecord(Frozen):
    """Base of plain records: what a subclass annotates are its fields, in that order.

    The constructor takes them by position or by name; a value in the class is a field's default.
    """

    def __init_subclass__(cls) -> None:
        inherited = getattr(cls, "__match_args__", ())
        type.__setattr__(cls, "__match_args__", (*inherited, *cls.__annotations__))

    def __init__(self, *values: Any, **named: Any) -> None:
        names: tuple[str, ...] = self.__match_args__
        if len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has {len(names)} fields, not {len(values)}")
        given = dict(zip(names, values, strict=False))
        if double := given.keys() & named.keys():
            raise TypeError(f"{type(self).__name__}: {min(double)} is given twice")
        given |= named
        if unknown := given.keys() - set(names):
            raise TypeError(f"{type(self).__name__} has no field {min(unknown)}")
        for field in names:
            if field not in given and not hasattr(type(self), field):
                raise TypeError(f"{type(self).__name__}: {field} is missing")
            value = given[field] if field in given else getattr(type(self), field)
            object.__setattr__(self, field, value)
        self._check()

    def _check(self) -> None:
        """Override it to refuse values, with an exception; all fields are in place."""
