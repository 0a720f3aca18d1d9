"""fastprod.cli.installation: facts that doctor tells, against where they come from."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

import pytest

from fastprod._core.bytes import crc32c
from fastprod._core.codec import compressor
from fastprod.cli import installation
from fastprod.cli.installation import (
    engine_facts,
    fastprod_facts,
    package_facts,
    python_facts,
)
from fastprod.version import VERSION


def test_fastprod_tells_version_folder_and_compiled_modules() -> None:
    facts = fastprod_facts()
    assert facts["version"] == VERSION
    folder = Path(facts["folder"])
    assert (folder / "_core").is_dir()
    count = int(facts["compiled"].split()[0])
    assert count >= len(list((folder / "_core").rglob("*.pyx"))) > 20


class Installed(importlib.metadata.Distribution):
    """A distribution of which only the metadata's files are there."""

    def __init__(self, version: str, files: dict[str, str]) -> None:
        self._files = files | {"METADATA": f"Name: fastprod\nVersion: {version}\n"}

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"WHEEL": "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n", "INSTALLER": "pip\n"},
            "wheel cp311-cp311-linux_x86_64, by pip",
        ),
        (
            {"direct_url.json": '{"dir_info": {"editable": true}}', "INSTALLER": "pip"},
            "editable checkout, by pip",
        ),
        ({}, "wheel without tags, by an unknown installer"),
    ],
)
def test_the_origin_is_read_from_the_distribution(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], told: str
) -> None:
    found = Installed("0.0.9", files)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    facts = fastprod_facts()
    assert facts["installed as"] == told
    assert "0.0.9" in facts["mismatch"]


def test_python_and_machine_are_told() -> None:
    facts = python_facts()
    assert platform.python_version() in facts["Python"]
    assert platform.machine() in facts["CPU"]


def test_the_engines_ways_are_those_in_use() -> None:
    facts = engine_facts()
    assert facts["CRC-32C"].split()[0] == crc32c.backend()
    for name, way in compressor.describe().items():
        assert facts[f"codec {name}"] == way


def test_the_poll_backend_is_the_one_that_the_environment_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTPROD_POLL", "poll")
    assert engine_facts()["poll"] == "poll"
    assert engine_facts()["FASTPROD_POLL"] == "poll"
    monkeypatch.delenv("FASTPROD_POLL")
    assert engine_facts()["poll"] == ("epoll" if platform.system() == "Linux" else "poll")


def test_packages_are_told_with_their_versions_and_missing_ones_as_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert package_facts()["click"] == importlib.metadata.version("click")
    monkeypatch.setattr(installation, "_REQUIRED", ("no-such-package",))
    monkeypatch.setattr(installation, "_OPTIONAL", ("no-such-extra",))
    assert package_facts() == {
        "no-such-package": "MISSING: install it",
        "no-such-extra": "not installed (optional)",
    }
