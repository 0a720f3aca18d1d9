"""SwappingLog: the part of a log that puts rewritten segments in the place of others (B-C4.6)."""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import Final, NoReturn

from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_error import LogError
from fastprod.broker.log.log_files import LogFiles
from fastprod.broker.log.log_reader import LogReader
from fastprod.broker.log.segments.file_handle import FolderHandle
from fastprod.broker.log.segments.memory_segment import MemorySegment
from fastprod.broker.log.segments.segment import Segment
from fastprod.broker.log.transaction_index import AbortedTxn
from fastprod.error_codes import KAFKA_STORAGE_ERROR

_log = logging.getLogger(__name__)

_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)


class SwappingLog(LogReader):
    """What `cleaning` needs of a log, in a thread beside those that append and read.

    Args:
        topic: name.
        partition: index.
        config: settings; `config` may be replaced later.

    Attributes:
        cleaned_offset: how far it was compacted.
    """

    __slots__ = ("_closed", "_failure", "_files", "_truncations", "cleaned_offset", "config")

    def __init__(self, topic: str, partition: int, config: LogConfig) -> None:
        super().__init__(topic, partition)
        self.config = config
        self.cleaned_offset = 0
        self._failure = ""
        self._truncations = 0
        self._closed = False
        self._files: LogFiles | None = None

    def _refuse_if_unusable(self) -> None:
        if self._failure:
            raise LogError(KAFKA_STORAGE_ERROR, self._failure)
        if self._closed:
            text = f"the log of {self.topic}-{self.partition} is closed"
            raise LogError(KAFKA_STORAGE_ERROR, text)

    def _fail(self, what: str, error: OSError, is_half_done: bool = False) -> NoReturn:
        """Refuse all further appends: it is not known what the files hold.

        Without descriptors nothing was done, and it can be tried again, unless `is_half_done`.
        The end of a log is reported once: many clients show nothing but that their time is over.
        """
        text = f"cannot {what} the log of {self.topic}-{self.partition}: {error}"
        if is_half_done or error.errno not in _NO_DESCRIPTOR:
            text += "; the partition takes no more records until the broker is started again"
            if not self._failure and self._files is not None:
                _log.error("%s: %s", self._files.folder.path, text)
            self._failure = text
        raise LogError(KAFKA_STORAGE_ERROR, text) from error

    def segments(self) -> list[Segment]:
        """Those that there are, the active one last. The others do not change."""
        return self._segments

    @property
    def truncations(self) -> int:
        """How often its end was cut off, which changes a segment that stays."""
        return self._truncations

    @property
    def aborted(self) -> list[AbortedTxn]:
        """All transactions that were aborted, as far as they are kept."""
        return self._transactions.entries

    def new_cleaned(self, first: Segment) -> Segment:
        """A segment that is to take the place of this one, and of others behind it.

        Raises:
            LogError: its files cannot be made (56).
        """
        if self._files is None:
            limit_bytes = self.config.codec_limit_bytes
            return MemorySegment(first.base_offset, first.created_ms, limit_bytes)
        try:
            return self._files.new_cleaned(first.base_offset, self.config)
        except OSError as error:
            text = f"{self.topic}-{self.partition} is not compacted: {error}"
            raise LogError(KAFKA_STORAGE_ERROR, text) from error

    def replace_segments(
        self,
        replaced: Sequence[Segment],
        cleaned: Segment,
        aborted: Sequence[AbortedTxn],
        truncations: int,
    ) -> None:
        """Put a segment in the place of others, unless some are gone, or the end was cut off.

        Args:
            replaced: neighbours, oldest first; the active one is not among them.
            cleaned: made by `new_cleaned`; complete.
            aborted: transactions whose markers are kept in it.
            truncations: how many there were before they were read.

        Raises:
            LogError: the log is closed, or its files cannot be changed (56).
        """
        with self._lock:
            self._refuse_if_unusable()
            segments = self._segments
            at = segments.index(replaced[0]) if replaced[0] in segments else len(segments)
            behind = at + len(replaced)
            is_there = behind < len(segments) and segments[at:behind] == list(replaced)
            if not is_there or truncations != self._truncations:
                cleaned.delete()
                return
            end_offset = segments[behind].base_offset
            opened = self._open_folder(cleaned)
            # Who reads waits; who has begun to read begins anew.
            self._is_swapping = True
            self._cuts += 1
            try:
                if self._files is not None and opened is not None:
                    self._files.mark_dirty()
                    cleaned = self._files.swap(cleaned, replaced, opened)
                bases = [each.base_offset for each in replaced]
                self._transactions.replace_segments(bases, end_offset, aborted)
                self._segments = [*segments[:at], cleaned, *segments[behind:]]
            except OSError as error:
                self._fail("compact", error, is_half_done=True)
            finally:
                self._is_swapping = False

    def _open_folder(self, cleaned: Segment) -> FolderHandle | None:
        """Before anything is done: without a descriptor nothing is; None: there are no files."""
        try:
            return None if self._files is None else FolderHandle(self._files.folder.path)
        except OSError as error:
            cleaned.delete()
            self._fail("compact", error)

    def note_cleaned(self, offset: int) -> None:
        """Note that all below an offset was compacted.

        Raises:
            LogError: it cannot be written down (56); it is compacted once more.
        """
        with self._lock:
            self.cleaned_offset = min(offset, self._end_offset)
            try:
                if self._files is not None:
                    self._files.save_cleaned(self.cleaned_offset, self.config)
            except OSError as error:
                raise LogError(
                    KAFKA_STORAGE_ERROR, f"{self.topic}-{self.partition}: {error}"
                ) from error
