"""EndingQuestion against another implementation of the protocol (P-I.7.8)."""

from __future__ import annotations

import pytest

from fastprod.client.transactions.ending_question import ending_question
from fastprod.protocol.api_keys import DESCRIBE_TRANSACTIONS
from support.oracle import kio_codec

BEHIND_THROTTLE_TIME = 4 + 4 + 1 + 4
"""Size, correlation id, tags, throttle time."""


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("name", ["t", "Z\xfcrich " * 40])
def test_it_asks_by_the_id_and_knows_the_answer(name: str, committed: bool) -> None:
    """P-I.7.8: also where a length needs two bytes."""
    found = ending_question(7, "c", name, committed=committed)
    assert found.slot == 7
    header, message = kio_codec.decode_request(found.frame[4:])
    assert (header.api_key, header.version) == (DESCRIBE_TRANSACTIONS, 0)
    assert list(message.transactional_ids) == [name]
    answer = {
        "throttle_time": 0,
        "transaction_states": [
            {
                "error_code": 0,
                "transactional_id": name,
                "transaction_state": "PrepareCommit" if committed else "PrepareAbort",
                "transaction_timeout": 1,
                "transaction_start_time": 1,
                "producer_id": 1,
                "producer_epoch": 1,
                "topics": [],
            }
        ],
    }
    frame = kio_codec.encode_response(DESCRIBE_TRANSACTIONS, 0, 5, answer)
    assert frame[BEHIND_THROTTLE_TIME:].startswith(found.head + found.state)
