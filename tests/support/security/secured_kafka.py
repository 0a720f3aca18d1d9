"""Listeners of Apache Kafka that ask for certificates, passwords or tokens, one name for each."""

from __future__ import annotations

import base64
import datetime
import json
import time
from dataclasses import dataclass
from typing import Final

import confluent_kafka.admin as confluent_admin

from kafka_cluster import KafkaCluster
from support.broker.sockets import until
from support.security.authority import CertificateAuthority

USER: Final = "ada"
PASSWORD: Final = 'engine "no. 1", = 9'
"""With what a careless quoting would break: a quotation mark, a comma, an equals sign."""

LISTENERS: Final = {
    "MUTUAL": "SSL",
    "SCRAM": "SASL_SSL",
    "TOKEN": "SASL_SSL",
    "PLAIN": "SASL_SSL",
    "CLEAR": "SASL_PLAINTEXT",
}
"""Listener to security protocol: certificates on both sides; SCRAM; OAUTHBEARER; PLAIN; all three
without TLS, where sessions by SCRAM last for `SESSION_MS`."""

SESSION_MS: Final = {"SCRAM-SHA-256": 2_000, "SCRAM-SHA-512": 5_000}

FAULTY: Final = {"EXPIRED": "SSL", "EARLY": "SSL", "ELSEWHERE": "SSL", "TLS13": "SSL"}
"""More listeners: a certificate that has ended, that has not begun, that is for another host; and
one that speaks TLS 1.3 alone."""

CHANGING: Final = "CHANGING"
"""One more listener with TLS, whose certificate a test may replace: `changing_settings`."""

ELSEWHERE: Final = "broker.elsewhere.test"
_MODULES: Final = "org.apache.kafka.common.security"
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
_ITERATIONS: Final = 4_096
_REQUEST_S: Final = 30.0


@dataclass(frozen=True)
class Secured:
    """A running Kafka with the listeners, and who vouches for them."""

    kafka: KafkaCluster
    authority: CertificateAuthority

    def client(self, listener: str) -> dict[str, str]:
        """Return a client's settings for a listener by Kafka's names; TOKEN lacks the token."""
        settings = {
            "bootstrap.servers": self.kafka.bootstrap(listener),
            "security.protocol": LISTENERS[listener],
        }
        if listener != "CLEAR":
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.location"] = str(self.authority.certificate)
        if listener == "MUTUAL":
            identity = self.authority.issue("client")
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = str(identity.both)
        elif listener == "TOKEN":
            settings["sasl.mechanism"] = "OAUTHBEARER"
        else:
            settings["sasl.mechanism"] = "PLAIN" if listener == "PLAIN" else "SCRAM-SHA-512"
            settings["sasl.username"] = USER
            settings["sasl.password"] = PASSWORD
        return settings


def listener_settings(authority: CertificateAuthority) -> dict[str, str]:
    """Return the brokers' settings for `LISTENERS`."""
    identity = authority.issue("broker")
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    # Once for the login line's own quotes, once for the properties file.
    plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{quoted}";'
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    token = (
        f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        f'unsecuredLoginStringClaim_sub="{USER}";'
    )
    mechanisms = {
        "SCRAM": {"SCRAM-SHA-256": scram, "SCRAM-SHA-512": scram},
        "TOKEN": {"OAUTHBEARER": token},
        "PLAIN": {"PLAIN": plain},
        "CLEAR": {
            "SCRAM-SHA-256": scram,
            "SCRAM-SHA-512": scram,
            "OAUTHBEARER": token,
            "PLAIN": plain,
        },
    }
    settings: dict[str, str] = {}
    for listener, protocol in LISTENERS.items():
        prefix = f"listener.name.{listener.lower()}."
        if protocol.endswith("SSL"):
            settings[prefix + "ssl.keystore.type"] = "PEM"
            settings[prefix + "ssl.keystore.location"] = str(identity.both)
            settings[prefix + "ssl.truststore.type"] = "PEM"
            settings[prefix + "ssl.truststore.location"] = str(authority.certificate)
        for mechanism, line in mechanisms.get(listener, {}).items():
            key = f"{prefix}{mechanism.lower()}.sasl.jaas.config"
            settings[key] = line.replace("\\", "\\\\")
        if listener in mechanisms:
            settings[prefix + "sasl.enabled.mechanisms"] = ",".join(mechanisms[listener])
    settings["listener.name.mutual.ssl.client.auth"] = "required"
    for mechanism, session_ms in SESSION_MS.items():
        key = f"listener.name.clear.{mechanism.lower()}.connections.max.reauth.ms"
        settings[key] = str(session_ms)
    return settings | _AUTHORIZER


