"""ApiVersions: what the broker takes, in an encoding that every client can read (B-A7)."""

from __future__ import annotations

import re

from fastprod.broker.api_table import ApiTable
from fastprod.broker.network.connection import ClientSoftware
from fastprod.broker.server.apis.call import Call
from fastprod.error_codes import INVALID_REQUEST, NONE, UNSUPPORTED_VERSION
from fastprod.protocol.api_keys import API_VERSIONS
from fastprod.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_FIRST_SOFTWARE_VERSION = 3
_FIRST_ZERO_VERSION = 4
_GROUPS = "group.version"
_TRANSACTIONS = "transaction.version"
# They never change.
_FEATURES_EPOCH = 0
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")


class ApiVersionsApi:
    """Handles ApiVersions. Any thread.

    Args:
        table: what is listed.
    """

    def __init__(self, table: ApiTable) -> None:
        self._table = table
        # By whether it shows features with minimum 0. Each connection asks, a login again: others
        # wait for what that takes.
        self._answers = [_answer(table, shows_zero) for shows_zero in (False, True)]

    def handle(self, call: Call[ApiVersionsRequest]) -> None:
        """List the APIs and features; note who asks (B-A7.3, B-A3.8)."""
        if call.version >= _FIRST_SOFTWARE_VERSION:
            name = call.message.client_software_name
            version = call.message.client_software_version
            if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
                self.refuse(call, INVALID_REQUEST, None)
                return
            call.request.connection.client_software = ClientSoftware(name, version)
        call.answer(self._answers[call.version >= _FIRST_ZERO_VERSION])

    def refuse(self, call: Call[ApiVersionsRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(ApiVersionsResponse(error_code=code))

    def unsupported(self) -> ApiVersionsResponse:
        """The answer to a version that is not listed; to be written as version 0 (B-A7.2).

        It holds the entry of ApiVersions alone, so that the client can choose another (KIP-511).
        """
        own = [each for each in self._table.api_versions() if each.api_key == API_VERSIONS]
        return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=own)


def _answer(table: ApiTable, shows_zero: bool) -> ApiVersionsResponse:
    """What the table lists; one for many requests, which do not change it.

    Args:
        table: what is listed.
        shows_zero: below version 4 a feature with minimum 0 is left out (B-A7.4).
    """
    answer = ApiVersionsResponse(error_code=NONE, api_keys=table.api_versions())
    # KIP-848, KIP-890 (B-B1.1).
    features = {_GROUPS: table.group_version, _TRANSACTIONS: table.transaction_version}
    levels = {name: level for name, level in features.items() if level > 0}
    if not levels:
        return answer
    if shows_zero:
        answer.supported_features = [
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in levels.items()
        ]
    answer.finalized_features_epoch = _FEATURES_EPOCH
    answer.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
    ]
    return answer
