"""AwsMskIamTokens: tokens for Amazon MSK, by the package aws-msk-iam-sasl-signer-python.

MSK takes them by OAUTHBEARER. The package signs a request with the credentials that AWS's own tools
would use, and asks AWS for credentials if they are a role's.
"""

from __future__ import annotations

import time
from typing import Any

from fastprod.client.sasl.bearer_token import BearerToken, read_token
from fastprod.client.sasl.login_error import LoginError
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.security.sasl_settings import AwsSettings


class AwsMskIamTokens:
    """Has tokens made by the signer.

    Args:
        settings: region, and whose credentials.

    Raises:
        LoginError: the package is not installed.

    Threads: the login's.
    """

    def __init__(self, settings: AwsSettings) -> None:
        self._settings = settings
        self._signer = _signer()

    @property
    def name(self) -> str:
        """What it is, for errors."""
        return f"aws-msk-iam-sasl-signer for region {self._settings.region!r}"

    def fetch(self) -> BearerToken:
        """Make a new token.  Blocks for AWS if credentials have to be asked for.

        Raises:
            LoginError: there are no credentials, or no region.
        """
        try:
            value, end_ms = self._make()
        except Exception as error:  # of botocore, which is not always installed
            raise LoginError(
                f"aws-msk-iam-sasl-signer made no token for region {self._settings.region!r}: "
                f"{type(error).__name__}: check the region and AWS's credentials"
            ) from error
        try:
            return read_token((value, end_ms / 1000), time.time())
        except MechanismError as error:
            raise LoginError(f"the token of aws-msk-iam-sasl-signer: {error}") from None

    def close(self) -> None:
        """Nothing is kept open."""

    def _make(self) -> tuple[str, float]:
        settings, signer = self._settings, self._signer
        if settings.role_arn:
            words: dict[str, Any] = {
                "sts_session_name": settings.role_session_name or "fastprod",
            }
            if settings.external_id:
                words["external_id"] = settings.external_id
            if settings.sts_region:
                words["sts_region"] = settings.sts_region
            made = signer.generate_auth_token_from_role_arn(
                settings.region, settings.role_arn, **words
            )
        elif settings.profile:
            made = signer.generate_auth_token_from_profile(settings.region, settings.profile)
        else:
            made = signer.generate_auth_token(settings.region)
        value, end_ms = made
        return value, end_ms


def _signer() -> Any:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415
    except ImportError:
        raise LoginError(
            "sasl_mechanism = AWS_MSK_IAM needs the package aws-msk-iam-sasl-signer-python: "
            "pip install 'fastprod[msk]'"
        ) from None
    return MSKAuthTokenProvider
