"""DescribeUserScramCredentials, key 50."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_USER_SCRAM_CREDENTIALS
from fastprod.protocol.schema import INT8, INT16, INT32, STRING, Array, field, message


@message
class UserName:
    """One user."""

    name: str = field(STRING)


@message
class DescribeUserScramCredentialsRequest:
    """Whose credentials to tell; null or none: everybody's."""

    users: list[UserName] | None = field(Array(UserName), nullable="0+")


@message
class CredentialInfo:
    """A credential: SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2), and its iterations."""

    mechanism: int = field(INT8)
    iterations: int = field(INT32)


@message
class DescribeUserScramCredentialsResult:
    """The credentials of one user."""

    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    credential_infos: list[CredentialInfo] = field(Array(CredentialInfo))


@message
class DescribeUserScramCredentialsResponse:
    """The credentials of each user."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field(
        Array(DescribeUserScramCredentialsResult)
    )


API = Api(
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    versions=(0, 0),
    flexible_from=0,
)
