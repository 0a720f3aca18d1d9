"""ci/check_nogil.py finds each planted way from the I/O thread into the interpreter.

The planted engine is small, but Cython itself translates it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from Cython.Compiler.Main import compile
from Cython.Compiler.Options import CompilationOptions

import check_nogil

RULES = """
main = ["sender.sender_main"]
compiler = ["__builtin_"]
[c]
memory = ["free"]
[pointer]
urge = { targets = ["low.delivery._urge"], why = "test" }
"""
SOUND = {
    "low/delivery.pxd": """
cdef struct Results:
    void (*urge)(int) noexcept nogil
    int (*other)(int) noexcept nogil
    int count
cdef void results_init(Results* r) noexcept nogil
cdef int results_take(Results* r) noexcept nogil
cdef object results_list(Results* r)
""",
    "low/delivery.pyx": """
cdef int _urged = 0

cdef void _urge(int n) noexcept nogil:
    global _urged
    _urged += n

cdef void _shout(int n) noexcept nogil:
    pass

cdef void results_init(Results* r) noexcept nogil:
    r.urge = _urge

cdef int results_take(Results* r) noexcept nogil:
    r.urge(1)
    return r.count

cdef object results_list(Results* r):
    return [r.count]
""",
    "sender.pyx": """
from libc.stdlib cimport free, system
from fastprod._core.low.delivery cimport Results, results_list, results_take

cdef int _left() noexcept nogil:
    return 0

cdef inline int _turn(Results* r) noexcept nogil:
    return results_take(r) + _left()

cdef void* sender_main(void* r) noexcept nogil:
    while _turn(<Results*>r):
        pass
    free(r)
    return NULL

def main(size_t r):
    results_list(<Results*>r)
    sender_main(<void*>r)
""",
}


def translated(root: Path, replaced: dict[str, tuple[str, str]], rules: str = RULES) -> Path:
    """A checkout with the sound engine, `(old, new)` replaced in some of its files."""
    core = root / check_nogil.CORE
    generated = root / check_nogil.GENERATED
    for folder in (core, generated):
        (folder / "low").mkdir(parents=True)
    (root / "ci").mkdir()
    (root / check_nogil.RULES).write_text(rules)
    for package in (root / "fastprod", core, core / "low"):
        (package / "__init__.py").write_text("")
    for name, text in SOUND.items():
        old, new = replaced.get(name, ("", ""))
        assert old in text
        (core / name).write_text(text.replace(old, new))
    sources = [str(core / name) for name in SOUND if name.endswith(".pyx")]
    options = CompilationOptions(  # type: ignore[no-untyped-call]
        language_level=3, include_path=[str(root)], compiler_directives={"cdivision": True}
    )
    found = compile(sources, options)  # type: ignore[no-untyped-call]
    assert found.num_errors == 0
    for translation in core.rglob("*.c"):
        translation.rename(generated / translation.relative_to(core))
    return root


def test_an_engine_that_stays_away_from_python_passes(tmp_path: Path) -> None:
    assert check_nogil.check(translated(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "wanted"),
    [
        pytest.param(
            "low/delivery.pyx",
            "    _urged += n\n",
            "    _urged += n\n    with gil:  # GIL: a test\n        print(n)\n",
            "PyGILState_Ensure in sender.sender_main -> sender._turn -> low.delivery.results_take "
            "-> low.delivery._urge",
            id="a call behind a pointer takes the GIL",
        ),
        pytest.param(
            "sender.pyx",
            "cdef int _left() noexcept nogil:\n    return 0\n",
            "cdef int _left() except -1 nogil:\n    raise ValueError\n",
            "PyGILState_Ensure in sender.sender_main -> sender._turn -> sender._left",
            id="a call that may raise",
        ),
        pytest.param(
            "low/delivery.pyx",
            "    return r.count\n\ncdef object",
            "    return r.other(r.count)\n\ncdef object",
            "calls ->other, which ci/nogil.toml does not list",
            id="a pointer that is not listed",
        ),
        pytest.param(
            "low/delivery.pyx",
            "    r.urge = _urge\n",
            "    r.urge = _urge\n    r.urge = _shout\n",
            "->urge is given low.delivery._shout, which ci/nogil.toml does not list",
            id="a listed pointer with an unlisted target",
        ),
        pytest.param(
            "sender.pyx",
            "    free(r)\n",
            "    system(<char*>r)\n",
            "system() is not known to need no GIL, in sender.sender_main",
            id="a C function that is not listed",
        ),
        pytest.param(
            "sender.pyx",
            "    results_list(<Results*>r)\n",
            "    with nogil:\n        with gil:\n            results_list(<Results*>r)\n",
            "a `with gil` without `# GIL: why`",
            id="a GIL taken without a reason, by another thread",
        ),
    ],
)
def test_a_planted_fault_is_found(
    tmp_path: Path, file: str, old: str, new: str, wanted: str
) -> None:
    root = translated(tmp_path, {file: (old, new)})
    found = check_nogil.check(root)
    assert any(wanted in fault for fault in found), found


def test_a_reason_on_the_line_or_the_one_above_is_enough(tmp_path: Path) -> None:
    said = "    with nogil:\n        # GIL: a list is made\n        with gil:\n"
    root = translated(
        tmp_path,
        {
            "sender.pyx": (
                "    results_list(<Results*>r)\n",
                said + "            results_list(<Results*>r)\n",
            )
        },
    )
    assert check_nogil.check(root) == []


def test_what_is_older_than_its_source_is_not_believed(tmp_path: Path) -> None:
    root = translated(tmp_path, {})
    generated = root / check_nogil.GENERATED / "sender.c"
    long_ago = generated.stat().st_mtime - 3600
    os.utime(generated, (long_ago, long_ago))
    (fault,) = check_nogil.check(root)
    assert "sender.c: is older than its source" in fault


def test_what_is_not_built_is_said(tmp_path: Path) -> None:
    root = translated(tmp_path, {})
    (root / check_nogil.GENERATED / "low" / "delivery.c").unlink()
    (fault,) = check_nogil.check(root)
    assert "delivery.c: is missing; build it first: make dev" in fault


def test_a_main_function_that_is_gone_is_said(tmp_path: Path) -> None:
    root = translated(tmp_path, {}, RULES.replace("sender.sender_main", "sender.gone"))
    (fault,) = check_nogil.check(root)
    assert "there is no function sender.gone" in fault
