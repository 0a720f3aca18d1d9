"""From settings to `SaslSettings`: which setting says what, and what a mechanism needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fastprod.errors import ConfigError
from fastprod.plugin_loading import make_plugin, takes
from fastprod.security.sasl_settings import (
    JWT_BEARER,
    AwsSettings,
    AwsTokens,
    KerberosSettings,
    RefreshSettings,
    SaslSettings,
    TokenEndpoint,
)
from fastprod.security.secret import HIDDEN, Secret, credential_fault
from fastprod.security.tls_resolution import pem_source
from fastprod.security.unsecured_token import configured_token

_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_URLS: Final = ("https://", "http://", "file://")


class ConfiguredCallback:
    """A token function that takes one argument, together with that: sasl.oauthbearer.config."""

    def __init__(self, function: Any, configuration: Secret) -> None:
        self._function = function
        self._configuration = configuration

    def __call__(self) -> Any:
        return self._function(self._configuration.reveal())


def resolve_sasl(values: Mapping[str, Any], spelled: Mapping[str, str]) -> SaslSettings:
    """Return what the settings say about SASL.

    Args:
        values: every setting by its name with underscores.
        spelled: how the caller spelled those that were given.

    Raises:
        ConfigError: the mechanism is not given, or lacks something that it needs.
    """
    mechanism = values["sasl_mechanism"]
    callback, extensions = None, dict(values["sasl_extensions"])
    endpoint = None
    if "sasl_mechanism" not in spelled:
        _check_default(values, spelled)
    if mechanism == "OAUTHBEARER":
        if isinstance(values["sasl_oauth_token_provider"], AwsTokens):
            mechanism = "AWS_MSK_IAM"
        else:
            callback, more = _token_callback(values, spelled)
            extensions = {**more, **extensions}
            endpoint = None if callback is not None else _endpoint(values, spelled)
    if mechanism in _WITH_PASSWORD:
        _check_credentials(mechanism, values, spelled)
    return SaslSettings(
        mechanism,
        username=values["sasl_username"],
        password=values["sasl_password"],
        authorization_id=values["sasl_authorization_id"],
        extensions=extensions,
        token_callback=callback,
        token_endpoint=endpoint,
        refresh=RefreshSettings(
            window_factor=values["sasl_login_refresh_window_factor"],
            window_jitter=values["sasl_login_refresh_window_jitter"],
            min_period_s=values["sasl_login_refresh_min_period_seconds"],
            buffer_s=values["sasl_login_refresh_buffer_seconds"],
        ),
        kerberos=_kerberos(values) if mechanism == "GSSAPI" else None,
        aws=_aws(values) if mechanism == "AWS_MSK_IAM" else None,
    )


def _check_default(values: Mapping[str, Any], spelled: Mapping[str, str]) -> None:
    """Kafka's default is Kerberos, and who gives a password does not mean that."""
    meant = [
        name
        for name in spelled
        if name.startswith(("sasl_username", "sasl_password", "sasl_oauth", "sasl_aws"))
        and values[name]
    ]
    if meant:
        raise ConfigError(
            f"sasl_mechanism is missing: it is GSSAPI (Kerberos) unless given, which has no use "
            f"for {spelled[meant[0]]}; give PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or "
            f"AWS_MSK_IAM",
            key="sasl_mechanism",
        )


def _check_credentials(
    mechanism: str, values: Mapping[str, Any], spelled: Mapping[str, str]
) -> None:
    for name in ("sasl_username", "sasl_password"):
        key = spelled.get(name, name)
        if not values[name]:
            raise ConfigError(f"{key} is missing: {mechanism} needs it", key=key)
        fault = credential_fault(values[name])
        if fault:
            raise ConfigError(f"{key} = {HIDDEN}: {fault}", key=key)


