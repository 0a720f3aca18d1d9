"""Builds the engine: every fastprod/_core/*.pyx is one extension module.

Environment:
    FASTPROD_BUILD  release (default) | debug | asan: compiler flags; generated C goes to
                    build/cython-<mode>/, so that no .c lies beside a source.
    FASTPROD_ONLY   comma-separated module stems to build; default: all.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

MODE = os.environ.get("FASTPROD_BUILD", "release")
ONLY = {name for name in os.environ.get("FASTPROD_ONLY", "").split(",") if name}
CORE = Path("fastprod/_core")

COMMON = [
    "-std=gnu11",
    "-Wall",
    "-Wno-unused-function",
    "-Wno-unreachable-code",
    "-Wno-sign-compare",
]
FLAGS = {
    "release": (["-O3", "-g0", "-fno-strict-aliasing"], []),
    "debug": (["-O0", "-g3", "-DFP_DEBUG=1"], []),
    "asan": (
        ["-O1", "-g2", "-DFP_DEBUG=1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"],
        ["-fsanitize=address,undefined"],
    ),
}
DIRECTIVES = {
    "language_level": 3,
    "binding": True,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": False,
    "auto_pickle": False,
}


def extensions() -> list[Extension]:
    if MODE not in FLAGS:
        sys.exit(f"FASTPROD_BUILD={MODE!r}: expected one of {', '.join(FLAGS)}")
    compile_args, link_args = FLAGS[MODE]
    return [
        Extension(
            f"fastprod._core.{source.stem}",
            [str(source)],
            include_dirs=[str(CORE)],
            depends=[str(p) for p in sorted((CORE / "c").glob("*.h"))],
            extra_compile_args=COMMON + compile_args,
            extra_link_args=["-pthread", "-ldl", *link_args],
        )
        for source in sorted(CORE.glob("*.pyx"))
        if not ONLY or source.stem in ONLY
    ]


def translate() -> list[Extension]:
    """Cythonize; a performance hint (a hidden GIL round trip) fails the build."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            modules = cythonize(
                extensions(), build_dir=f"build/cython-{MODE}", compiler_directives=DIRECTIVES
            )
        finally:
            sys.__stderr__.write(said.getvalue())
    if "performance hint" in said.getvalue():
        sys.exit("a Cython performance hint is an error here: see above")
    return modules


if sys.platform not in ("linux", "darwin"):
    sys.exit(f"fastprod builds on Linux and macOS; {sys.platform} has no poll/epoll engine yet")

setup(ext_modules=translate())
