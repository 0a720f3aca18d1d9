"""AlterUserScramCredentials, key 51."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import ALTER_USER_SCRAM_CREDENTIALS
from fastprod.protocol.schema import BYTES, INT8, INT16, INT32, STRING, Array, field, message


@message
class ScramCredentialDeletion:
    """A credential to remove."""

    name: str = field(STRING)
    mechanism: int = field(INT8)


@message
class ScramCredentialUpsertion:
    """A credential to set: the client sends no password but what PBKDF2 makes of it."""

    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES)
    salted_password: bytes = field(BYTES)


@message
class AlterUserScramCredentialsRequest:
    """Which credentials to change."""

    deletions: list[ScramCredentialDeletion] = field(Array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(Array(ScramCredentialUpsertion))


@message
class AlterUserScramCredentialsResult:
    """What became of one user's."""

    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


@message
class AlterUserScramCredentialsResponse:
    """What became of each user's."""

    throttle_time_ms: int = field(INT32)
    results: list[AlterUserScramCredentialsResult] = field(Array(AlterUserScramCredentialsResult))


API = Api(
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    versions=(0, 0),
    flexible_from=0,
)
