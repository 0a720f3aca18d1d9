"""RegularExpression: names of topics that match, found in time that grows with their lengths alone.

Any client may send an expression. Python's own `re` can take for ever over one; Kafka uses RE2,
whose syntax this is, but for `\\b`, `\\B`, `\\C`, `\\p` and classes of Unicode.

Source: the syntax of RE2; KIP-848; contract B-E3.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Final, NamedTuple

_MOST_STATES: Final = 1_000
_MOST_REPEATS: Final = 1_000
_MOST_CHARACTERS: Final = 10_000
_MOST_CHOICES: Final = 10_000
_DEEPEST: Final = 100
_MOST_KNOWN: Final = 500_000
"""States in all sets that are remembered."""

_ALL: Final = frozenset(map(chr, range(128)))
"""What names are made of; anything else matches as `.` does."""

_DIGITS: Final = frozenset(string.digits)
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_SPACE: Final = frozenset("\t\n\f\r ")
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "digit": _DIGITS,
    "lower": frozenset(string.ascii_lowercase),
    "punct": frozenset(string.punctuation),
    "space": _SPACE | {"\v"},
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class InvalidExpression(ValueError):
    """It is none, or not one that is understood here."""


class _Characters(NamedTuple):
    """One character out of some."""

    allowed: frozenset[str]
    others: bool


_ANY: Final = _Characters(_ALL - {"\n"}, True)


class _Step(NamedTuple):
    """A state of the automaton.

    Attributes:
        characters: it goes on with one of these; None: it goes on without one.
        next: where to.
        only_at: "^" or "$": only there.
    """

    characters: _Characters | None
    next: tuple[int, ...]
    only_at: str = ""


_Fragment = Callable[[int], int]
"""Makes the states of a part, given the one behind it; returns the first."""


class RegularExpression:
    """One expression. It must match a whole name. One thread.

    Args:
        text: in RE2's syntax.

    Raises:
        InvalidExpression: it is not understood.
    """

    def __init__(self, text: str) -> None:
        parser = _Parser(text)
        # The end has number 0.
        self._first = parser.whole()(0)
        self._steps = parser.steps
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._known_states = 0
        self._start = self._closure([self._first], "^")

    def matches(self, name: str) -> bool:
        """Whether it matches all of a name."""
        states = self._start
        for character in name:
            states = self._after(states, character)
            if not states:
                return False
        return 0 in self._closure(states, "$" if name else "^$")

    def _after(self, states: frozenset[int], character: str) -> frozenset[int]:
        key = states, character
        found = self._known.get(key)
        if found is not None:
            return found
        reached: list[int] = []
        for each in states:
            step = self._steps[each]
            wanted = step.characters
            if wanted is not None and (
                character in wanted.allowed if character in _ALL else wanted.others
            ):
                reached += step.next
        found = self._known[key] = self._closure(reached, "")
        self._known_states += len(found) + 1
        if self._known_states > _MOST_KNOWN:
            self._known.clear()
            self._known_states = 0
        return found

    def _closure(self, states: list[int] | frozenset[int], place: str) -> frozenset[int]:
        """These, and those that are reached without a character."""
        found = set(states)
        waiting = list(found)
        while waiting:
            step = self._steps[waiting.pop()]
            if step.characters is not None or (step.only_at and step.only_at not in place):
                continue
            new = [each for each in step.next if each not in found]
            found.update(new)
            waiting += new
        return frozenset(found)


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._folds = False
        self._parts = 0
        self._choices = 0
        self.steps: list[_Step] = [_Step(None, ())]

    def whole(self) -> _Fragment:
        """All of it.

        Raises:
            InvalidExpression: it is not understood.
        """
        # Parts of it are looked at more than once.
        if len(self._text) > _MOST_CHARACTERS:
            raise self._invalid("expression too large")
        fragment = self._alternatives()
        if self._at < len(self._text):
            raise self._invalid("unexpected )")
        return fragment

    def _invalid(self, reason: str) -> InvalidExpression:
        return InvalidExpression(reason)

    def _add(self, step: _Step) -> int:
        if len(self.steps) >= _MOST_STATES:
            raise InvalidExpression("expression too large")
        self.steps.append(step)
        return len(self.steps) - 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, what: str) -> bool:
        if self._text.startswith(what, self._at):
            self._at += len(what)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._invalid("unexpected end")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> _Fragment:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._invalid("expression nests too deeply")
        choices = [self._sequence()]
        while self._take("|"):
            choices.append(self._sequence())
        self._depth -= 1
        if len(choices) == 1:
            return choices[0]

        def make(end: int) -> int:
            # Choices without any states take room, too, as often as they are repeated.
            self._choices += len(choices)
            if self._choices > _MOST_CHOICES:
                raise self._invalid("expression too large")
            return self._add(_Step(None, tuple([each(end) for each in choices])))

        return make

    def _sequence(self) -> _Fragment:
        parts = []
        while self._peek() not in ("", "|", ")"):
            if self._take("\\Q"):
                literal, _, _ = self._text[self._at :].partition("\\E")
                self._at = min(self._at + len(literal) + 2, len(self._text))
                parts += [self._one(self._character(each)) for each in literal]
                if literal:
                    parts.append(self._repeated(parts.pop()))
                continue
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))

        def make(end: int) -> int:
            for each in reversed(parts):
                end = each(end)
            return end

        return make

    def _repeated(self, part: _Fragment) -> _Fragment:
        character = self._peek()
        if character == "{":
            bounds = self._bounds()
            if bounds is None:
                return part
            low, high = bounds
        elif character and character in "*+?":
            self._at += 1
            low, high = int(character == "+"), 1 if character == "?" else None
        else:
            return part
        self._take("?")
        if self._peek() and self._peek() in "*+?":
            raise self._invalid("invalid nested repetition operator")
        return self._counted(part, low, high)

    def _bounds(self) -> tuple[int, int | None] | None:
        """The numbers of `{2,3}`; None: the brace is a character."""
        inside, found, _ = self._text[self._at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        if not found or not low.isdecimal() or not (high.isdecimal() or not high):
            return None
        self._at += len(inside) + 2
        first = int(low)
        last = (int(high) if high else None) if comma else first
        if max(first, last or 0) > _MOST_REPEATS or (last is not None and last < first):
            raise self._invalid("invalid repeat count")
        return first, last

    def _counted(self, part: _Fragment, low: int, high: int | None) -> _Fragment:
        def make(end: int) -> int:
            if high is None:
                loop = self._add(_Step(None, ()))
                self.steps[loop] = _Step(None, (part(loop), end))
                end = loop
            else:
                last = end
                for _ in range(high - low):
                    end = self._add(_Step(None, (part(end), last)))
            for _ in range(low):
                # A part without any states would take its time, too.
                self._parts += 1
                if self._parts > _MOST_STATES:
                    raise InvalidExpression("expression too large")
                end = part(end)
            return end

        return make

    def _atom(self) -> _Fragment | None:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._one(self._class())
        if character == ".":
            return self._one(_ANY)
        if character in "^$":
            return lambda end: self._add(_Step(None, (end,), character))
        if character == "\\":
            return self._escape()
        if character in "*+?":
            self._at -= 1
            raise self._invalid("missing argument to repetition operator")
        if character == "{" and self._looks_counted():
            self._at -= 1
            raise self._invalid("missing argument to repetition operator")
        return self._one(self._character(character))

    def _looks_counted(self) -> bool:
        inside, found, _ = self._text[self._at :].partition("}")
        low, _, high = inside.partition(",")
        return bool(found) and low.isdecimal() and (high.isdecimal() or not high)

    def _one(self, characters: _Characters) -> _Fragment:
        return lambda end: self._add(_Step(characters, (end,)))

    def _character(self, character: str) -> _Characters:
        if character not in _ALL:
            # No name has it.
            return _Characters(frozenset(), False)
        return _Characters(self._folded(frozenset(character)), False)

    def _folded(self, characters: frozenset[str]) -> frozenset[str]:
        if not self._folds:
            return characters
        return characters | {found for each in characters for found in (each.lower(), each.upper())}

    def _group(self) -> _Fragment | None:
        folds = self._folds
        if self._take("?P<") or (self._text[self._at : self._at + 2] == "?<" and self._take("?<")):
            name, found, _ = self._text[self._at :].partition(">")
            if not found or not name.isidentifier():
                raise self._invalid("invalid named capture")
            self._at += len(name) + 1
        elif self._take("?"):
            self._flags()
            if self._take(")"):
                # They hold until the end of the group around.
                return None
            if not self._take(":"):
                raise self._invalid("invalid or unsupported Perl syntax")
        inner = self._alternatives()
        if not self._take(")"):
            raise self._invalid("missing closing )")
        self._folds = folds
        return inner

    def _flags(self) -> None:
        """Those of a group; all but `i` make no difference for whole names of one line."""
        sets = True
        while self._peek() and self._peek() in "imsU-":
            flag = self._next()
            if flag == "-":
                sets = False
            elif flag == "i":
                self._folds = sets

    def _escape(self) -> _Fragment:
        character = self._peek()
        if character in ("A", "z"):
            self._at += 1
            place = "^" if character == "A" else "$"
            return lambda end: self._add(_Step(None, (end,), place))
        return self._one(self._escaped())

    def _escaped(self) -> _Characters:
        """What follows a backslash, outside of a class or in it."""
        character = self._next()
        if character.lower() in _CLASSES:
            found = _CLASSES[character.lower()]
            return (
                _Characters(_ALL - found, True)
                if character.isupper()
                else _Characters(found, False)
            )
        if character == "x":
            digits = self._text[self._at : self._at + 2]
            try:
                code = int(digits, 16) if len(digits) == 2 else -1
            except ValueError:
                code = -1
            if code < 0:
                raise self._invalid("invalid escape sequence")
            self._at += 2
            return self._character(chr(code))
        if character in _CONTROLS:
            return self._character(_CONTROLS[character])
        if character.isascii() and character.isalnum():
            raise self._invalid("invalid escape sequence")
        return self._character(character)

    def _class(self) -> _Characters:
        is_negated = self._take("^")
        allowed: frozenset[str] = frozenset()
        others = False
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            part, is_single = self._class_part()
            if is_single and self._text[self._at : self._at + 1] == "-" and self._ends_range():
                self._at += 1
                last, is_last_single = self._class_part()
                if not is_last_single:
                    raise self._invalid("invalid character class range")
                part = self._range(part, last)
            allowed |= self._folded(part.allowed)
            others |= part.others
        self._at += 1
        return (
            _Characters(_ALL - allowed, not others) if is_negated else _Characters(allowed, others)
        )

    def _ends_range(self) -> bool:
        return self._text[self._at + 1 : self._at + 2] not in ("", "]")

    def _class_part(self) -> tuple[_Characters, bool]:
        """A character of a class, or a class in it; and whether it is one character."""
        if self._take("[:"):
            name, found, _ = self._text[self._at :].partition(":]")
            is_negated = name.startswith("^")
            characters = _POSIX.get(name.removeprefix("^"))
            if not found or characters is None:
                raise self._invalid("invalid character class range")
            self._at += len(name) + 2
            if is_negated:
                return _Characters(_ALL - characters, True), False
            return _Characters(characters, False), False
        character = self._next()
        if character == "\\":
            is_single = self._peek().lower() not in _CLASSES
            return self._escaped(), is_single
        return _Characters(frozenset(character), False), True

    def _range(self, first: _Characters, last: _Characters) -> _Characters:
        (low,), (high,) = first.allowed or ("\x7f",), last.allowed or ("\x7f",)
        if ord(high) < ord(low):
            raise self._invalid("invalid character class range")
        return _Characters(frozenset(map(chr, range(ord(low), ord(high) + 1))), False)
