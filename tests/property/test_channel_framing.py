"""Any frames, cut at any bytes, arrive equal: in both directions, against the obvious framing."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.testing.selector_harness import SelectorForTest
from support.oracle.framing import cut, frame, frames_of
from support.oracle.loopback import PATIENCE_SECONDS
from support.processes.scale import examples

PAYLOADS = st.lists(
    st.one_of(
        st.binary(max_size=40),
        # Around the sizes at which the buffer starts, doubles, and shrinks again.
        st.integers(0, 200_000).map(lambda size: bytes(range(256)) * (size // 256) + b"end"),
    ),
    max_size=12,
)
PLACES = st.lists(st.integers(0, 2**22), max_size=30)


@pytest.mark.parametrize("force_poll", [False, True], ids=["epoll", "poll"])
@settings(max_examples=examples(100))
@given(payloads=PAYLOADS, places=PLACES, rest=st.binary(max_size=3), mutes=st.sets(st.integers(0)))
def test_frames_cut_anywhere_arrive_equal(
    force_poll: bool, payloads: list[bytes], places: list[int], rest: bytes, mutes: set[int]
) -> None:
    stream = b"".join(map(frame, payloads)) + rest
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    selector = SelectorForTest(force_poll)
    channel = selector.register(ours.detach())
    arrived: list[bytes] = []
    gone = False

    def poll(timeout_ms: int) -> None:
        nonlocal gone
        events = selector.poll(timeout_ms)
        assert len(events.receives) <= 1
        assert not gone
        arrived.extend(payload for _, payload in events.receives)
        gone = bool(events.disconnected)

    for index, piece in enumerate(cut(stream, places)):
        while piece:
            try:
                piece = piece[theirs.send(piece) :]
            except BlockingIOError:
                poll(0)
        selector.mute(channel, index in mutes)
        poll(0)
        selector.mute(channel, False)
    theirs.close()
    while not gone:
        poll(int(PATIENCE_SECONDS * 1000))
    selector.close()
    assert arrived == payloads == frames_of(stream)


@pytest.mark.parametrize("force_poll", [False, True], ids=["epoll", "poll"])
@settings(max_examples=examples(60))
@given(payloads=PAYLOADS, places=PLACES)
def test_a_request_in_any_pieces_leaves_equal(
    force_poll: bool, payloads: list[bytes], places: list[int]
) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    selector = SelectorForTest(force_poll)
    channel = selector.register(ours.detach())
    for payload in payloads:
        request = frame(payload)
        pieces = [part for piece in cut(request, places) for part in (piece, b"")]
        sent = selector.send(channel, pieces) == "OK"
        left = bytearray()
        while len(left) < len(request):
            try:
                left += theirs.recv(65_536)
            except BlockingIOError:
                assert not sent
            if not sent:
                sent = selector.poll(0).completed_sends == [channel]
        assert sent or selector.poll(1000).completed_sends == [channel]
        assert left == request
    selector.close()
    theirs.close()