def _token_callback(
    values: Mapping[str, Any], spelled: Mapping[str, str]
) -> tuple[Any, Mapping[str, str]]:
    """Return what gives tokens, or None, and the extensions that come with it."""
    provider = values["sasl_oauth_token_provider"]
    configuration = values["sasl_oauthbearer_config"]
    config_key = spelled.get("sasl_oauthbearer_config", "sasl_oauthbearer_config")
    if provider is None:
        if not values["enable_sasl_oauthbearer_unsecure_jwt"]:
            return None, {}
        if configuration is None:
            raise ConfigError(
                f"{config_key} is missing: a token without a signature must say who the client is, "
                f"as in 'principal=ada'",
                key=config_key,
            )
        return configured_token(config_key, configuration.reveal())
    key = spelled["sasl_oauth_token_provider"]
    if isinstance(provider, type):
        provider = make_plugin(key, provider)
    if callable(getattr(provider, "token", None)):
        return provider, {}
    if not callable(provider):
        raise ConfigError(
            f"{key} must be a function that returns a token, or have a method token, not "
            f"{type(provider).__name__}",
            key=key,
        )
    if takes(provider, 0):
        return provider, {}
    return ConfiguredCallback(provider, configuration or Secret("")), {}


def _endpoint(values: Mapping[str, Any], spelled: Mapping[str, str]) -> TokenEndpoint:
    url = values["sasl_oauthbearer_token_endpoint_url"]
    key = spelled.get("sasl_oauthbearer_token_endpoint_url", "sasl_oauthbearer_token_endpoint_url")
    if not url:
        raise ConfigError(
            f"OAUTHBEARER has nowhere to get tokens from: give {key}, or sasl_oauth_token_provider",
            key=key,
        )
    if not url.lower().startswith(_URLS):
        raise ConfigError(f"{key} must begin with {', '.join(_URLS)}", key=key)
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ConfigError(
            f"{key} has a user in it; give it as sasl_oauthbearer_client_credentials_client_id and "
            f"_secret",
            key=key,
        )
    if not _is_url(url):
        raise ConfigError(
            f"{key} must be a URL: https://host:port/path, without spaces, beyond ASCII only in "
            f"the host",
            key=key,
        )
    client_id = values["sasl_oauthbearer_client_credentials_client_id"]
    secret = values["sasl_oauthbearer_client_credentials_client_secret"]
    assertion_file = values["sasl_oauthbearer_assertion_file"]
    grant_type = values["sasl_oauthbearer_grant_type"]
    missing = None
    if url.lower().startswith("file://"):
        pass
    elif grant_type == JWT_BEARER:
        missing = None if assertion_file else "sasl_oauthbearer_assertion_file"
    elif not client_id:
        missing = "sasl_oauthbearer_client_credentials_client_id"
    elif secret is None and assertion_file is None:
        missing = "sasl_oauthbearer_client_credentials_client_secret"
    if missing:
        raise ConfigError(f"{missing} is missing: the token endpoint asks for it", key=missing)
    return TokenEndpoint(
        url,
        client_id=client_id,
        client_secret=secret,
        scope=values["sasl_oauthbearer_scope"],
        grant_type=grant_type,
        assertion_file=assertion_file,
        ca=pem_source(values, spelled, "https_ca_pem", "https_ca_location"),
        connect_timeout_s=_seconds(values["sasl_login_connect_timeout_ms"]),
        read_timeout_s=_seconds(values["sasl_login_read_timeout_ms"]),
        retry_backoff_s=values["sasl_login_retry_backoff_ms"] / 1000,
        retry_backoff_max_s=values["sasl_login_retry_backoff_max_ms"] / 1000,
        header_urlencode=values["sasl_oauthbearer_header_urlencode"],
    )


def _is_url(url: str) -> bool:
    from urllib.parse import urlsplit  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError:
        return False
    if parts.scheme == "file":
        return bool(parts.path)
    behind = parts.path + parts.query
    return bool(host) and port != 0 and behind.isascii() and not re.search(r"[\s\0]", url)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _kerberos(values: Mapping[str, Any]) -> KerberosSettings:
    return KerberosSettings(
        service_name=values["sasl_kerberos_service_name"],
        host_name=values["sasl_kerberos_domain_name"],
        principal=values["sasl_kerberos_principal"],
        keytab=values["sasl_kerberos_keytab"] or "",
        kinit_cmd=values["sasl_kerberos_kinit_cmd"],
        renew_window_factor=values["sasl_kerberos_ticket_renew_window_factor"],
        renew_jitter=values["sasl_kerberos_ticket_renew_jitter"],
        min_time_before_relogin_s=values["sasl_kerberos_min_time_before_relogin"] / 1000,
    )


def _aws(values: Mapping[str, Any]) -> AwsSettings:
    names = ("region", "profile", "role_arn", "role_session_name", "external_id", "sts_region")
    return AwsSettings(**{name: values[f"sasl_aws_{name}"] for name in names})
