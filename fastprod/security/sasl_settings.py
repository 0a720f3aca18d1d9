"""SaslSettings: who a client says it is, and how it proves it."""

from __future__ import annotations

from collections.abc import Mapping

from fastprod.frozen import FrozenRecord
from fastprod.security.pem_source import PemSource
from fastprod.security.secret import Secret

CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_NO_EXTENSIONS: Mapping[str, str] = {}


class TokenEndpoint(FrozenRecord):
    """Where access tokens come from (KIP-768, KIP-1139).

    Attributes:
        url: https:// or http:// of the endpoint; or file:///PATH of a file that holds the token
            itself, as Kubernetes mounts it, which is read again for each new token.
        client_id: the client's name at the endpoint; "": none, as with an assertion.
        client_secret: its password.
        scope: asked for, with spaces between; "": the endpoint's default.
        grant_type: `CLIENT_CREDENTIALS` or `JWT_BEARER`.
        assertion_file: file with a signed JWT that stands for the client, read for each token.
        ca: certificates trusted for the endpoint; None: the system's own.
        connect_timeout_s: until the endpoint takes a connection, in seconds; None: that is a part
            of `read_timeout_s`.
        read_timeout_s: of all the rest of an exchange, to the answer's last byte, in seconds;
            None: 10 s.
        retry_backoff_s: wait before the second try, in seconds; doubles.
        retry_backoff_max_s: longest such wait, in seconds; callers do not hear for so long that an
            endpoint is busy (HTTP 429 or 5xx) before there is a first token.
        header_urlencode: whether id and secret are URL-encoded before they go into the header
            (RFC 6749, 2.3.1).
    """

    url: str
    client_id: str = ""
    client_secret: Secret | None = None
    scope: str = ""
    grant_type: str = CLIENT_CREDENTIALS
    assertion_file: str | None = None
    ca: PemSource | None = None
    connect_timeout_s: float | None = None
    read_timeout_s: float | None = None
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 10.0
    header_urlencode: bool = False


class RefreshSettings(FrozenRecord):
    """When a token or a ticket is renewed (sasl.login.refresh.*).

    Attributes:
        window_factor: share of its lifetime after which it is, 0.5..1.
        window_jitter: share of its lifetime added at random, at most, 0..0.25.
        min_period_s: shortest time between two renewals, in seconds.
        buffer_s: time before its end by which it is renewed at the latest, in seconds.
    """

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


class KerberosSettings(FrozenRecord):
    """Settings of GSSAPI.

    Attributes:
        service_name: the brokers' service, the part of their principal before the '/'.
        host_name: the brokers' host in their principal; "": the one that is connected to.
        principal: the client's; "": that of the credentials cache.
        keytab: file with the client's key; "": the credentials cache is used as it is.
        kinit_cmd: command that gets a ticket with `principal` and `keytab`.
        renew_window_factor: share of a ticket's lifetime after which it is renewed.
        renew_jitter: share of its lifetime added at random, at most.
        min_time_before_relogin_s: shortest time between two renewals, in seconds.
    """

    service_name: str = "kafka"
    host_name: str = ""
    principal: str = ""
    keytab: str = ""
    kinit_cmd: str = "/usr/bin/kinit"
    renew_window_factor: float = 0.8
    renew_jitter: float = 0.05
    min_time_before_relogin_s: float = 60.0


class AwsSettings(FrozenRecord):
    """Settings of AWS_MSK_IAM; what is "" is found as AWS's own tools find it.

    Attributes:
        region: of the cluster, such as "eu-central-1".
        profile: of the credentials file.
        role_arn: role to take on.
        role_session_name: name of that session.
        external_id: given with the role.
        sts_region: region of the service that gives the role's credentials.
    """

    region: str = ""
    profile: str = ""
    role_arn: str = ""
    role_session_name: str = ""
    external_id: str = ""
    sts_region: str = ""


class AwsTokens(FrozenRecord):
    """In place of a token callback: tokens that AWS's signer makes, as AWS_MSK_IAM has them."""


class SaslSettings(FrozenRecord):
    """Who a client says it is, and how it proves it; plain data; pickles if its callback does.

    Attributes:
        mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or GSSAPI.
        username: of PLAIN and SCRAM.
        password: of PLAIN and SCRAM.
        authorization_id: whom to act for; "": the user itself.
        extensions: of SCRAM (``tokenauth``, KIP-48) or OAUTHBEARER (KIP-342).
        token_callback: gives OAUTHBEARER's tokens: a function without arguments, or an object whose
            method `token` is one, sync or async. It returns the token as a str, or a sequence
            (token, end in seconds since the Unix epoch[, principal[, extensions]]), as
            confluent-kafka's oauth_cb does. An object may have a method `extensions` that
            returns a dict, as kafka-python's providers do.
        token_endpoint: where OAUTHBEARER's tokens come from if there is no callback.
        refresh: when tokens are renewed.
        kerberos: of GSSAPI; None: another mechanism.
        aws: of AWS_MSK_IAM; None: another mechanism.
    """

    mechanism: str
    username: str = ""
    password: Secret | None = None
    authorization_id: str = ""
    extensions: Mapping[str, str] = _NO_EXTENSIONS
    token_callback: object | None = None
    token_endpoint: TokenEndpoint | None = None
    refresh: RefreshSettings = RefreshSettings()
    kerberos: KerberosSettings | None = None
    aws: AwsSettings | None = None