def faulty_settings(authority: CertificateAuthority) -> dict[str, str]:
    """Return the brokers' settings for `FAULTY`."""
    day = datetime.timedelta(days=1)
    identities = {
        "EXPIRED": authority.issue("expired broker", not_before=-2 * day, not_after=-day),
        "EARLY": authority.issue("early broker", not_before=day, not_after=2 * day),
        "ELSEWHERE": authority.issue("broker elsewhere", [ELSEWHERE]),
        "TLS13": authority.issue("broker of TLS 1.3"),
    }
    settings = {"listener.name.tls13.ssl.enabled.protocols": "TLSv1.3"}
    for listener, identity in identities.items():
        prefix = f"listener.name.{listener.lower()}.ssl.keystore."
        settings[prefix + "type"] = "PEM"
        settings[prefix + "location"] = str(identity.both)
    return settings


def changing_settings(authority: CertificateAuthority) -> dict[str, str]:
    """Return the brokers' settings for `CHANGING`; a node reads the key store when it starts."""
    prefix = f"listener.name.{CHANGING.lower()}.ssl.keystore."
    return {
        prefix + "type": "PEM",
        prefix + "location": str(authority.issue("changing broker").both),
    }


def secure(kafka: KafkaCluster, authority: CertificateAuthority) -> Secured:
    """Give Kafka the user, with both strengths of SCRAM; blocks until it knows her."""
    set_password(kafka, USER, PASSWORD)
    return Secured(kafka, authority)


def set_password(kafka: KafkaCluster, user: str, password: str) -> None:
    """Add a user for SCRAM, or change the password; blocks until each node lets the user in."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    strengths = (
        confluent_admin.ScramMechanism.SCRAM_SHA_256,
        confluent_admin.ScramMechanism.SCRAM_SHA_512,
    )
    for strength in strengths:
        # Kafka refuses both in one request of librdkafka's.
        change = confluent_admin.UserScramCredentialUpsertion(
            user, confluent_admin.ScramCredentialInfo(strength, _ITERATIONS), password.encode()
        )
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(_REQUEST_S)
    for server in kafka.bootstrap("CLEAR").split(","):
        _log_in(server, user, password)


def _log_in(server: str, user: str, password: str) -> None:
    """Try until a node takes the password: it hears of it after who has set it."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": server,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    confluent_admin.AdminClient(settings).list_topics(timeout=_REQUEST_S)


def deny(kafka: KafkaCluster, user: str, topic: str) -> None:
    """Forbid a user to do anything with a topic; blocks until Kafka's one node has heard of it."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    parts = (
        confluent_admin.ResourceType.TOPIC,
        topic,
        confluent_admin.ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        confluent_admin.AclOperation.ALL,
        confluent_admin.AclPermissionType.DENY,
    )
    rule, same = confluent_admin.AclBinding(*parts), confluent_admin.AclBindingFilter(*parts)
    for future in admin.create_acls([rule]).values():
        future.result(_REQUEST_S)
    until(lambda: admin.describe_acls(same).result(_REQUEST_S) == [rule], f"{rule} is in force")


def unsecured_token(life_s: float, user: str = USER) -> tuple[str, float]:
    """Return a token that Kafka's validator for tests takes, and when it ends (s since 1970)."""
    now = time.time()
    claims = {"sub": user, "iat": now, "exp": now + life_s}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    encoded = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""]), now + life_s
