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

    def handle(self, call: Call[ApiVersionsRequest]) -> None:
        """List the APIs and features; note who asks (B-A7.3, B-A3.8)."""
        if call.version >= _FIRST_SOFTWARE_VERSION:
            name = call.message.client_software_name
            version = call.message.client_software_version
            if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
                self.refuse(call, INVALID_REQUEST, None)
                return
            call.request.connection.client_software = ClientSoftware(name, version)
        answer = ApiVersionsResponse(error_code=NONE, api_keys=self._table.api_versions())
        # KIP-848, KIP-890 (B-B1.1).
        features = {
            _GROUPS: self._table.group_version,
            _TRANSACTIONS: self._table.transaction_version,
        }
        levels = {name: level for name, level in features.items() if level > 0}
        if levels:
            # One with minimum 0 is left out below version 4 (B-A7.4).
            if call.version >= _FIRST_ZERO_VERSION:
                answer.supported_features = [
                    SupportedFeatureKey(name=name, min_version=0, max_version=level)
                    for name, level in levels.items()
                ]
            answer.finalized_features_epoch = _FEATURES_EPOCH
            answer.finalized_features = [
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in levels.items()
            ]
        call.answer(answer)

    def refuse(self, call: Call[ApiVersionsRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(ApiVersionsResponse(error_code=code))

    def unsupported(self) -> ApiVersionsResponse:
        """The answer to a version that is not listed; to be written as version 0 (B-A7.2).

        It holds the entry of ApiVersions alone, so that the client can choose another (KIP-511).
        """
        own = [each for each in self._table.api_versions() if each.api_key == API_VERSIONS]
        return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=own)
