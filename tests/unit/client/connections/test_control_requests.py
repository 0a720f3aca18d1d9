"""ControlRequests: tokens, and what an answer is for."""

from __future__ import annotations

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.connections.control_requests import ControlRequests, PendingRequest
from fastprod.protocol.api_keys import API_VERSIONS, METADATA, SASL_AUTHENTICATE
from support.engine.network_world import RecordedEngine


def test_each_request_has_a_token_by_which_its_answer_is_known() -> None:
    """P-G.2.3: answers come in any order between nodes."""
    engine = RecordedEngine()
    requests = ControlRequests(engine, lambda node_id: node_id + 10)
    first, second = PendingRequest(METADATA, 12, 1), PendingRequest(SASL_AUTHENTICATE, 2, 2)
    tokens = [requests.send(b"f", first), requests.send(b"g", second, b"ok")]
    assert engine.take("send_frame") == [(11, tokens[0], b"f"), (12, tokens[1], b"g", b"ok", 0)]
    for token, pending in zip(reversed(tokens), (second, first), strict=True):
        answer = ControlEvent(EventKind.ON_RESPONSE, token=token)
        assert requests.take(answer) is pending
        with pytest.raises(KeyError):
            requests.take(answer)


def test_answers_beyond_api_versions_are_noticed() -> None:
    requests = ControlRequests(RecordedEngine(), lambda node_id: node_id)
    for api_key, data, has_answers in [
        (API_VERSIONS, b"a", False),
        (METADATA, None, False),  # the connection ended
        (METADATA, b"a", True),
        (METADATA, None, True),
    ]:
        token = requests.send(b"f", PendingRequest(api_key, 0, 1))
        requests.take(ControlEvent(EventKind.ON_RESPONSE, token=token, data=data))
        assert requests.has_answers is has_answers


def test_a_request_may_go_over_a_spare_connection() -> None:
    """P-G.10.7"""
    engine = RecordedEngine()
    requests = ControlRequests(engine, lambda node_id: node_id + 10)
    token = requests.send(b"f", PendingRequest(SASL_AUTHENTICATE, 2, 2, spare=77))
    assert engine.take("send_frame") == [(77, token, b"f")]
