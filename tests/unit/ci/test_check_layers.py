"""ci/check_layers.py finds each kind of planted fault, and none in an orderly house."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_layers

LAYERS = """
[[floor]]
name = "ground"
modules = ["fastprod.errors"]
[[floor]]
name = "bytes"
modules = ["fastprod._core.*"]
[[floor]]
name = "io"
modules = ["fastprod._core.selector", "fastprod._core.channel"]
[[floor]]
name = "loops"
modules = ["fastprod.client.*", "fastprod.broker.*"]
[[floor]]
name = "front door"
modules = ["fastprod"]
[[forbidden]]
modules = ["fastprod.broker.*"]
imports = ["fastprod.client.*"]
reason = "a test must not meet itself"
"""
ORDERLY = {
    "__init__.py": "from fastprod.client.metadata import Metadata\n",
    "errors.py": "import os\n",
    "_core/__init__.py": "",
    "_core/wire.pxd": "from libc.stdint cimport uint8_t\n",
    "_core/wire.pyx": "from fastprod.errors import Broken\n",
    "_core/channel.pxd": "from fastprod._core.wire cimport (\n    get,\n    put,\n)\n",
    "_core/selector.pyx": "cimport fastprod._core.wire as wire, fastprod._core.channel\n",
    "client/__init__.py": "",
    "client/cluster.py": "from fastprod._core import wire\n",
    "client/metadata.py": "from fastprod.client.cluster import Cluster\n",
    "broker/__init__.py": "",
    "broker/log.py": "import fastprod.errors\n",
}


def house(root: Path, **changed: str) -> Path:
    """An orderly checkout, with some files added or written anew ("client__cluster_py")."""
    files = dict(ORDERLY)
    for name, text in changed.items():
        folder, _, rest = name.rpartition("__")
        stem, _, suffix = rest.rpartition("_")
        files[f"{folder}/{stem}.{suffix}" if folder else f"{stem}.{suffix}"] = text
    for name, text in files.items():
        path = root / "fastprod" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "ci").mkdir()
    (root / "ci" / "layers.toml").write_text(LAYERS)
    return root


def test_an_orderly_house_has_no_faults(tmp_path: Path) -> None:
    assert check_layers.check(house(tmp_path)) == []


def test_the_edges_of_cython_sources_are_seen(tmp_path: Path) -> None:
    edges = check_layers.read_house(house(tmp_path)).edges
    found = {(edge.importer, edge.imported, edge.where) for edge in edges}
    assert {
        ("fastprod._core.channel", "fastprod._core.wire", "fastprod/_core/channel.pxd:1"),
        ("fastprod._core.selector", "fastprod._core.wire", "fastprod/_core/selector.pyx:1"),
        ("fastprod._core.selector", "fastprod._core.channel", "fastprod/_core/selector.pyx:1"),
    } <= found


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        (
            "errors_py",
            "def f():\n    from fastprod.client.cluster import C\n",
            "fastprod/errors.py:2: fastprod.errors (floor ground) imports "
            "fastprod.client.cluster from the higher floor loops",
        ),
        (
            "_core__wire_pxd",
            '"""Doc\nfrom fastprod.nothing import x\n"""\nfrom fastprod._core.channel cimport C\n',
            "fastprod/_core/wire.pxd:4: fastprod._core.wire (floor bytes) imports "
            "fastprod._core.channel from the higher floor io",
        ),
        (
            "_core__channel_pyx",
            "from fastprod._core cimport selector\n",
            "a circle of imports on floor io: fastprod._core.channel -> "
            "fastprod._core.selector -> fastprod._core.channel",
        ),
        (
            "client__cluster_py",
            "from fastprod import Metadata\n",
            "fastprod/client/cluster.py:1: fastprod.client.cluster imports the package root "
            "fastprod",
        ),
        (
            "client__cluster_py",
            "import fastprod._core\n",
            "fastprod/client/cluster.py:1: fastprod.client.cluster imports the package root "
            "fastprod._core",
        ),
        (
            "broker__log_py",
            "from fastprod.client import Metadata\n",
            "fastprod/broker/log.py:1: fastprod.broker.log imports Metadata through the package "
            "root fastprod.client; import it from the module that defines it",
        ),
        (
            "broker__log_py",
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from fastprod.client.cluster import C\n",
            "fastprod/broker/log.py:3: fastprod.broker.log imports fastprod.client.cluster: "
            "a test must not meet itself",
        ),
        (
            "client__cluster_py",
            "from .metadata import Metadata\n",
            "fastprod/client/cluster.py:1: a relative import; write the whole name",
        ),
        (
            "util_py",
            "",
            "fastprod.util: on 0 floors of ci/layers.toml; give it one",
        ),
        (
            "client__cluster_py",
            "import fastprod.gone\n",
            "fastprod/client/cluster.py:1: fastprod.gone is no module on a floor",
        ),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, name: str, text: str, fault: str) -> None:
    assert fault in check_layers.check(house(tmp_path, **{name: text}))
