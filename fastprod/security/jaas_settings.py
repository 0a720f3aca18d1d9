"""What Kafka's sasl.jaas.config says, as settings of ours."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NoReturn

from fastprod.errors import ConfigError
from fastprod.security.jaas_line import JaasError, parse_jaas
from fastprod.security.secret import HIDDEN, Secret, plain_text
from fastprod.security.unsecured_token import unsecured_token
from fastprod.settings.references import resolved


class _Module(NamedTuple):
    """A login module: the mechanisms it is for, and its options with our settings' names."""

    mechanisms: tuple[str, ...]
    options: dict[str, str]


_PASSWORD: Final = {"username": "sasl_username", "password": "sasl_password"}
_MODULES: Final = {
    "PlainLoginModule": _Module(("PLAIN",), _PASSWORD),
    "ScramLoginModule": _Module(("SCRAM-SHA-256", "SCRAM-SHA-512"), _PASSWORD),
    "OAuthBearerLoginModule": _Module(
        ("OAUTHBEARER",),
        {
            "clientId": "sasl_oauthbearer_client_credentials_client_id",
            "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
            "scope": "sasl_oauthbearer_scope",
            "ssl.truststore.location": "https_ca_location",
            "ssl.truststore.certificates": "https_ca_pem",
        },
    ),
    "Krb5LoginModule": _Module(
        ("GSSAPI",),
        {
            "principal": "sasl_kerberos_principal",
            "keyTab": "sasl_kerberos_keytab",
            "serviceName": "sasl_kerberos_service_name",
        },
    ),
    "IAMLoginModule": _Module(
        ("AWS_MSK_IAM", "OAUTHBEARER"),
        {
            "awsProfileName": "sasl_aws_profile",
            "awsRoleArn": "sasl_aws_role_arn",
            "awsRoleSessionName": "sasl_aws_role_session_name",
            "awsRoleExternalId": "sasl_aws_external_id",
            "awsStsRegion": "sasl_aws_sts_region",
        },
    ),
}
"""By the last part of the class's name: vendors put Kafka's classes into packages of their own."""

# What these say goes without saying here, or concerns Java's log.
_PASSED_OVER: Final = {
    "Krb5LoginModule": (
        *("useKeyTab", "storeKey", "useTicketCache", "renewTGT", "doNotPrompt", "debug"),
        *("refreshKrb5Config", "isInitiator", "ticketCache"),
    ),
    "IAMLoginModule": ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"),
    "OAuthBearerLoginModule": ("ssl.truststore.type", "ssl.protocol"),
}
_EXTENSION: Final = ("extension_", "unsecuredLoginExtension_")
_UNSECURED: Final = "unsecuredLogin"

Said = list[tuple[str, str, Any]]
"""Our settings: name, what to call it in errors, value."""


def jaas_settings(key: str, value: Any, mechanism: str) -> Said:
    """Return the settings that a line stands for.

    Args:
        key: the setting as the caller spelled it.
        value: the line; its values may be references such as ``"${env:NAME}"``.
        mechanism: sasl.mechanism, which the login module must be for.

    Raises:
        ConfigError: the line is malformed or means nothing here; it shows no option's value.
    """
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be a str, not {type(value).__name__}", key=key)
    try:
        module, options = parse_jaas(plain_text(resolved(key, value)))
    except JaasError as error:
        raise ConfigError(
            f'{key} = {HIDDEN}: {error}; its form is: Module required name="value" ...;', key=key
        ) from None
    simple = module.rpartition(".")[2]
    known = _MODULES.get(simple)
    if known is None:
        _refuse(key, f"its login module is none of {', '.join(_MODULES)}")
    if mechanism not in known.mechanisms:
        _refuse(
            key,
            f"{simple} is for {' and '.join(known.mechanisms)}, and sasl.mechanism is {mechanism}",
        )
    return _said(key, simple, known, options)


def _said(key: str, simple: str, known: _Module, options: dict[str, str]) -> Said:
    found: Said = []
    extensions: dict[str, str] = {}
    unsecured: dict[str, str] = {}
    for name, value in options.items():
        label = f"{key} ({name})"
        ours = known.options.get(name)
        extension = next((each for each in _EXTENSION if name.startswith(each)), None)
        if ours is not None:
            found.append((ours, label, Secret(value)))
        elif simple == "ScramLoginModule" and name == "tokenauth":
            if value.lower() == "true":
                extensions["tokenauth"] = "true"
        elif simple == "OAuthBearerLoginModule" and extension is not None:
            extensions[name.removeprefix(extension)] = value
        elif simple == "OAuthBearerLoginModule" and name.startswith(_UNSECURED):
            unsecured[name.removeprefix(_UNSECURED)] = value
        elif name not in _PASSED_OVER.get(simple, ()):
            # Not by its name: what stands there may be a part of a password without quotes.
            number = list(options).index(name) + 1
            _refuse(key, f"its option {number} means nothing to {simple}; leave it out")
    if extensions:
        found.append(("sasl_extensions", f"{key} (extensions)", extensions))
    if unsecured:
        label = f"{key} ({_UNSECURED}...)"
        found.append(("sasl_oauth_token_provider", label, unsecured_token(label, unsecured)))
    return found


def _refuse(key: str, why: str) -> NoReturn:
    raise ConfigError(f"{key} = {HIDDEN}: {why}", key=key)
