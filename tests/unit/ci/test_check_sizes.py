"""ci/check_sizes.py finds files and functions that are too long, in Python and in Cython."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_sizes

BODY = "    a = 1\n"


def checkout_of(root: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = root / "fastprod" / name.replace("__", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root


def test_files_and_functions_at_the_limits_pass(tmp_path: Path) -> None:
    function = "def f():\n" + BODY * 59
    full = function + "a = 1\n" * 540
    assert check_sizes.check(checkout_of(tmp_path, a__py=full, b__pyx=full)) == []


def test_a_file_of_601_lines_is_found(tmp_path: Path) -> None:
    assert check_sizes.check(checkout_of(tmp_path, c__h="// x\n" * 601)) == [
        "fastprod/c.h: 601 lines, the limit is 600; split it by its nouns"
    ]


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a__py", "def long():\n"),
        ("a__py", "async def long():\n"),
        ("a__pyx", "def long(a, b=(1, 2)):\n"),
        ("a__pyx", "cdef int long(int a) except -1:\n"),
        ("a__pyx", "cdef inline const uint8_t* long(void (*f)(int) noexcept) noexcept nogil:\n"),
        ("a__pxd", "cdef inline FpStatus long(int32_t[4] a,  # four)\n    int b) nogil:\n"),
    ],
)
def test_a_function_of_61_lines_is_found(tmp_path: Path, name: str, header: str) -> None:
    text = "x = 1\n" + header + BODY * (61 - header.count("\n")) + "\ny = 1\n"
    found = check_sizes.check(checkout_of(tmp_path, **{name: text}))
    assert len(found) == 1
    assert ": long has 61 lines without its docstring, the limit is 60" in found[0]


@pytest.mark.parametrize("name", ["a__py", "a__pyx"])
def test_the_docstring_of_a_function_does_not_count(tmp_path: Path, name: str) -> None:
    doc = '    """What.\n' + "\n    More.\n" * 20 + '    """\n'
    text = "def f():\n" + doc + BODY * 59
    assert check_sizes.check(checkout_of(tmp_path, **{name: text})) == []
    longer = check_sizes.check(checkout_of(tmp_path, **{name: text + BODY}))
    assert len(longer) == 1


def test_a_method_of_a_cdef_class_is_found_and_the_class_is_not(tmp_path: Path) -> None:
    methods = "    cpdef one(self):\n" + "        a = 1\n" * 40
    long_one = "    cdef two(self):\n" + "        a = 1\n" * 60
    text = "cdef class C:\n" + methods + long_one + "cdef extern int g(int) nogil\n"
    assert check_sizes.check(checkout_of(tmp_path, a__pyx=text)) == [
        "fastprod/a.pyx:43: two has 61 lines without its docstring, the limit is 60"
    ]


def test_an_exception_excuses_and_a_needless_one_is_a_fault(tmp_path: Path) -> None:
    root = checkout_of(tmp_path, table__py="a = 1\n" * 601)
    (root / "ci").mkdir()
    toml = root / "ci" / "exceptions.toml"
    toml.write_text('[sizes]\n"fastprod/table.py" = "a generated table"\n')
    assert check_sizes.check(root) == []
    toml.write_text(toml.read_text() + '"fastprod/short.py" = "was long once"\n')
    assert check_sizes.check(root) == [
        "ci/exceptions.toml: [sizes] fastprod/short.py: nothing there is too long"
    ]
