"""The form of Kafka's sasl.jaas.config: ``Module required name="value" ...;``.

Words, quotes, escapes and comments are those of Java's StreamTokenizer as Kafka sets it up.  No
error shows a value.  Source: org.apache.kafka.common.security.JaasConfig of Kafka 4.3.0.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

_TOKEN: Final = re.compile(
    r"""
    [\x00-\x20]+                                    # blanks
    | /\*.*?(?:\*/|\Z)                              # comments
    | /[^\n\r]*
    | (?P<sign>[=;])
    | "(?P<double>(?:\\.|[^"\\\n\r])*)"
    | '(?P<single>(?:\\.|[^'\\\n\r])*)'
    | (?P<word>[^\x00-\x20/"'=;]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


class JaasLine(NamedTuple):
    """What a line says.

    Attributes:
        module: name of the login module, a Java class.
        options: its options; not shown.
    """

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"JaasLine({self.module!r}, options {', '.join(self.options)})"


class JaasError(ValueError):
    """A line does not have the form; the text says why without any value."""


def parse_jaas(text: str) -> JaasLine:
    """Return what a line with one login module says.

    Raises:
        JaasError: it does not have the form, or names several modules.
    """
    tokens = _Tokens(text)
    module = tokens.word("it has no login module")
    flag = tokens.word("it has no flag such as 'required' behind the module")
    if flag.lower() not in _FLAGS:
        _fail(f"the word behind the module must be one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while not tokens.takes(";"):
        name = tokens.word("it does not end with ';'")
        if not tokens.takes("="):
            _fail(f"option {len(options) + 1} has no '=' behind its name")
        options[name] = tokens.word(f"option {len(options) + 1} has no value")
    if not tokens.at_end:
        _fail("it has more than one login module, or something behind its ';'")
    return JaasLine(module, options)


class _Tokens:
    """The tokens of a line: (whether it is a sign, its text)."""

    def __init__(self, text: str) -> None:
        self._found: list[tuple[bool, str]] = []
        self._next = 0
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:  # a quote without its end is all that the pattern leaves
                _fail("a value in quotes has no end on its line")
            position = match.end()
            kind = match.lastgroup
            if kind == "sign":
                self._found.append((True, match.group()))
            elif kind == "word":
                self._found.append((False, match.group()))
            elif kind is not None:
                self._found.append((False, _ESCAPE.sub(_unescaped, match.group(kind))))

    @property
    def at_end(self) -> bool:
        return self._next == len(self._found)

    def takes(self, sign: str) -> bool:
        """Whether the next token is `sign`, which is passed by then."""
        if self.at_end or self._found[self._next] != (True, sign):
            return False
        self._next += 1
        return True

    def word(self, why_not: str) -> str:
        """Return the next token, a word or a text in quotes."""
        if self.at_end or self._found[self._next][0]:
            _fail(why_not)
        self._next += 1
        return self._found[self._next - 1][1]


def _unescaped(found: re.Match[str]) -> str:
    escape = found.group(1)
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _ESCAPED.get(escape, escape)


def _fail(why: str) -> NoReturn:
    raise JaasError(why)
