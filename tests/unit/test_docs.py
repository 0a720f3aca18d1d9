"""What is written about the project is true of the code: names, versions, docstrings, links."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastprod
from fastprod import errors
from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.aio import AsyncProducer, AsyncRecordFuture
from fastprod.broker.broker import Broker
from fastprod.broker.config import SETTINGS as BROKER_SETTINGS
from fastprod.broker.faults.fault_verbs import FaultVerbs
from fastprod.config import SETTINGS, ProducerConfig, describe
from fastprod.records import BulkMetadata, FailedRow, OffsetRange
from fastprod.settings.properties_file import parse_properties
from fastprod.settings.setting_names import RENAMED
from fastprod.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PARTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "design").glob("*.md"))
DOCUMENTS = ("README.md", "DESIGN.md", "CHANGELOG.md", *PARTS)
README = (ROOT / "README.md").read_text()
DESIGN = "".join((ROOT / name).read_text() for name in ("DESIGN.md", *PARTS))
PUBLIC = [*(getattr(fastprod, name) for name in fastprod.__all__ if name != "__version__")]
# What public calls return, without a name of its own in `fastprod`.
RETURNED = [BulkFuture, BulkMetadata, FailedRow, OffsetRange, AsyncProducer, AsyncRecordFuture]
ERRORS = [each for each in vars(errors).values() if inspect.isclass(each)]
# Names in backticks that are other people's.
FOREIGN = {"BufferError", "SerializingProducer", "add_reader", "wait_for"}


def members(kind: Any) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that `kind` or a base of ours defines."""
    for base in inspect.getmro(kind):
        if base.__module__.startswith("fastprod"):
            for name, found in vars(base).items():
                if not name.startswith("_") and (
                    callable(found)
                    or isinstance(found, property | classmethod | staticmethod)
                    or inspect.isgetsetdescriptor(found)
                ):
                    yield name, found


def documented() -> Iterator[tuple[str, Any]]:
    for kind in (*PUBLIC, *RETURNED, *ERRORS):
        yield kind.__qualname__, kind
        for name, found in members(kind):
            yield f"{kind.__qualname__}.{name}", found


def code_words(text: str) -> set[str]:
    """Names in backticks, without the arguments of a call."""
    return {
        re.split(r"[(=]", word)[0]
        for word in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    }


@pytest.mark.parametrize(
    ("name", "thing"), [pytest.param(*pair, id=pair[0]) for pair in documented()]
)
def test_everything_public_has_a_docstring(name: str, thing: Any) -> None:
    assert (inspect.getdoc(thing) or "").strip(), f"help({name}) says nothing"


def test_the_compiled_methods_have_docstrings_of_their_own() -> None:
    """`inspect.getdoc` could find those of a base."""
    for kind in (fastprod.KafkaProducer.__mro__[1], fastprod.RecordFuture, BulkFuture):
        for name, found in members(kind):
            assert found.__doc__, f"{kind.__name__}.{name}"


def test_every_public_name_is_there_once_and_sorted() -> None:
    assert fastprod.__all__ == sorted(set(fastprod.__all__))
    assert fastprod.__version__ == VERSION


def test_the_change_log_starts_with_this_version() -> None:
    """Behind what is not released."""
    found = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] == VERSION


def test_names_in_the_readme_exist() -> None:
    """Settings, methods, parameters and errors, in backticks, in the form name_with_underscores."""
    known = set(SETTINGS) | FOREIGN | {error.__name__ for error in ERRORS} | set(fastprod.__all__)
    known |= {kind.__name__ for kind in RETURNED} | set(inspect.signature(Broker).parameters)
    known |= set(RENAMED) | set(BROKER_SETTINGS)
    for kind in (*PUBLIC, *RETURNED, Broker, FaultVerbs):
        for name, found in members(kind):
            known.add(name)
            if callable(found):
                known |= set(inspect.signature(found).parameters)
    words = {
        word
        for word in code_words(README)
        if re.fullmatch(r"[a-z]+(_[a-z]+)+|[A-Z][a-z]+([A-Z][a-z]+)+", word)
    }
    assert len(words) > 20
    assert words - known == set()


def test_settings_called_ours_in_the_readme_are_ours() -> None:
    """The last column of the table for those who come from another client."""
    table = README[README.index("| kafka-python | confluent-kafka | fastprod |") :]
    rows = re.findall(r"^\|(?:.*)\|([^|]*)\|$", table.split("\n\n")[0], re.MULTILINE)[2:]
    names = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)} - {"send"}
    assert len(names) >= 10
    assert names <= set(SETTINGS)


