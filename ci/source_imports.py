"""Which modules a Python or Cython source imports or cimports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from python_statements import statements

_TRIPLE_QUOTED = re.compile(r'("""|\'\'\')(?:\\.|(?!\1).)*\1', re.DOTALL)
_COMMENT = re.compile(r"#[^\n]*")
_FROM = re.compile(r"^\s*from\s+([\w.]+)\s+(c?)import\s+(.+)$")
_IMPORT = re.compile(r"^\s*(c?)import\s+(.+)$")
_FROM_PARENTHESISED = re.compile(r"^(\s*from\s+[\w.]+\s+c?import\s*)\(([^()]*)\)", re.MULTILINE)


@dataclass(frozen=True)
class Import:
    """`from module import names` when there are names, else `import module`.

    The module of a relative import starts with its dots. What stands under `if TYPE_CHECKING:` is
    not imported at run time, nor is what is cimported.
    """

    line: int
    module: str
    names: tuple[str, ...]
    at_run_time: bool = True


def imports(path: Path) -> list[Import]:
    """All imports in a file, wherever they stand; `cimport` counts."""
    text = path.read_text()
    if path.suffix in (".py", ".pyi"):
        return _of_python(text, str(path))
    return _of_cython(text)


def _of_python(text: str, name: str) -> list[Import]:
    found = []
    tree = ast.parse(text, name)
    unseen = {id(node) for each in statements(tree) for node in _for_types_only(each)}
    for node in statements(tree):
        runs = id(node) not in unseen
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, each.name, (), runs) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = tuple(each.name for each in node.names)
            found.append(Import(node.lineno, module, names, runs))
    return found


def _for_types_only(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in the body of `if TYPE_CHECKING:`, if the node is one."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for each in node.body:
            yield from statements(each)


def blank_strings(text: str) -> str:
    """The text with each triple-quoted string replaced by as many empty lines."""
    return _TRIPLE_QUOTED.sub(lambda found: "\n" * found.group().count("\n"), text)


def _of_cython(text: str) -> list[Import]:
    plain = _COMMENT.sub("", blank_strings(text))
    # A parenthesised list of names becomes one line; the lines after it keep their numbers.
    plain = _FROM_PARENTHESISED.sub(
        lambda found: f"{found[1]} {' '.join(found[2].split())}" + "\n" * found.group().count("\n"),
        plain,
    )
    found = []
    for number, line in enumerate(plain.splitlines(), 1):
        if match := _FROM.match(line):
            found.append(Import(number, match[1], tuple(_names(match[3])), not match[2]))
        elif match := _IMPORT.match(line):
            found += [Import(number, name, (), not match[1]) for name in _names(match[2])]
    return found


def _names(text: str) -> list[str]:
    return [part.split()[0] for part in text.strip(" ();").split(",") if part.strip()]
