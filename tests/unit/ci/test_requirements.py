"""What `make dev` installs comes from pyproject.toml, each requirement once."""

from __future__ import annotations

import pytest

from requirements import BUILD, requirements

PYPROJECT = {
    "build-system": {"requires": ["Cython>=3", "setuptools"]},
    "project": {
        "dependencies": ["kio==1"],
        "optional-dependencies": {"test": ["pytest"], "dev": ["setuptools", "ruff"]},
    },
}


def test_build_run_time_and_chosen_extras_come_once_each() -> None:
    assert requirements(PYPROJECT, []) == ["Cython>=3", "setuptools", "kio==1"]
    assert requirements(PYPROJECT, ["dev"]) == ["Cython>=3", "setuptools", "kio==1", "ruff"]


def test_an_unknown_extra_is_an_error() -> None:
    with pytest.raises(KeyError):
        requirements(PYPROJECT, ["none"])


def test_what_builds_the_engine_can_be_had_alone() -> None:
    assert requirements(PYPROJECT, [BUILD]) == ["Cython>=3", "setuptools"]