def test_the_properties_in_the_readme_make_a_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (text,) = re.findall(r"^```properties\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    config = ProducerConfig(parse_properties(text))
    assert config.sasl is not None
    assert config.sasl.password == "hunter2"


@pytest.mark.parametrize(
    ("text", "setting", "default"),
    [
        ("`buffer_memory`, 32 MiB", "buffer_memory", 32 * 1024 * 1024),
        ("`batch_size` is 256 KiB", "batch_size", 256 * 1024),
        ('`acks="all"` by default', "acks", -1),
        ("`linger_ms` is adaptive", "linger_ms", None),
        ("telemetry\n(`enable_metrics_push`) is off", "enable_metrics_push", False),
        ("Idempotence and `acks", "enable_idempotence", True),
    ],
)
def test_defaults_named_in_the_readme_are_the_defaults(
    text: str, setting: str, default: object
) -> None:
    assert text in README
    assert SETTINGS[setting].default == default


def test_what_brokers_have_and_kafka_has_not_is_in_the_design() -> None:
    """Settings whose line in `BrokerConfig` says that Kafka's is another."""
    broker = (ROOT / "docs" / "design" / "broker.md").read_text()
    table = broker[broker.index("\n## Settings\n") :].partition("\n## What a client")[0]
    own = {name for name, setting in BROKER_SETTINGS.items() if "Kafka" in setting.rule["doc"]}
    assert len(own) >= 5
    assert {name for name in own if f"`{name}`" not in table} == set()


def test_every_setting_has_a_line_of_documentation() -> None:
    for row in describe():
        assert row.doc.endswith("."), row.name


def test_targets_of_make_named_in_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    for document in DOCUMENTS:
        named = set(re.findall(r"(?:^    |`)make ([a-z]+)", (ROOT / document).read_text(), re.M))
        assert named <= targets, document


def test_files_named_in_documents_exist() -> None:
    for document in DOCUMENTS:
        for path in re.findall(
            r"`((?:fastprod|ci|bench|tests|examples|docs)/[\w./*]+)`", (ROOT / document).read_text()
        ):
            assert list(ROOT.glob(path)), f"{document}: {path}"


def test_engine_files_named_in_the_design_exist() -> None:
    """A name without a folder is the engine's, or stands behind one that has its folder."""
    found = set(re.findall(r"`(\w+\.(?:pyx|pxd|py))`", DESIGN))
    assert len(found) > 20
    for name in found:
        assert (ROOT / name).exists() or list((ROOT / "fastprod").rglob(name)), name


def test_functions_named_with_their_module_in_the_design_exist() -> None:
    named = re.findall(r"`(\w+)\.(\w+)`", DESIGN)
    sources: dict[str, list[Path]] = {}
    for path in (ROOT / "fastprod").rglob("*.p*"):
        if path.suffix in (".pyx", ".pxd", ".py"):
            sources.setdefault(path.stem, []).append(path)
    checked = 0
    for module, name in named:
        if module in sources and name not in ("pyx", "pxd", "py"):
            assert any(re.search(rf"\b{name}\b", path.read_text()) for path in sources[module]), (
                f"{module}.{name}"
            )
            checked += 1
    assert checked > 10


def anchors(document: Path) -> set[str]:
    return {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    }


def test_links_within_the_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        path = ROOT / document
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
            name, _, anchor = target.partition("#")
            led_to = path.parent / name if name else path
            assert led_to.exists(), f"{document}: {target}"
            if anchor:
                assert anchor in anchors(led_to), f"{document}: {target}"


def test_locks_named_in_the_design_are_fields_of_their_structs() -> None:
    named = set(re.findall(r"`(\w+)\.(\w*lock)`", DESIGN))
    named = {(struct, field) for struct, field in named if not field.startswith("_")}
    assert len(named) >= 6
    for struct, field in named:
        declared = [
            path
            for path in (ROOT / "fastprod" / "_core").rglob("*.pxd")
            if re.search(
                rf"^cdef struct {struct}:(?:(?!^cdef ).)*\bfp_mutex {field}\b",
                path.read_text(),
                re.DOTALL | re.MULTILINE,
            )
        ]
        assert declared, f"{struct}.{field}"


def test_the_package_s_metadata_names_the_same_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION


@pytest.mark.parametrize("part", ["engine", "broker", "spark"])
def test_each_life_is_told_in_twelve_steps_or_less(part: str) -> None:
    """Each step names the files where it happens."""
    text = (ROOT / "docs" / "design" / f"{part}.md").read_text()
    (life,) = re.findall(r"^## The life of .*?(?=^## )", text, re.M | re.S)
    steps = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\n\n)", life, re.M | re.S)
    assert 5 < len(steps) <= 12
    for step in steps:
        assert re.search(r"`[\w/]+\.(?:pyx|py)`|\]\(engine\.md#", step), step
