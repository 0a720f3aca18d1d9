"""SecuritySettings: the settings of TLS, SASL and proxies, a part of every configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fastprod.config_values import choice, flag, int32, int64, setting
from fastprod.errors import ConfigError
from fastprod.frozen import Frozen
from fastprod.log import Log
from fastprod.security.secret import Secret

if TYPE_CHECKING:
    from fastprod.security.proxy_settings import ProxySettings
    from fastprod.security.sasl_settings import SaslSettings
    from fastprod.security.tls_settings import TlsSettings

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = (
    *("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"),
)
_STORES: Final = ("PEM", "PKCS12", "JKS", "")
_GRANTS: Final = ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")

_log = Log("fastprod.config")


def _secret(doc: str) -> Any:
    return setting("secret", None, doc)


def _path(doc: str) -> Any:
    return setting("path", None, doc)


def _text(doc: str, default: str = "") -> Any:
    return setting("string", default, doc)


def _share(default: float, doc: str, low: float, high: float) -> Any:
    return setting("decimal", default, doc, low=low, high=high)


class SecuritySettings(Frozen):
    """What a configuration says about the protection of its connections.

    Each setting is an attribute with its value in force.  `tls`, `sasl` and `proxy` say the same by
    meaning, and are what the connections are made by.
    """

    security_protocol: str = choice(
        "PLAINTEXT", "Protocol of the connections to brokers.", *PROTOCOLS, any_case=True
    )

    ssl_truststore_location: str | None = _path(
        "File or directory of certificates that are trusted, in PEM; none: the system's own."
    )
    ssl_truststore_certificates: Secret | None = _secret(
        "Certificates that are trusted, as PEM text."
    )
    ssl_truststore_type: str = choice("", "Must be PEM.", *_STORES, any_case=True)
    ssl_truststore_password: Secret | None = _secret("Refused: a PEM file has none.")
    ssl_keystore_location: str | None = _path(
        "File with the client's key, certificate and its issuers, in PEM."
    )
    ssl_keystore_certificate_chain: Secret | None = _secret(
        "The client's certificate and its issuers, as PEM text."
    )
    ssl_keystore_key: Secret | None = _secret("The key of the client's certificate, as PEM text.")
    ssl_keystore_type: str = choice("", "Must be PEM.", *_STORES, any_case=True)
    ssl_keystore_password: Secret | None = _secret("Refused: a PEM file has none.")
    ssl_certificate_location: str | None = _path(
        "File with the client's certificate and its issuers, in PEM."
    )
    ssl_key_location: str | None = _path(
        "File with the key of ssl.certificate.location, in PEM; none: it is in that file too."
    )
    ssl_key_password: Secret | None = _secret("Password of the client's key, if it is encrypted.")
    ssl_crl_location: str | None = _path("File with lists of certificates withdrawn, in PEM.")
    ssl_endpoint_identification_algorithm: str = choice(
        "https",
        "https: the certificate must be for the broker's host name; none: for any.",
        *("https", "none", ""),
        any_case=True,
    )
    enable_ssl_certificate_verification: bool = flag(
        True, "Whether the broker's certificate must be trusted; false is for laboratories."
    )
    ssl_protocol: str = choice(
        "TLSv1.3", "Highest version of TLS.", "TLSv1.3", "TLSv1.2", "TLS", any_case=True
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "list", ("TLSv1.2", "TLSv1.3"), "Versions of TLS; older ones are passed over."
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        "list", (), "Cipher suites, by Java's or OpenSSL's names; none: OpenSSL's default."
    )
    ssl_context: TlsSettings | None = setting(
        "ssl context", None, "An ssl.SSLContext, read once; instead of the other settings of TLS."
    )

    sasl_mechanism: str = choice(
        "GSSAPI", "How the client proves who it is.", *MECHANISMS, any_case=True
    )
    sasl_username: str = _text("User name of PLAIN and SCRAM.")
    sasl_password: Secret | None = _secret("Password of PLAIN and SCRAM.")
    sasl_authorization_id: str = _text("Whom to act for; empty: the user itself.")
    sasl_extensions: tuple[tuple[str, str], ...] = setting(
        "pairs", (), "Extensions of OAUTHBEARER (KIP-342) or SCRAM (KIP-48)."
    )
    sasl_oauth_token_provider: Any = setting(
        "object", None, "Gives OAUTHBEARER's tokens: a function, sync or async, or has token()."
    )
    sasl_oauthbearer_config: Secret | None = _secret(
        "What a token function gets that takes one argument, as confluent-kafka's oauth_cb does."
    )
    enable_sasl_oauthbearer_unsecure_jwt: bool = flag(
        False, "Make tokens without a signature from sasl.oauthbearer.config; for tests."
    )
    sasl_oauthbearer_token_endpoint_url: str = _text(
        "Where tokens come from: https://..., or file:///... of a file with the token (KIP-768)."
    )
    sasl_oauthbearer_client_credentials_client_id: str = _text("The client's name there.")
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = _secret(
        "The client's password there."
    )
    sasl_oauthbearer_scope: str = _text("Scope that tokens are asked for with.")
    sasl_oauthbearer_grant_type: str = choice(
        "client_credentials", "How tokens are asked for.", *_GRANTS
    )
    sasl_oauthbearer_assertion_file: str | None = _path(
        "File with a signed JWT that stands for the client, read for each token (KIP-1139)."
    )
    sasl_oauthbearer_header_urlencode: bool = flag(
        False, "URL-encode name and password in the request's header (KIP-1091)."
    )
    https_ca_location: str | None = _path("As ssl.truststore.location, for the token endpoint.")
    https_ca_pem: Secret | None = _secret("As ssl.truststore.certificates, for the endpoint.")
    sasl_login_connect_timeout_ms: int | None = setting(
        "integer or none", None, "How long connecting to the token endpoint may take.", low=1
    )
    sasl_login_read_timeout_ms: int | None = setting(
        "integer or none", None, "How long its whole answer may take; unset: 10 s.", low=1
    )
    sasl_login_retry_backoff_ms: int = int64(100, "Wait before it is asked again; doubles.")
    sasl_login_retry_backoff_max_ms: int = int64(
        10_000, "Longest such wait; so long a busy endpoint (429, 5xx) is tried for a first token."
    )
    sasl_login_refresh_window_factor: float = _share(
        0.8, "Share of a token's lifetime after which it is renewed.", 0.5, 1.0
    )
    sasl_login_refresh_window_jitter: float = _share(
        0.05, "Share of a token's lifetime added at random, at most.", 0.0, 0.25
    )
    sasl_login_refresh_min_period_seconds: int = int32(
        60, "Shortest time between two renewals, in seconds.", high=900
    )
    sasl_login_refresh_buffer_seconds: int = int32(
        300, "Time left by which a token is renewed at the latest, in seconds.", high=3600
    )
    sasl_kerberos_service_name: str = _text("Name of the brokers' service.", "kafka")
    sasl_kerberos_domain_name: str = _text(
        "Host name in the brokers' principal; empty: the one connected to."
    )
    sasl_kerberos_principal: str = _text("The client's principal; empty: the ticket's.")
    sasl_kerberos_keytab: str | None = _path("File with the client's key.")
    sasl_kerberos_kinit_cmd: str = _text("Command that gets a ticket.", "/usr/bin/kinit")
    sasl_kerberos_ticket_renew_window_factor: float = _share(
        0.8, "Share of a ticket's lifetime after which it is renewed.", 0.0, 1.0
    )
    sasl_kerberos_ticket_renew_jitter: float = _share(
        0.05, "Share of a ticket's lifetime added at random, at most.", 0.0, 1.0
    )
    sasl_kerberos_min_time_before_relogin: int = int64(
        60_000, "Shortest time between two renewals, in ms."
    )
    sasl_aws_region: str = _text("Region of AWS_MSK_IAM; empty: as AWS's tools find it.")
    sasl_aws_profile: str = _text("Profile of AWS's credentials file.")
    sasl_aws_role_arn: str = _text("Role of AWS to take on.")
    sasl_aws_role_session_name: str = _text("Name of that role's session.")
    sasl_aws_external_id: str = _text("External id given with that role.")
    sasl_aws_sts_region: str = _text("Region of the service that gives the role's credentials.")

    proxy_url: Secret | None = _secret(
        "Proxy on the way to brokers: socks5://, socks5h:// (it resolves names) or http:// "
        "[user:password@]host:port."
    )

    @property
    def tls(self) -> TlsSettings | None:
        """How connections use TLS; None: security_protocol does not use it."""
        found: TlsSettings | None = self.__dict__["_tls"]
        return found

    @property
    def sasl(self) -> SaslSettings | None:
        """How connections authenticate; None: security_protocol does not ask for it."""
        found: SaslSettings | None = self.__dict__["_sasl"]
        return found

    @property
    def proxy(self) -> ProxySettings | None:
        """The proxy that connections go through; None: none."""
        found: ProxySettings | None = self.__dict__["_proxy"]
        return found


def resolve(values: Mapping[str, Any], spelled: Mapping[str, str]) -> dict[str, Any]:
    """Return what the properties of `SecuritySettings` return, by the attributes behind them.

    Args:
        values: every setting by its name with underscores.
        spelled: how the caller spelled those that were given, by the same names.

    Raises:
        ConfigError: settings that are given contradict each other, or one is missing.
    """
    protocol = values["security_protocol"]
    found: dict[str, Any] = {"_tls": None, "_sasl": None, "_proxy": None}
    if values["proxy_url"] is not None:
        from fastprod.security.proxy_settings import parse_proxy_url  # noqa: PLC0415

        found["_proxy"] = parse_proxy_url(spelled["proxy_url"], values["proxy_url"])
    _check_protocol(values, spelled)
    if protocol.endswith("SSL"):
        from fastprod.security.tls_resolution import resolve_tls  # noqa: PLC0415

        found["_tls"] = resolve_tls(values, spelled)
    if protocol.startswith("SASL"):
        from fastprod.security.sasl_resolution import resolve_sasl  # noqa: PLC0415

        found["_sasl"] = resolve_sasl(values, spelled)
    return found


def _check_protocol(values: Mapping[str, Any], spelled: Mapping[str, str]) -> None:
    """Refuse, or warn of, settings that the protocol has no use for."""
    protocol = values["security_protocol"]
    unused = []
    for prefix, has_use in (("ssl_", protocol.endswith("SSL")), ("sasl_", "SASL" in protocol)):
        if not has_use:
            unused += [name for name in spelled if name.startswith(prefix) and values[name]]
    if not unused:
        return
    key = spelled[min(unused)]
    if "security_protocol" in spelled:
        _log.warning("%s is given, but security_protocol=%s does not use it", key, protocol)
        return
    wanted = "SASL_SSL" if any(name.startswith("sasl_") for name in unused) else "SSL"
    raise ConfigError(
        f"{key} is given, and security_protocol is not: nothing is sent in the clear that was "
        f"meant to be protected; give security_protocol={wanted!r}",
        key=key,
    )
