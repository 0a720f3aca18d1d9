"""Java's classes in settings: which ones have a meaning here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastprod.errors import ConfigError
from fastprod.security.sasl_settings import AwsTokens

_JAVA_PACKAGES: Final = ("org.", "com.", "io.", "net.", "software.", "kafkashaded.")
# Where tokens come from is said by other settings.
_NO_NEWS: Final = (
    "OAuthBearerLoginCallbackHandler",
    "OAuthBearerUnsecuredLoginCallbackHandler",
    "DefaultJwtRetriever",
    "ClientCredentialsJwtRetriever",
    "FileJwtRetriever",
    "DefaultSslEngineFactory",
)
_AWS: Final = ("IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler")


def meaning(key: str, name: str, value: str) -> Iterable[tuple[str, Any]]:
    """Return what a setting that names a class stands for: settings of ours, by name.

    Args:
        key: the setting as the caller spelled it.
        name: ours that takes a Python object in its place.
        value: name of a class of Java's, or a Python import path.

    Raises:
        ConfigError: a Java class that means nothing here.
    """
    simple = value.strip().rpartition(".")[2]
    if ":" in value or not value.strip().startswith(_JAVA_PACKAGES):
        return [(name, value)]
    if simple in _NO_NEWS:
        return []
    if simple == "JwtBearerJwtRetriever":
        return [("sasl_oauthbearer_grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")]
    if simple in _AWS:
        return [(name, AwsTokens())]
    raise ConfigError(
        f"{key} is refused: a Java class cannot run in a Python process; give a Python function or "
        f"object as 'module:name', or leave it out",
        key=key,
    )


def check_client_handler(key: str, value: str) -> None:
    """Check Kafka's setting sasl.client.callback.handler.class: AWS's has a meaning here.

    Raises:
        ConfigError: another class.
    """
    if value.strip().rpartition(".")[2] not in _AWS:
        raise ConfigError(
            f"{key} is refused: what it would be asked for has settings here: sasl_username and "
            f"sasl_password, or sasl_oauth_token_provider",
            key=key,
        )
