"""SparkCheck: looks through files that Spark's own readers are to read, for what those would lose.

What passes is read by Spark as it is written; everything else is refused, with the file's name.
Text is looked through as a whole; of other formats the headers of files are enough.
Options that say how text is cut into fields, which the checks do not know, take what Spark makes of
the files: nothing is checked then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow

from fastprod.load.csv_reader import check_csv
from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, InputFile, NeedsSpark, check_packing
from fastprod.load.json_check import check_json
from fastprod.load.line_blocks import line_blocks
from fastprod.load.reader_options import ReaderOptions, reader_options

# With these options Spark's reading is taken as it is. Others, such as those of streams, change
# nothing of how lines become fields, or make what they change a failure.
_FLAGS: Final = (  # false by default
    *("wholetext", "primitivesasstring", "prefersdecimal", "dropfieldifallnull"),
    *("ignoreleadingwhitespace", "ignoretrailingwhitespace"),
    *("allowcomments", "allowunquotedfieldnames", "allownumericleadingzeros"),
    *("allowbackslashescapinganycharacter", "allowunquotedcontrolchars"),
)
_TAKEN: Final = (
    *_FLAGS,
    *("mode", "encoding", "charset", "linesep", "columnnameofcorruptrecord", "singlevariantcolumn"),
    *("comment", "escape", "chartoescapequoteescaping", "unescapedquotehandling"),
)
_KNOWN: Final = ("header", "sep", "delimiter", "quote", "nullvalue", "multiline")


@dataclass(frozen=True)
class SparkCheck:
    """What is looked for; plain data, which Spark pickles into its tasks.

    Attributes:
        kind: of the files, one of `input_files.TEXTS`.
        options: of text.
        types: of the columns of JSON that have to be as they are written.
        knows_all: whether JSON must not have other columns.
        named: columns of JSON that have to be in a file.
    """

    kind: str
    options: ReaderOptions = field(default_factory=ReaderOptions)
    types: Mapping[str, Any] = field(default_factory=dict)
    knows_all: bool = False
    named: Sequence[str] = ()

    @property
    def by_lines(self) -> bool:
        """Whether a file can be cut between lines."""
        return not self.options.is_multiline

    def check(self, split: FileSplit) -> set[str]:
        """Look through a split.

        Returns:
            Those of `named` that may be in it.

        Raises:
            InputError: what Spark would read differently, and where; or the file cannot be read.
        """
        _check_packing(split.file)
        try:
            if self.kind == "csv":
                check_csv(split, self.options)
            elif self.kind == "json":
                return check_json(
                    split,
                    self.types,
                    knows_all=self.knows_all,
                    is_multiline=self.options.is_multiline,
                    named=self.named,
                )
            else:
                is_all = split.unit == "file"
                for block in line_blocks(
                    split.path, *(() if is_all else (split.start, split.stop))
                ):
                    block.check_text()
        except InputError as error:
            raise InputError(f"{split.path}: {error}") from error
        except (OSError, EOFError, pyarrow.ArrowException) as error:
            raise InputError(f"{split.path} cannot be read as {self.kind}: {error}") from error
        return set()


def _check_packing(file: InputFile) -> None:
    """Refuse a file that cannot be unpacked to look through it.

    Raises:
        InputError: why.
    """
    try:
        check_packing([file])
    except NeedsSpark as error:
        raise InputError(
            f"{error}, and has to be looked through before Spark reads it: unpack it before"
        ) from error


def text_check(
    kind: str,
    given: Mapping[str, str],
    *,
    is_tabbed: bool = False,
    types: Mapping[str, pyarrow.DataType] | None = None,
    knows_all: bool = False,
    named: Sequence[str] = (),
) -> SparkCheck | None:
    """The check for files of text.

    Args:
        kind: one of `input_files.TEXTS`.
        given: the user's options of the reader, by Spark's names.
        is_tabbed: whether the files are CSV with tabs.
        types: as of `SparkCheck`.
        knows_all: as of `SparkCheck`.
        named: as of `SparkCheck`.

    Returns:
        None: an option leaves the reading to Spark.

    Raises:
        InputError: a value is wrong.
    """
    left = {
        name: value
        for name, value in ((name.lower(), value) for name, value in given.items())
        if name in (*_TAKEN, *(_KNOWN if kind != "text" else ()))
        and not _is_default(name, value, given)
    }
    try:
        if kind == "csv":
            options = reader_options(kind, left, is_tabbed=is_tabbed)
        elif kind == "json":
            multiline = left.pop("multiline", "false")
            reader_options(kind, {name: value for name, value in left.items() if name in _TAKEN})
            options = reader_options("csv", {"multiline": multiline})
        else:
            options = reader_options(kind, left)
    except NeedsSpark:
        return None
    return SparkCheck(kind, options, types or {}, knows_all, named)


def _is_default(name: str, value: str, given: Mapping[str, str]) -> bool:
    """Whether an option, in lower case, says what holds without it."""
    quote = {each.lower(): text for each, text in given.items()}.get("quote") or '"'
    defaults = {"mode": "failfast", "encoding": "utf-8", "charset": "utf-8", "escape": quote}
    is_flag = name in _FLAGS
    return defaults.get(name, "false" if is_flag else None) == value.lower()
