"""`help` of everything public tells the whole: each parameter, blocking, threads, the source."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Iterator
from typing import Any

import pytest

import fastprod
import fastprod.broker
import fastprod.spark
from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.broker.faults.fault_verbs import FaultVerbs
from fastprod.broker.node import Node
from fastprod.records import BulkArrays, BulkMetadata, FailedRow, OffsetRange

NAMED = [getattr(fastprod, name) for name in fastprod.__all__ if name != "__version__"]
SPARK = [getattr(fastprod.spark, name) for name in fastprod.spark.__all__]
# What public calls return; their constructors are not for users.
RETURNED = [BulkFuture, BulkMetadata, BulkArrays, FailedRow, OffsetRange, FaultVerbs, Node]
CLASSES = [
    each for each in (*NAMED, *SPARK, fastprod.broker.Broker, *RETURNED) if inspect.isclass(each)
]
FUNCTIONS = [each for each in SPARK if not inspect.isclass(each)]
# Methods of these may wait for others, or be called by several threads.
SERVICES = [
    fastprod.KafkaProducer,
    fastprod.RecordFuture,
    BulkFuture,
    fastprod.broker.Broker,
    FaultVerbs,
    Node,
]
NOT_MADE_BY_USERS = {fastprod.RecordFuture, BulkFuture, FaultVerbs, Node}


def public_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties of `kind`, also those that it inherits from classes of ours."""
    seen = set()
    for base in inspect.getmro(kind):
        for name, found in vars(base).items():
            is_ours = base.__module__.startswith("fastprod") and not name.startswith("_")
            if is_ours and name not in seen and _is_member(found):
                seen.add(name)
                yield name, getattr(kind, name)


def _is_member(found: Any) -> bool:
    return (
        callable(found)
        or isinstance(found, property | classmethod | staticmethod)
        or inspect.isgetsetdescriptor(found)
    )


def methods() -> list[Any]:
    """Every public method and function."""
    found = [
        pytest.param(kind, member, id=f"{kind.__name__}.{name}")
        for kind in CLASSES
        for name, member in public_members(kind)
        if callable(member)
    ]
    return found + [pytest.param(None, each, id=each.__name__) for each in FUNCTIONS]


def parameters(thing: Any) -> list[str]:
    return [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]


def explained(name: str, text: str) -> bool:
    """An entry `name: ...`, alone or among others, or `name` in backticks in a sentence."""
    entry = rf"^ *(?:\w+, )*{name}(?:, \w+)*: \S"
    return re.search(rf"{entry}|`{name}`", text, re.MULTILINE) is not None


@pytest.mark.parametrize(("kind", "method"), methods())
def test_help_explains_each_parameter(kind: type | None, method: Any) -> None:
    text = inspect.getdoc(method) or ""
    missing = [name for name in parameters(method) if not explained(name, text)]
    assert missing == [], text


@pytest.mark.parametrize(("kind", "method"), methods())
def test_help_shows_a_text_of_its_own(kind: type | None, method: Any) -> None:
    """It begins with a sentence, and sends nobody to a file of the source."""
    text = inspect.getdoc(method) or ""
    shown = pydoc.plain(pydoc.render_doc(method))
    assert text.split("\n")[0] in shown
    assert re.match(r"[A-Z][^\n]+(?:\n[^\n]+)*[.:]", text), text
    assert re.search(r"\.py[ix]?\b", text) is None, text


@pytest.mark.parametrize(
    ("kind", "method"),
    [each for each in methods() if each.values[0] is None or each.values[0] in SERVICES],
)
def test_help_tells_whether_a_call_blocks(kind: type | None, method: Any) -> None:
    """The method's text does, or for all methods that of its class."""
    texts = [inspect.getdoc(method) or "", (kind and inspect.getdoc(kind)) or ""]
    said = r"\bblocks?\b|\bNever blocks|at once|Does not wait"
    if kind in (fastprod.broker.Broker, Node):
        said = r"\bblocks only where"
    else:
        del texts[1]
    assert any(re.search(said, text, re.IGNORECASE) for text in texts), texts[0]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_help_of_a_class_explains_how_it_is_made(kind: type) -> None:
    """The arguments of the constructor, or the attributes of a tuple or dataclass."""
    text = inspect.getdoc(kind) or ""
    assert text
    assert re.search(r"\.py[ix]?\b", text) is None, text
    if kind not in NOT_MADE_BY_USERS:
        assert [name for name in parameters(kind) if not explained(name, text)] == []


@pytest.mark.parametrize("kind", SERVICES, ids=lambda kind: kind.__name__)
def test_help_of_a_service_tells_threads_and_source(kind: type) -> None:
    text = inspect.getdoc(kind) or ""
    assert re.search(r"\bthreads?\b", text, re.IGNORECASE), text
    assert "Source: " in text, text


def test_the_rule_can_fail() -> None:
    """A text that only seems to name a parameter does not explain it."""
    assert not explained("key", "The key of a record, and keys: none.")
    assert explained("key", "Args:\n    value, key: bytes.")
    assert explained("key", "Looks at `key` only.")
