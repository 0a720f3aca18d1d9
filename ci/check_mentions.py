"""What documentation, configuration and comments say of files and modules is there.

Looked at are the words of README.md, DESIGN.md, docs, the unreleased part of CHANGELOG.md, every
.toml, Makefile and setup.py, and the comments and docstrings of the sources. A file is named by
its path or by the end of one (`client/warm_up.py`, `warm_up.py`), a module by its dotted name,
and what follows a module's name stands in it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import checkout
from python_statements import statements

TOPS = ("fastprod", "tests", "bench", "ci", "docs", "examples")
WHOLE = ("README.md", "DESIGN.md", "Makefile", "setup.py")
# Made by a build or a run, so that no checkout has them.
MADE = ("fastprod/version.py",)
_PYTHON = (".py", ".pyi")
_CYTHON = (".pyx", ".pxd")
_FILE = re.compile(r"(?<![\w./*<>{}$~-])(?:[\w-]+/)*[\w-]+\.(?:pyx|pxd|pyi|py)(?![\w*./-]*[\w*])")
_FOLDER = re.compile(rf"(?<![\w./$~-])(?:{'|'.join(TOPS)})(?:/[\w-]+)+/?(?![\w*<{{.-])")
_DOTTED = re.compile(r"(?<![\w./:-])fastprod(?:\.\w+)+(?![\w*])")
_CYTHON_WORDS = re.compile(r'#[^\n]*|"""(?:[^"\\]|\\.|"(?!""))*"""')
_RELEASED = re.compile(r"^## (?!\[?unreleased)", re.IGNORECASE | re.MULTILINE)


class Tree:
    """The files of a checkout, by their paths, the ends of these, and their dotted names."""

    def __init__(self, root: Path) -> None:
        self.files = checkout.files(root)
        self._ends: set[str] = set()
        self._modules: dict[str, list[Path]] = {}
        names = [path.relative_to(root).as_posix() for path in self.files]
        for name, path in zip(names, self.files, strict=True):
            parts = name.split("/")
            self._ends.update("/".join(parts[at:]) for at in range(len(parts)))
            for count in range(1, len(parts)):
                self._ends.add("/".join(parts[:count]))
            if path.suffix in (*_PYTHON, *_CYTHON):
                stem = name[: -len(path.suffix)].removesuffix("/__init__")
                self._ends.add(stem)
                self._modules.setdefault(stem.replace("/", "."), []).append(path)
                for count in range(1, len(parts)):
                    self._modules.setdefault(".".join(parts[:count]), [])
        self._ends.update(MADE)

    def has(self, path: str) -> bool:
        return path.rstrip("/") in self._ends

    def has_dotted(self, name: str) -> bool:
        """A module, or what stands in one: there as a word."""
        parts = name.split(".")
        count = next(
            (n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in self._modules), 0
        )
        if count == len(parts):
            return True
        texts = [path.read_text() for path in self._modules.get(".".join(parts[:count]), ())]
        word = re.compile(rf"\b{parts[count]}\b")
        return any(word.search(text) for text in texts)


def words(path: Path, name: str) -> Iterator[tuple[int, str]]:
    """(number of the first line, text) of what is said to readers."""
    if (
        name in WHOLE
        or path.suffix == ".toml"
        or (name.startswith("docs/") and path.suffix == ".md")
    ):
        yield 1, path.read_text()
    elif name == "CHANGELOG.md":
        text = path.read_text()
        released = _RELEASED.search(text)
        yield 1, text[: released.start()] if released else text
    elif path.suffix in _PYTHON:
        yield from _python_words(path.read_text())
    elif path.suffix in _CYTHON:
        text = path.read_text()
        for found in _CYTHON_WORDS.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, found.group()


def _python_words(text: str) -> Iterator[tuple[int, str]]:
    if any(_names_something(line) for line in text.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            said = ast.get_docstring(node, clean=False)
            if said is not None and first is not None:
                yield first.lineno, said


def _names_something(line: str) -> bool:
    """Whether a comment in it could name one: taking a source apart takes long."""
    return any(pattern.search(line) for pattern in (_FILE, _FOLDER, _DOTTED))


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    excused = checkout.exceptions(root, "mentions")
    tree = Tree(root)
    used = set()
    faults = []
    for path in tree.files:
        name = path.relative_to(root).as_posix()
        for line, text in words(path, name):
            for at, mention in _missing(tree, text):
                if mention in excused:
                    if name != "ci/exceptions.toml":
                        used.add(mention)
                else:
                    number = line + text.count("\n", 0, at)
                    faults.append(f"{name}:{number}: there is no {mention}")
    return faults + [
        f"ci/exceptions.toml: [mentions] {mention}: nothing names it, or it is there"
        for mention in excused.keys() - used
    ]


def _missing(tree: Tree, text: str) -> Iterator[tuple[int, str]]:
    for pattern, is_there in ((_FILE, tree.has), (_FOLDER, tree.has), (_DOTTED, tree.has_dotted)):
        for found in pattern.finditer(text):
            if not is_there(found.group()):
                yield found.start(), found.group()


if __name__ == "__main__":
    sys.exit(checkout.conclude("mentions", check(checkout.root_argument(sys.argv))))
