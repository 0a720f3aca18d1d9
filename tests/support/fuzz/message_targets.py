"""Targets that read Kafka's messages, in both directions, and what producers read natively."""

from __future__ import annotations

import struct
from typing import Any

from fastprod._core.testing.request_doors import decode_response_for_test
from fastprod.broker.api_table import ApiTable, InvalidRequestError
from fastprod.protocol.field_types import SchemaError
from support.fuzz.target import Target
from support.oracle.message_samples import CASES, Case, sample

_PRODUCE_FIRST, _PRODUCE_LAST = 3, 13
_CASE = struct.Struct(">H")
_PRODUCE = 0


def _produce_answer(data: bytes) -> None:
    span = _PRODUCE_LAST - _PRODUCE_FIRST + 1
    decode_response_for_test(data[1:], _PRODUCE_FIRST + data[0] % span if data else _PRODUCE_LAST)


def _message(data: bytes) -> None:
    """What is read can be written."""
    if len(data) < _CASE.size:
        return
    case = CASES[_CASE.unpack_from(data)[0] % len(CASES)]
    found = case.decoded(data[_CASE.size :])
    b"".join(case.schema.encode(case.version, found))


class _Requests:
    """Whole requests, as a broker reads them."""

    def __init__(self) -> None:
        self._apis = ApiTable()

    def __call__(self, data: bytes) -> None:
        view = memoryview(bytearray(data))
        header = self._apis.parse_header(view)
        self._apis.decode_request(header, view)


def _seed(case: Case, number: int) -> bytes:
    return _CASE.pack(number) + b"".join(case.schema.encode(case.version, sample(case)))


def _head(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, 1) + b"c"


def message_targets() -> list[Target]:
    """The newest version of each message is where its seeds begin."""
    newest: dict[tuple[Any, str], int] = {
        (case.api_key, case.direction): number for number, case in enumerate(CASES)
    }
    seeds = {number: _seed(CASES[number], number) for number in newest.values()}
    requests = tuple(
        _head(CASES[number].api_key, CASES[number].version) + b"\0" + seed[_CASE.size :]
        for number, seed in seeds.items()
        if CASES[number].direction == "request"
    )
    answers = tuple(
        bytes([case.version - _PRODUCE_FIRST]) + _seed(case, 0)[_CASE.size :]
        for case in CASES
        if case.api_key == _PRODUCE and case.direction == "response"
    )
    return [
        Target("produce-answer", _produce_answer, (ValueError,), answers, is_native=True),
        Target("message", _message, (SchemaError,), tuple(seeds.values())),
        Target("request", _Requests(), (SchemaError, InvalidRequestError), requests),
    ]
