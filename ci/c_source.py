"""The functions of a C translation unit after its preprocessor, and the names in their bodies."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MARKER = re.compile(r'#\s+(\d+)\s+"([^"]*)"')
_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
_NAME = re.compile(r"[A-Za-z_]\w*")
_HEADER = re.compile(r"([A-Za-z_]\w*)\s*\($")
# A name that is called through an object: x->name(, x.name(.
_MEMBER_CALL = re.compile(r"(?:->|\.)\s*([A-Za-z_]\w*)\s*\)*\s*\(")
# What is called is itself an expression: (*f)(...), table[i](...).
_EXPRESSION_CALL = re.compile(r"\(\s*\*\s*[\w.\->\[\]()]+?\)\s*\(|\]\s*\(")
_CALL = re.compile(r"(?<![\w.>])(?<!-> )([A-Za-z_]\w*)\s*\(")
_WORDS = (
    "if else for while do switch case default return goto break continue sizeof typeof "
    "__typeof__ __attribute__ __extension__ __asm__ asm __inline __inline__ inline static const "
    "volatile struct union enum void int long short char unsigned signed float double _Alignof "
    "_Static_assert __alignof__ __signed__ __restrict"
)
_KEYWORDS = frozenset(_WORDS.split())


@dataclass
class Function:
    """One function definition; `body` has no comments and no literals."""

    name: str
    file: str
    line: int
    body: str

    @property
    def names(self) -> set[str]:
        """Every identifier in the body."""
        return set(_NAME.findall(self.body)) - _KEYWORDS

    @property
    def calls(self) -> set[str]:
        """Names followed by arguments; a member of an object is not among them."""
        return set(_CALL.findall(self.body)) - _KEYWORDS

    @property
    def member_calls(self) -> set[str]:
        """Members of objects that are called."""
        return set(_MEMBER_CALL.findall(self.body))

    @property
    def expression_calls(self) -> list[str]:
        """Calls of something that has no name, as they are written."""
        return [found.group() for found in _EXPRESSION_CALL.finditer(self.body)]


@dataclass
class TranslationUnit:
    """The functions of one .c file and of the files it includes from the same tree."""

    functions: dict[str, Function] = field(default_factory=dict)
    text: str = ""


def read_unit(path: Path, folders: list[Path]) -> TranslationUnit:
    """Preprocess a generated .c file and find its functions.

    Args:
        path: the file.
        folders: what the compiler is to find headers in, besides Python's own.

    Only what `path`, or a header in its own folder or in `folders`, has to say is kept: a function
    that comes from elsewhere is one without a body here.
    Raises: CalledProcessError when there is no compiler or it refuses the file.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    includes = [f"-I{sysconfig.get_path('include')}", *(f"-I{folder}" for folder in folders)]
    done = subprocess.run(
        [compiler[0], "-E", "-std=gnu11", "-O2", "-DNDEBUG", *includes, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    kept = (str(path.parent) + "/", *(f"{folder}/" for folder in folders))
    return parse(done.stdout, kept)


def parse(preprocessed: str, kept: tuple[str, ...]) -> TranslationUnit:
    """Find the functions in the text of those files whose names start with one of `kept`."""
    unit = TranslationUnit()
    texts = []
    for file, line, text in _pieces(preprocessed):
        if file.startswith(kept):
            texts.append((file, line, _LITERAL.sub('""', text)))
    unit.text = "".join(text for _, _, text in texts)
    for function in _functions(texts):
        unit.functions[function.name] = function
    return unit


def _pieces(preprocessed: str) -> Iterator[tuple[str, int, str]]:
    """File, first line and text of each run of lines between two line markers."""
    file, line = "", 1
    lines: list[str] = []
    for each in preprocessed.splitlines(keepends=True):
        marker = _MARKER.match(each)
        if marker is None:
            lines.append(each)
            continue
        yield file, line, "".join(lines)
        file, line, lines = marker[2], int(marker[1]), []
    yield file, line, "".join(lines)


def _functions(texts: list[tuple[str, int, str]]) -> Iterator[Function]:
    """Walk the braces: what stands before one at depth 0 and ends with `)` is a function's head."""
    depth = 0
    head: list[str] = []
    body: list[str] = []
    begun: tuple[str, str, int] | None = None
    for file, first_line, text in texts:
        line = first_line
        for token in re.split(r"([{};\n])", text):
            if token == "{":
                if depth == 0:
                    name = _defined_name("".join(head))
                    begun = None if name is None else (name, file, line)
                    body = []
                depth += 1
            elif token == "}":
                depth -= 1
                if depth == 0:
                    if begun is not None:
                        yield Function(*begun, "".join(body))
                    head, begun = [], None
            elif token == ";" and depth == 0:
                head = []
            elif depth == 0:
                head.append(token)
            if depth > 0:
                body.append(token)
            line += token == "\n"


def _defined_name(head: str) -> str | None:
    """`static int f(int a)` gives f; a struct, an enum or an initialiser gives None."""
    head = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", head).rstrip()
    if not head.endswith(")"):
        return None
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] == ")") - (head[at] == "(")
        if depth == 0:
            found = _HEADER.search(head[: at + 1])
            return None if found is None or found[1] in _KEYWORDS else found[1]
    return None
