"""The producer's calls that give records up: `purge`, and the deadlines of single records."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from fastprod.client.deadline_thread import DeadlineThread

if TYPE_CHECKING:
    from fastprod._core.delivery.future import RecordFuture
    from fastprod.client.metrics.metrics import ProducerMetrics
    from fastprod.client.network_client import NetworkClient
    from fastprod.errors import KafkaError


class WithdrawingProducer:
    """The part of `KafkaProducer` that gives records up; not for use by itself."""

    _metrics: ProducerMetrics
    _network_client: NetworkClient

    def purge(self, queued: bool = True, in_flight: bool = False) -> int:
        """Fail records with `RecordPurgedError`, now; later sends are welcome.

        Args:
            queued: those that have never left; they cannot arrive. Default: True.
            in_flight: those that have left and are not acknowledged, also if they wait to be sent
                again; they may be written all the same. Their partitions take part again when their
                requests have been answered or given up. Default: False.

        Returns:
            How many records have failed.

        Raises:
            ProducerClosedError: `close` was called.
            KafkaError: the producer has failed for good, and why.

        A transaction that has such records cannot be committed. Callbacks run as ever; memory of
        what is under way comes back with its requests.

        Blocks: for a turn of the I/O thread; Ctrl-C gets through.  Threads: any, also inside
        `on_delivery`.  Source: rd_kafka_purge of librdkafka.
        """
        self._require_open()
        return self._network_client.purges.purge(queued=queued, in_flight=in_flight)

    def _require_open(self) -> None:
        raise NotImplementedError

    def _refused_record(self, error: BaseException) -> None:
        raise NotImplementedError

    # What the compiled half calls, and `KafkaProducer`.

    def _new_deadlines(self, client_id: str) -> None:
        self._deadlines = DeadlineThread(client_id, weakref.WeakMethod(self._missed_deadline))

    def _keep_deadline(self, future: RecordFuture, due_ns: int, limit_us: int) -> None:
        try:
            self._deadlines.add(future, due_ns, limit_us)
        except BaseException:  # no thread, or Ctrl-C: its sender will have no future
            future.cancel()
            raise

    def _missed_deadline(self, error: KafkaError) -> None:
        self._metrics.count_error()
        self._refused_record(error)
