"""Builds the engine: every .pyx below fastprod/_core is one extension module.

Environment:
    FASTPROD_BUILD  release (default) | debug | asan: compiler flags; generated C goes to
                    build/cython-<mode>/, so that no .c lies beside a source.
    FASTPROD_ONLY   comma-separated modules to build, named from fastprod._core on; default: all.
    FASTPROD_TESTING  1: build fastprod._core.testing too, which tests and benchmarks need. It is
                    not in the wheel.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

MODE = os.environ.get("FASTPROD_BUILD", "release")
ONLY = {name for name in os.environ.get("FASTPROD_ONLY", "").split(",") if name}
WITH_DOORS = os.environ.get("FASTPROD_TESTING") == "1"
CORE = Path("fastprod/_core")
SHARED = "cython_shared"

# The level of each folder or module that has not the usual one. What every `send` runs through is
# worth the most (at -O2 it cost 7 % more), then what goes over bytes (rows to JSON: 12 %). At the
# usual one, by which the compiler takes two thirds of the time, the rest costs nothing that can be
# measured; what runs once a producer, a topic or a setting needs none.
LEVELS = {
    SHARED: "-O2",  # parses every call's keywords
    "bytes": "-O2",
    "columns": "-O2",
    "json": "-O2",
    "log": "-O2",
    "records": "-O2",
    "engine.accumulator": "-O3",
    "producer.producer_base": "-O3",
    "testing": "-O0",
    "codec.loader": "-O0",
    "columns.arrow": "-O0",
    "columns.arrow_types": "-O0",
    "delivery.error_flags": "-O0",
    "engine.engine": "-O0",
    "engine.figures": "-O0",
    "json.layout": "-O0",
    "producer.column_parser": "-O0",
    "tls.openssl": "-O0",
    "tls.tls_context": "-O0",
}
COMMON = [
    "-std=gnu11",
    "-Wall",
    "-Wno-unused-function",
    "-Wno-unreachable-code",
    "-Wno-sign-compare",
]
FLAGS = {
    # -fno-plt: calls from module to module, and into Python, without a detour; 3 % of a `send`.
    "release": (["-O1", "-g0", "-fno-strict-aliasing", "-fno-plt"], []),
    "debug": (["-O0", "-g3", "-DFP_DEBUG=1"], []),
    "asan": (
        ["-O1", "-g2", "-DFP_DEBUG=1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"],
        ["-fsanitize=address,undefined"],
    ),
    "tsan": (
        ["-O1", "-g2", "-DFP_DEBUG=1", "-fno-omit-frame-pointer", "-fsanitize=thread"],
        ["-fsanitize=thread"],
    ),
    # As asan, and tells ci/fuzz_coverage.c which edges were taken, and what was compared.
    "fuzz": (
        [
            *("-O1", "-g1", "-DFP_DEBUG=1", "-fno-omit-frame-pointer"),
            *("-fsanitize=address,undefined", "-fsanitize-coverage=trace-pc,trace-cmp"),
        ],
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


def module_of(source: Path) -> str:
    """The module's name from fastprod._core on."""
    return ".".join(source.relative_to(CORE).with_suffix("").parts)


def is_wanted(module: str) -> bool:
    """Whether this build makes the module, which is named from fastprod._core on."""
    if ONLY:
        return module in ONLY
    return WITH_DOORS or not module.startswith("testing.")


def extensions() -> list[Extension]:
    """The modules that are wanted, and the one with the code that Cython gives all of them."""
    if MODE not in FLAGS:
        sys.exit(f"FASTPROD_BUILD={MODE!r}: expected one of {', '.join(FLAGS)}")
    found = [
        extension(module_of(source), str(source))
        for source in sorted(CORE.rglob("*.pyx"))
        if is_wanted(module_of(source))
    ]
    if not ONLY or SHARED in ONLY:
        # Cython makes its C; there is no .pyx.
        found.append(extension(SHARED, str(CORE / f"{SHARED}.c")))
    return found


def extension(module: str, source: str) -> Extension:
    compile_args, link_args = FLAGS[MODE]
    if MODE == "release":
        level = LEVELS.get(module) or LEVELS.get(module.split(".")[0])
        compile_args = [*compile_args, level] if level else compile_args
    return Extension(
        f"fastprod._core.{module}",
        [source],
        include_dirs=[str(CORE)],
        depends=[str(p) for p in sorted((CORE / "c").glob("*.h"))],
        extra_compile_args=COMMON + compile_args,
        extra_link_args=["-pthread", "-ldl", *link_args],
    )


def translate() -> list[Extension]:
    """Cythonize; a performance hint (a hidden GIL round trip) fails the build."""
    with tempfile.TemporaryFile("w+") as said:
        # The processes that translate write to the descriptor itself.
        own = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            modules = cythonize(
                extensions(),
                nthreads=os.cpu_count() or 1,
                build_dir=f"build/cython-{MODE}",
                compiler_directives=DIRECTIVES,
                shared_utility_qualified_name=f"fastprod._core.{SHARED}",
            )
        finally:
            sys.stderr.flush()
            os.dup2(own, 2)
            os.close(own)
            said.seek(0)
            text = said.read()
            sys.stderr.write(text)
    if "performance hint" in text:
        sys.exit("a Cython performance hint is an error here: see above")
    # The longest compilations first, so that none of them is the last to end.
    return sorted(modules, key=lambda each: -Path(each.sources[0]).stat().st_size)


if sys.platform not in ("linux", "darwin"):
    sys.exit(f"fastprod builds on Linux and macOS; {sys.platform} has no poll/epoll engine yet")

# The processes that translate import this file again where they are not forked: macOS, Python 3.14.
if __name__ == "__main__":
    setup(
        ext_modules=translate(),
        options={"build_ext": {"parallel": os.cpu_count() or 1}},
    )
