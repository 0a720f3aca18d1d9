"""Installation: installed packages, and what the engine uses on this machine."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import json
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fastprod._core.bytes import crc32c
from fastprod._core.codec import compressor
from fastprod._core.io import selector
from fastprod._core.tls import openssl
from fastprod.version import VERSION

PACKAGE: Final = Path(__file__).parents[1]
_VARIABLES: Final = ("FASTPROD_CRC32C", "FASTPROD_POLL")
_REQUIRED: Final = ("lz4", "zstandard", "crc32c", "numpy", "click", "rich")
_OPTIONAL: Final = ("confluent-kafka", "kafka-python", "aiokafka", "pyarrow", "pyspark")
# Flags of /proc/cpuinfo that the engine or a codec uses.
_FEATURES: Final = frozenset(
    ["sse4_2", "pclmulqdq", "avx2", "avx512f", "vpclmulqdq", "crc32", "pmull", "asimd", "sve"]
)

Facts = Mapping[str, str]
"""Names and values, in the order in which they are shown."""


def fastprod_facts() -> Facts:
    """Version, folder, and how it was installed: wheel, editable, or a bare checkout."""
    found = {"version": VERSION, "folder": str(PACKAGE)}
    try:
        installed = importlib.metadata.distribution("fastprod")
    except importlib.metadata.PackageNotFoundError:
        found["installed as"] = "not installed: imported from a checkout"
    else:
        found["installed as"] = _origin(installed)
        if installed.version != VERSION:
            found["mismatch"] = f"the installed distribution says version {installed.version}"
    modules = sorted(_compiled_modules())
    size = sum(path.stat().st_size for path in modules)
    suffixes = {path.name.partition(".")[2] for path in modules}
    found["compiled"] = f"{len(modules)} modules, {size / 1e6:.1f} MB, {', '.join(suffixes)}"
    return found


def _origin(installed: importlib.metadata.Distribution) -> str:
    tags = re.findall(r"^Tag: (.+)$", installed.read_text("WHEEL") or "", re.MULTILINE)
    installer = (installed.read_text("INSTALLER") or "an unknown installer").strip()
    direct = json.loads(installed.read_text("direct_url.json") or "{}")
    if direct.get("dir_info", {}).get("editable"):
        return f"editable checkout, by {installer}"
    return f"wheel {', '.join(tags) or 'without tags'}, by {installer}"


def _compiled_modules() -> Iterator[Path]:
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        for path in (PACKAGE / "_core").rglob(f"*{suffix}"):
            # ".so" ends the names of other Pythons' modules too.
            if "." not in path.name.removesuffix(suffix):
                yield path


def python_facts() -> Facts:
    """The interpreter and the machine."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    build = "free-threaded" if free_threaded else "with GIL"
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model, features = _cpu()
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}, {build}",
        "executable": sys.executable,
        "platform": platform.platform(),
        "C library": " ".join(platform.libc_ver()).strip() or "unknown",
        "CPU": f"{model}, {platform.machine()}, {cpus} usable",
        "CPU features": " ".join(features) or "unknown",
    }


def _cpu() -> tuple[str, list[str]]:
    """Model and those of its features that matter; only Linux tells the latter."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown", []
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    found = _FEATURES.intersection(flags.group(1).split()) if flags else ()
    return model.group(1) if model else "unknown", sorted(found)


def engine_facts() -> Facts:
    """What the engine uses on this machine."""
    others = [name for name in crc32c.backends() if name != crc32c.backend()]
    found = {
        "CRC-32C": f"{crc32c.backend()} (also possible: {', '.join(others) or 'none'})",
        "poll": selector.poll_backend(os.environ.get("FASTPROD_POLL") == "poll"),
    }
    found |= {f"codec {name}": way for name, way in compressor.describe().items()}
    found |= {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    try:
        found["TLS"] = openssl.describe()
    except ImportError as error:
        found["TLS"] = f"none: {error}"
    return found


def package_facts() -> Facts:
    """Versions of the packages that fastprod needs or can use."""
    found = {name: _version(name) or "MISSING: install it" for name in _REQUIRED}
    found |= {name: f"{_version(name) or 'not installed'} (optional)" for name in _OPTIONAL}
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
