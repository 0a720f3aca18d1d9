"""fastprod.cli.output.tally: counts from any thread."""

from __future__ import annotations

import threading

from fastprod.cli.output.tally import DeliveryTally
from fastprod.records import failed_metadata

THREADS = 4
EACH = 500


def test_delivered_and_failed_are_counted_and_the_first_error_kept() -> None:
    tally = DeliveryTally()
    metadata = failed_metadata("t", 0)
    for error in (None, ValueError("one"), None, ValueError("two")):
        tally(metadata, error)
    tally.refuse("three")
    assert (tally.delivered_count, tally.failed_count) == (2, 3)
    assert tally.first_error == "one"


def test_refusals_of_several_threads_are_all_counted() -> None:
    tally = DeliveryTally()

    def refuse() -> None:
        for number in range(EACH):
            tally.refuse(str(number))

    threads = [threading.Thread(target=refuse) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tally.failed_count == THREADS * EACH
    assert tally.first_error == "0"
