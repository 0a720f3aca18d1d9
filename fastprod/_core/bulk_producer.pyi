"""What Python sees of `bulk_producer`; see bulk_producer.pxd for the native half."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastprod._core.bulk import BulkFuture
from fastprod._core.producer_base import ProducerBase

class BulkProducer(ProducerBase):
    """The part of `KafkaProducer` that takes many records at once; not for use by itself."""

    def send_many(
        self,
        topic: str,
        values: Any,
        keys: Any = None,
        headers: Any = None,
        partitions: Any = None,
        timestamps_ms: Any = None,
    ) -> BulkFuture:
        """Queue many records of one topic, with one future for the lot.

        A column is a sequence with a cell for each record, an Arrow array or a numpy array; what
        Arrow and numpy hold is read without an object a row, and they may be mixed with sequences:
        see `append_columns`. The records are appended without the GIL, in the order of the rows.

        Args:
            topic: topic name.
            values: one payload a record, as `send` takes them.
            keys: as many, or None for no keys.
            headers: as many, each as `send` takes them; or a mapping from names to columns or
                constants; or None for no headers.
            partitions: as many, or None: by key, else by the partitioner.
            timestamps_ms: as many, or one for all, or None: the time of this call.

        Returns:
            A future; ``result(timeout)`` gives the `BulkMetadata`. It also carries what went wrong
            with records that never left: no metadata, no memory in time (then the rest of them),
            too large, a partition that did not appear, or what `send` or a plug-in would have
            raised for that row (then that one; the others go). ``failed_rows()`` tells each.

        Raises:
            ProducerClosedError: `close` was called, perhaps while this waited.
            TypeError, ValueError: `topic` is no str; the columns differ in length, perhaps because
                another thread changed one meanwhile.
            KafkaError: the producer has failed for good, and why.

        Rows before what was raised may have been queued; they are sent, and the error's
        `sent_records` is their future.

        Blocks: up to max_block_ms for the topic, and up to max_block_ms each time memory is
        short; Ctrl-C gets through.  Threads: any.
        """
    def append_columns(
        self,
        columns: Any = None,
        *,
        topic: Any = None,
        values: Any = None,
        keys: Any = None,
        headers: Any = None,
        header_columns: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
        partitions: Any = None,
        timestamps_ms: Any = None,
    ) -> BulkFuture:
        """Queue the rows of Arrow or numpy columns, with one future for the lot.

        No object is made for a row, and the GIL is released throughout. A column is anything with
        the Arrow PyCapsule interface (an array, a chunked array, a column of polars), a numpy array
        or a Python sequence; kinds may be mixed. Arrays are read where they are and let go before
        this returns; a stream is read to its end first.

        Args:
            columns: an Arrow record batch, table, reader or data frame, a structured numpy array or
                a mapping, whose columns are found by Kafka's names `value`, `key`, `topic`,
                `partition`, `headers` and `timestamp`; others are passed over. What is given by
                itself wins over its namesake here.
            topic: one name for all rows, or a column of them: bytes as for `values`; no nulls. Each
                distinct name is looked up once.
            values: Arrow binary or string, their large and view forms, fixed-size binary, or a
                dictionary of one of them; numpy S (zero bytes at the end are padding), V, or two
                dimensions (a row's bytes); nulls are tombstones.
            keys: the same; a null leaves the choice to the partitioner.
            headers: an Arrow list, large list or map of (key, value), or a sequence of what `send`
                takes; null and empty are none.
            header_columns: headers that every row has: (name, column of values) or (name, the same
                bytes for all), pairs or a mapping; a null is a header without a value. They come
                behind those of `headers`.
            partitions: integers; a null leaves the choice to key and partitioner.
            timestamps_ms: an Arrow timestamp or numpy datetime64 of any unit (rounded down to ms),
                integers (ms), or one int for all; a null or None is the time of this call.

        Returns:
            A future; ``result(timeout)`` gives the `BulkMetadata`: rows, bytes, offsets by
            partition. ``failed_rows()`` tells row, topic, sizes and cause of each that was not
            delivered: too large, a topic of no legal name, a topic or partition that did not
            appear, no memory in time (then all that follow), or what the broker said.

        Raises:
            TypeError: a column's type is none of those, or the producer has serializers,
                interceptors or a partitioner of the user's, which see rows as Python objects.
            ValueError: columns differ in length; a partition or timestamp is negative; a topic is
                null; a header has no name; an array is damaged. Nothing was queued.
            OSError: an Arrow stream failed.
            ProducerClosedError: `close` was called, perhaps while this waited.
            KafkaError: the producer has failed for good, and why.

        Blocks: for new topics, which are asked for together, up to max_block_ms after the last that
        came; and up to max_block_ms each time memory is short. Ctrl-C gets through, and the error's
        `sent_records` is the future of what was queued before.  Threads: any; the arrays must not
        be written to meanwhile.
        Source: the Arrow C data, C stream and PyCapsule interfaces.
        """
