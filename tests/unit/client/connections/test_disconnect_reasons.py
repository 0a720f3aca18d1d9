"""disconnect_reasons: why a connection ended, in words a user can act on."""

from __future__ import annotations

import errno
import os

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind, ProtocolFault
from fastprod._core.io.channel import CloseReason
from fastprod.client.connections.disconnect_reasons import (
    Limits,
    connection_reason,
    protocol_reason,
)

WHERE = "k1.example:9092"
LIMITS = Limits(request_timeout_ms=30_000, max_receive_bytes=104_857_600)


def reason_of(
    reason: CloseReason,
    *,
    err: int = 0,
    bad_size: int = 0,
    timed_out: bool = False,
    was_preparing: bool = False,
) -> str | None:
    event = ControlEvent(
        EventKind.ON_DISCONNECTED, 0, reason=reason, err=err, bad_size=bad_size, timed_out=timed_out
    )
    return connection_reason(WHERE, event, LIMITS, was_preparing)


def test_a_refused_connection_names_the_broker_and_the_errno() -> None:
    text = reason_of(CloseReason.CLOSE_NOT_CONNECTED, err=errno.ECONNREFUSED)
    assert text is not None
    assert text.startswith(f"connection to broker {WHERE} could not be established: ")
    assert os.strerror(errno.ECONNREFUSED) in text
    assert f"errno {errno.ECONNREFUSED}" in text


def test_a_connection_without_an_errno_is_explained_all_the_same() -> None:
    text = reason_of(CloseReason.CLOSE_NOT_CONNECTED)
    assert text is not None
    assert "no route" in text


@pytest.mark.parametrize(("ours", "wanted"), [("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")])
def test_a_peer_that_has_answered_api_versions_alone_may_ask_for_sasl(
    ours: str, wanted: str
) -> None:
    event = ControlEvent(EventKind.ON_DISCONNECTED, 0, reason=CloseReason.CLOSE_REMOTE)
    limits = LIMITS._replace(security_protocol=ours)
    text = connection_reason(WHERE, event, limits, False, may_want_sasl=True)
    assert text is not None
    assert text.startswith(f"broker {WHERE} closed the connection, and has answered ApiVersions")
    assert f"security_protocol is {ours}; then set it to {wanted}, and sasl_mechanism" in text


def test_an_unanswered_request_names_the_limit() -> None:
    """P-G.2.4."""
    text = reason_of(CloseReason.CLOSE_LOCAL, timed_out=True)
    assert text is not None
    assert WHERE in text
    assert "request_timeout_ms = 30,000" in text


def test_a_peer_that_leaves_before_api_versions_may_speak_another_protocol() -> None:
    """P-G.7.8: a TLS listener closes on plaintext; so does what is no broker at all."""
    text = reason_of(CloseReason.CLOSE_REMOTE, was_preparing=True)
    assert text is not None
    assert "PLAINTEXT" in text
    assert "before it answered ApiVersions" in text


@pytest.mark.parametrize("was_preparing", [False, True])
def test_a_reset_says_what_the_system_says(was_preparing: bool) -> None:
    text = reason_of(CloseReason.CLOSE_REMOTE, err=errno.ECONNRESET, was_preparing=was_preparing)
    assert text is not None
    assert os.strerror(errno.ECONNRESET) in text


def test_a_broker_that_closes_a_ready_connection_is_not_suspected_of_anything() -> None:
    assert reason_of(CloseReason.CLOSE_REMOTE) == f"broker {WHERE} closed the connection"


@pytest.mark.parametrize("reason", [CloseReason.CLOSE_BAD_FRAME, CloseReason.CLOSE_FRAME_TOO_LARGE])
def test_a_size_that_is_text_is_shown_as_text(reason: CloseReason) -> None:
    """An HTTP server's answer starts with b"HTTP"."""
    text = reason_of(reason, bad_size=int.from_bytes(b"HTTP", "big"))
    assert text is not None
    assert "'HTTP'" in text
    assert "speaks another protocol" in text


def test_a_tls_alert_is_known_as_one() -> None:
    text = reason_of(
        CloseReason.CLOSE_FRAME_TOO_LARGE, bad_size=int.from_bytes(b"\x15\x03\x03\x00", "big")
    )
    assert text is not None
    assert "speaks TLS" in text
    assert "max_receive_bytes if" not in text


def test_a_negative_size_is_no_matter_of_settings() -> None:
    text = reason_of(CloseReason.CLOSE_BAD_FRAME, bad_size=-2)
    assert text is not None
    assert "-2 bytes" in text
    assert "speaks another protocol" in text
    assert "raise" not in text


def test_a_size_that_is_no_text_names_the_setting() -> None:
    text = reason_of(CloseReason.CLOSE_FRAME_TOO_LARGE, bad_size=200_000_000)
    assert text is not None
    assert "200,000,000 bytes" in text
    assert "raise max_receive_bytes" in text
    assert "max_receive_bytes = 104,857,600" in text
    assert "(the text" not in text


def test_memory_that_ran_out_for_an_answer_is_said() -> None:
    text = reason_of(CloseReason.CLOSE_NO_MEMORY, err=errno.ENOMEM)
    assert text == f"no memory for an answer of broker {WHERE}: the connection was closed"


@pytest.mark.parametrize("reason", [CloseReason.CLOSE_LOCAL, CloseReason.CLOSE_EXPIRED])
def test_what_we_closed_ourselves_is_not_worth_a_word(reason: CloseReason) -> None:
    assert reason_of(reason) is None


@pytest.mark.parametrize(
    ("fault", "fields", "words"),
    [
        (
            ProtocolFault.FAULT_CORRELATION,
            {"expected": 7, "got": 9},
            "correlation id 9 where 7 was due",
        ),
        (
            ProtocolFault.FAULT_UNASKED,
            {"bad_size": 1_234},
            "1,234 bytes that nobody asked for",
        ),
        (
            ProtocolFault.FAULT_GARBLED,
            {"bad_size": 1_234},
            "a Produce answer of 1,234 bytes that does not parse",
        ),
        (
            ProtocolFault.FAULT_MISSING,
            {"item_count": 2},
            "left 2 partition(s) out of its Produce answer",
        ),
    ],
)
def test_every_broken_answer_says_what_was_wrong_with_it(
    fault: ProtocolFault, fields: dict[str, int], words: str
) -> None:
    event = ControlEvent(EventKind.ON_PROTOCOL_ERROR, 0, fault=fault, **fields)  # type: ignore[arg-type]
    text = protocol_reason(WHERE, event)
    assert WHERE in text
    assert words in text
