"""No source file above 600 lines, no Python or Cython function above 60."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import checkout
import source_imports
from python_statements import statements

FILE_LINES = 600
FUNCTION_LINES = 60
_LONE_STRING = re.compile(r'^[ \t]*("""|\'\'\')(?:\\.|(?!\1).)*\1', re.DOTALL | re.MULTILINE)
CYTHON_SUFFIXES = (".pyx", ".pxd")
_DEFINITION = re.compile(r"^(\s*)(?:async\s+def|def|cpdef|cdef)\s+(?!class\b|struct\b|enum\b)")
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)?\(")


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and length of each function; its docstring does not count."""
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            length = last - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None and first.end_lineno:
                length -= first.end_lineno - first.lineno + 1
            yield node.name, node.lineno, length


def cython_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """The same for Cython, by indentation; declarations without a body are no functions."""
    lines = source_imports.blank_strings(text).splitlines()
    docstring_lines = _docstring_lines(text)
    for index, line in enumerate(lines):
        found = _DEFINITION.match(line)
        if found is None:
            continue
        body = _end_of_header(lines, index)
        if body is None:
            continue
        end = _end_of_body(lines, body, len(found[1]))
        name = _NAME.search(" ".join(lines[index:body]))
        if name is not None:
            yield name[1], index + 1, end - index - docstring_lines.get(body + 1, 0)


def _docstring_lines(text: str) -> dict[int, int]:
    """Length of each triple-quoted string that stands alone, by the number of its first line."""
    found = {}
    for match in _LONE_STRING.finditer(text):
        found[text.count("\n", 0, match.start()) + 1] = match.group().count("\n") + 1
    return found


def _end_of_header(lines: list[str], index: int) -> int | None:
    """Index of the first body line; None when no colon ends the header: a declaration."""
    depth = 0
    for number in range(index, len(lines)):
        code = lines[number].split("#")[0].rstrip()
        depth += code.count("(") + code.count("[") - code.count(")") - code.count("]")
        if depth <= 0:
            return number + 1 if code.endswith(":") else None
    return None


def _end_of_body(lines: list[str], start: int, indent: int) -> int:
    """Index one past the last line that is indented deeper than the header."""
    end = start
    for number in range(start, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if len(line) - len(line.lstrip()) <= indent:
            break
        end = number + 1
    return end


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    excused = checkout.exceptions(root, "sizes")
    faults: dict[str, list[str]] = {}
    for path in checkout.files(root):
        if path.suffix in checkout.SOURCE_SUFFIXES or path.parent.name == "ci":
            name = str(path.relative_to(root))
            found = list(_of_file(path, name))
            if found:
                faults[name] = found
    stale = [
        f"ci/exceptions.toml: [sizes] {name}: nothing there is too long"
        for name in excused.keys() - faults.keys()
    ]
    return stale + [
        fault for name, found in faults.items() if name not in excused for fault in found
    ]


def _of_file(path: Path, name: str) -> Iterator[str]:
    text = path.read_text()
    count = text.count("\n")
    if count > FILE_LINES:
        yield f"{name}: {count} lines, the limit is {FILE_LINES}; split it by its nouns"
    if path.suffix == ".py":
        functions = python_functions(text)
    elif path.suffix in CYTHON_SUFFIXES:
        functions = cython_functions(text)
    else:
        return
    for function, line, length in functions:
        if length > FUNCTION_LINES:
            yield (
                f"{name}:{line}: {function} has {length} lines without its docstring, "
                f"the limit is {FUNCTION_LINES}"
            )


if __name__ == "__main__":
    sys.exit(checkout.conclude("sizes", check(checkout.root_argument(sys.argv))))
