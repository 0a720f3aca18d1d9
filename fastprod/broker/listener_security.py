"""What a broker has for listeners whose clients use TLS, SASL, or both."""

from __future__ import annotations

from fastprod.broker.listeners import Listeners
from fastprod.broker.network.sasl.mechanisms import Mechanisms
from fastprod.broker.network.tls.server_certificate import ServerCertificate
from fastprod.errors import ConfigError
from fastprod.frozen import FrozenRecord


class ListenerSecurity(FrozenRecord):
    """What clients need to prove, and what the broker shows them. Any thread.

    Attributes:
        certificate: of the broker; None: no TLS.
        mechanisms: of SASL; None: no authentication by it.
    """

    certificate: ServerCertificate | None = None
    mechanisms: Mechanisms | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name of the protocol that uses all of it."""
        secured = "PLAINTEXT" if self.certificate is None else "SSL"
        return secured if self.mechanisms is None else f"SASL_{secured}"

    def check(self, listeners: Listeners) -> None:
        """Refuse listeners that need what is not there, and what no listener uses.

        Raises:
            ConfigError: which.
        """
        for name, listener in listeners.items():
            if listener.has_tls and self.certificate is None:
                raise ConfigError(
                    f"listener {name} speaks {listener.protocol}; give ssl_certfile, or tls=True",
                    key="ssl_certfile",
                )
            if listener.has_sasl and self.mechanisms is None:
                raise ConfigError(
                    f"listener {name} speaks {listener.protocol}; give sasl_users, or "
                    f"sasl_mechanisms",
                    key="sasl_users",
                )
        if self.certificate is not None and not any(each.has_tls for each in listeners.values()):
            raise ConfigError(
                "ssl_certfile is given, and no listener speaks SSL or SASL_SSL", key="ssl_certfile"
            )
        if self.mechanisms is not None and not any(each.has_sasl for each in listeners.values()):
            raise ConfigError(
                "sasl_users is given, and no listener speaks SASL_PLAINTEXT or SASL_SSL",
                key="sasl_users",
            )
