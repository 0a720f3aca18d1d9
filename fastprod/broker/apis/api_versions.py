"""ApiVersions: what the broker takes, in an encoding that every client can read (A7)."""

from __future__ import annotations

import re

from fastprod.broker import codes
from fastprod.broker.api_table import API_VERSIONS, ApiTable
from fastprod.broker.apis.call import Call
from fastprod.broker.connection import ClientSoftware
from fastprod.broker.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_FIRST_SOFTWARE_VERSION = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")


class ApiVersionsApi:
    """Handles ApiVersions. Any thread.

    Args:
        table: what is listed.
    """

    def __init__(self, table: ApiTable) -> None:
        self._table = table

    def handle(self, call: Call[ApiVersionsRequest]) -> None:
        """List the APIs; note who asks (A7.3, A3.8)."""
        if call.version >= _FIRST_SOFTWARE_VERSION:
            name = call.message.client_software_name
            version = call.message.client_software_version
            if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
                self.refuse(call, codes.INVALID_REQUEST, None)
                return
            call.request.connection.client_software = ClientSoftware(name, version)
        # No feature is listed: one with minimum 0 must be left out below version 4 (A7.4), and
        # transaction.version would switch on KIP-890 (B1.1).
        call.answer(ApiVersionsResponse(error_code=codes.NONE, api_keys=self._table.api_versions()))

    def refuse(self, call: Call[ApiVersionsRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(ApiVersionsResponse(error_code=code))

    def unsupported(self) -> ApiVersionsResponse:
        """The answer to a version that is not listed; to be written as version 0 (A7.2).

        It holds the entry of ApiVersions alone, so that the client can choose another (KIP-511).
        """
        own = [each for each in self._table.api_versions() if each.api_key == API_VERSIONS]
        return ApiVersionsResponse(error_code=codes.UNSUPPORTED_VERSION, api_keys=own)
