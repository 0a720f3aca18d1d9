"""BrokerSecurity: the part of `Broker` about who may come in, and who may do what there."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fastprod.broker.arguments import check_refusals
from fastprod.broker.client_settings import Login, Way, certificates_of, settings_for
from fastprod.broker.config import BrokerConfig
from fastprod.broker.listener_security import ListenerSecurity
from fastprod.broker.listeners import BrokerListener, Listeners, checked_listeners
from fastprod.broker.network.sasl.bearer_token import TokenValidator, UnsecuredTokens
from fastprod.broker.network.sasl.mechanisms import OAUTHBEARER, Mechanisms
from fastprod.broker.network.sasl.users import PASSWORD_MECHANISMS, Users
from fastprod.broker.network.tls.server_certificate import (
    CLIENT_AUTH,
    CertificateSources,
    ServerCertificate,
)
from fastprod.broker.node import Node
from fastprod.broker.server.acl import (
    ANY_NAME,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fastprod.broker.server.authorizer import Authorizer
from fastprod.broker.threads.clock import Clock
from fastprod.errors import ConfigError
from fastprod.security.pem_source import PemSource
from fastprod.security.secret import plain_text

PathLike = str | os.PathLike[str]


class BrokerSecurity:
    """Users, ACLs and the settings of clients. Any thread; before and after the start."""

    _config: BrokerConfig
    _security: ListenerSecurity
    _listeners: Listeners
    _users: Users
    _authorizer: Authorizer

    def _set_security(
        self, sasl: tuple[Users, Mechanisms | None], sources: CertificateSources | None
    ) -> None:
        """Take what arguments of `Broker` say, and `_config`."""
        self._users, mechanisms = sasl
        certificate = None if sources is None else ServerCertificate(sources)
        self._security = ListenerSecurity(certificate, mechanisms)
        self._authorizer = make_authorizer(self._config)
        check_refusals(self._config, self._security)

    def _set_listeners(
        self,
        given: Mapping[str, str | BrokerListener] | None,
        brokers: int,
        host: str,
        port: int,
        advertised_host: str | None,
    ) -> None:
        """Take the listeners, if there is what they need."""
        asked = resolved_listeners(given, self._security.protocol, host, port)
        listeners = checked_listeners(asked, brokers, host, advertised_host)
        self._security.check(listeners)
        self._listeners = listeners

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes; see `Broker`."""
        raise NotImplementedError

    @property
    def listeners(self) -> Mapping[str, BrokerListener]:
        """The ways in, by name; the first is what `bootstrap_servers` means."""
        return dict(self._listeners)

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the addresses of all nodes, as `bootstrap_servers`, for clients of a listener.

        Args:
            listener: its name.

        Raises:
            IllegalStateError: it was not started.
            ConfigError: there is no such listener.
        """
        if listener not in self._listeners:
            raise ConfigError(
                f"there is no listener {listener!r}; there are {', '.join(self._listeners)}",
                key="listeners",
            )
        return ",".join(str(node.endpoints[listener]) for node in self.nodes)

    @property
    def certificate_pem(self) -> str | None:
        """What clients trust, in PEM: the broker's certificates without the key; None: no TLS."""
        certificate = self._security.certificate
        return None if certificate is None else certificates_of(certificate.pem)

    def replace_certificate(
        self,
        ssl_certfile: PathLike,
        ssl_keyfile: PathLike | None = None,
        ssl_key_password: str | None = None,
    ) -> None:
        """Show another certificate to clients that connect from now on; who is connected stays so.

        Not needed when the files themselves change: new connections take up what is in them.

        Args:
            ssl_certfile: PEM file.
            ssl_keyfile: PEM file with its key; default: it is in `ssl_certfile`.
            ssl_key_password: of an encrypted key.

        Raises:
            ConfigError: the files cannot be used, and the certificate stays; or there is no TLS.
        """
        certificate = self._security.certificate
        if certificate is None:
            raise ConfigError("no listener speaks TLS; give ssl_certfile", key="ssl_certfile")
        certificate.replace(*_pair(ssl_certfile, ssl_keyfile), ssl_key_password)

    # Users.

    def add_user(
        self, name: str, password: str, mechanisms: Iterable[str] = PASSWORD_MECHANISMS
    ) -> None:
        """Let somebody log in by SASL, or change password and mechanisms; at once.

        Args:
            name: not empty.
            password: not empty.
            mechanisms: by which; of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; default: all three.

        Raises:
            ConfigError: a name, a password or a mechanism cannot be, or no listener has SASL.
        """
        if self._security.mechanisms is None:
            raise ConfigError(
                "no listener asks for users; start the broker with sasl_users, which may be empty",
                key="sasl_users",
            )
        self._users.put(name, password, mechanisms)

    def remove_user(self, name: str) -> None:
        """Let somebody log in no more; connections that are logged in stay.

        Args:
            name: of the user.

        Raises:
            ConfigError: there is no such user.
        """
        if not self._users.remove(name):
            known = ", ".join(self._users.names()) or "none"
            raise ConfigError(f"there is no user {name!r}; there are {known}", key="sasl_users")

    @property
    def users(self) -> list[str]:
        """Names of those who can log in with a password, or by SCRAM, sorted."""
        return self._users.names()

    # ACLs.

    @property
    def acls(self) -> list[Acl]:
        """The rules, in the order in which they were added.

        While there is none, and `super_users` is empty, everybody may do everything.
        """
        return self._authorizer.find(AclFilter())

    def allow(
        self,
        principal: str,
        operations: str | Iterable[str],
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        cluster: bool = False,
        prefix: bool = False,
        host: str = ANY_NAME,
    ) -> None:
        """Allow somebody to do something: `broker.allow("User:ada", "write", topic="orders")`.

        From the first rule on, and with `super_users` before it, everything that none allows is
        denied. Who may read, write, delete or alter may describe, too.

        Args:
            principal: "User:" and a name, or the name alone; "User:*": everybody.
            operations: one or more of Kafka's: "read", "write", "create", "delete", "alter",
                "describe", "cluster_action", "describe_configs", "alter_configs",
                "idempotent_write", "all".
            topic: with this name; "*": all topics. Exactly one of these four is given.
            group: consumers with this group.
            transactional_id: producers with this id.
            cluster: the cluster itself.
            prefix: the name is the beginning of names; default False.
            host: only clients with this address; default "*": from everywhere.

        Raises:
            ConfigError: an operation or a principal cannot be, or not exactly one resource.
        """
        resource = _resource(topic, group, transactional_id, cluster)
        self._add(Permission.ALLOW, principal, operations, resource, prefix, host)

    def deny(
        self,
        principal: str,
        operations: str | Iterable[str],
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        cluster: bool = False,
        prefix: bool = False,
        host: str = ANY_NAME,
    ) -> None:
        """Deny somebody to do something, whatever other rules allow.

        Args:
            principal: as `allow` takes it, as is all that follows.
            operations: one or more of Kafka's.
            topic: with this name; "*": all topics. Exactly one of these four is given.
            group: consumers with this group.
            transactional_id: producers with this id.
            cluster: the cluster itself.
            prefix: the name is the beginning of names; default False.
            host: only clients with this address; default "*": from everywhere.

        Raises:
            ConfigError: as `allow`.
        """
        resource = _resource(topic, group, transactional_id, cluster)
        self._add(Permission.DENY, principal, operations, resource, prefix, host)

    def remove_acls(self, principal: str | None = None, *, topic: str | None = None) -> int:
        """Remove rules, and return how many.

        Args:
            principal: those of this one; default None: of everybody.
            topic: those that name this topic; default None: those of everything.
        """
        kind = ResourceType.ANY if topic is None else ResourceType.TOPIC
        principal = None if principal is None else _principal(principal)
        wanted = AclFilter(resource_type=kind, name=topic, principal=principal)
        return len(self._authorizer.remove(wanted))

    def _add(
        self,
        permission: Permission,
        principal: str,
        operations: str | Iterable[str],
        resource: tuple[ResourceType, str],
        prefix: bool,
        host: str,
    ) -> None:
        pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
        names = [operations] if isinstance(operations, str) else list(operations)
        host = _rule_text("host", host)
        self._authorizer.add(
            [
                Acl(_principal(principal), permission, each, *resource, pattern, host)
                for each in map(_operation, names)
            ]
        )

    # What clients need.

    def client_settings(
        self,
        user: str | None = None,
        *,
        listener: str | None = None,
        mechanism: str | None = None,
        flavour: str = "kafka",
    ) -> dict[str, Any]:
        """Return the settings by which a client reaches the broker, the password among them.

        Args:
            user: one of `users`; needed where the listener asks for SASL. With OAUTHBEARER: any.
            listener: name of a listener; default None: the first one.
            mechanism: of SASL; default None: the first that the broker offers and the user has.
            flavour: whose names: "kafka" for fastprod, "java", "librdkafka" (confluent-kafka),
                "kafka-python" or "aiokafka"; default "kafka".

        Raises:
            ConfigError: there is no such user, listener, mechanism or flavour.
            IllegalStateError: the broker was not started.
        """
        name = next(iter(self._listeners)) if listener is None else listener
        if name not in self._listeners:
            raise ConfigError(
                f"there is no listener {name!r}; there are {', '.join(self._listeners)}",
                key="listeners",
            )
        found = self._listeners[name]
        way = Way(
            self.bootstrap_servers_of(name),
            found.protocol,
            self.certificate_pem if found.has_tls else None,
            self._login(user, mechanism) if found.has_sasl else None,
        )
        return settings_for(way, flavour)

    def _login(self, user: str | None, mechanism: str | None) -> Login:
        mechanisms = self._security.mechanisms
        assert mechanisms is not None
        if user is None:
            raise ConfigError("this listener asks who its clients are; give a user", key="user")
        if mechanism is not None and mechanism not in mechanisms.names:
            raise ConfigError(
                f"mechanism {mechanism!r} is not offered; {', '.join(mechanisms.names)} are",
                key="mechanism",
            )
        known = self._users.login(user)
        if OAUTHBEARER in (mechanism, *mechanisms.names[:1]) and known is None:
            return Login(OAUTHBEARER, user, None)
        if known is None:
            raise ConfigError(
                f"there is no user {user!r} with a password; there are "
                f"{', '.join(self._users.names()) or 'none'}",
                key="user",
            )
        if mechanism == OAUTHBEARER:
            return Login(OAUTHBEARER, user, None)
        usable = [each for each in mechanisms.names if each in known[1]]
        if not usable or mechanism not in (None, *usable):
            raise ConfigError(
                f"user {user!r} has {', '.join(known[1])}, not {mechanism or 'what is offered'}",
                key="mechanism",
            )
        return Login(mechanism or usable[0], user, known[0])


def certificate_sources(
    certfile: PathLike | None,
    keyfile: PathLike | None,
    key_password: str | None,
    cafile: PathLike | None,
    client_auth: str,
    own_for: Collection[str] | None,
) -> CertificateSources | None:
    """What arguments of `Broker` say about certificates; None: nothing.

    Args:
        certfile: `ssl_certfile`, and so on.
        keyfile: the key's file.
        key_password: the key's password.
        cafile: the issuers of clients.
        client_auth: whether clients show certificates.
        own_for: the hosts for which the broker makes a certificate for itself; None: it does not.

    Raises:
        ConfigError: one goes with another that is missing, or a certificate cannot be made.
    """
    ca = None if cafile is None else PemSource(os.fspath(cafile), setting="ssl_cafile")
    if ca is not None and client_auth == "none":
        raise ConfigError(
            "ssl_cafile is given, and ssl_client_auth is none: no client is asked for a "
            "certificate; make it requested or required",
            key="ssl_client_auth",
        )
    auth: Any = client_auth
    has_own = certfile is not None or own_for is not None
    if ca is None and has_own and client_auth in CLIENT_AUTH[1:]:
        raise ConfigError(
            f"ssl_client_auth is {client_auth}, and nobody says whose certificates are good; give "
            f"ssl_cafile",
            key="ssl_cafile",
        )
    if certfile is not None:
        if own_for is not None:
            raise ConfigError("tls=True makes a certificate; leave ssl_certfile out", key="tls")
        return CertificateSources(*_pair(certfile, keyfile), key_password, ca, auth)
    if keyfile is not None:
        raise ConfigError("ssl_keyfile is given without ssl_certfile; give both", key="ssl_keyfile")
    if own_for is not None:
        # It brings subprocess and tempfile, which most brokers do without.
        from fastprod.broker.self_signed import make_self_signed  # noqa: PLC0415

        made = make_self_signed(own_for)
        return CertificateSources(
            PemSource(text=made.certificate), PemSource(text=made.key), None, ca, auth
        )
    if client_auth != "none":
        raise ConfigError(
            "ssl_client_auth goes with ssl_certfile, or with tls=True", key="ssl_certfile"
        )
    return None


def _pair(certfile: PathLike, keyfile: PathLike | None) -> tuple[PemSource, PemSource | None]:
    key = None if keyfile is None else PemSource(os.fspath(keyfile), setting="ssl_keyfile")
    return PemSource(os.fspath(certfile), setting="ssl_certfile"), key


def make_mechanisms(
    passwords: Mapping[str, str] | None,
    names: Iterable[str] | None,
    validator: TokenValidator | None,
    clock: Clock,
) -> tuple[Users, Mechanisms | None]:
    """The users, and the mechanisms of SASL that arguments ask for; None: no SASL.

    Args:
        passwords: `sasl_users`.
        names: `sasl_mechanisms`.
        validator: `oauth_validator`.
        clock: for tokens without a validator.

    Raises:
        ConfigError: there is no such mechanism, or a user cannot be.
    """
    users = Users(passwords)
    if names is None:
        names = [
            *(() if passwords is None else PASSWORD_MECHANISMS),
            *(() if validator is None else (OAUTHBEARER,)),
        ]
        if not names:
            return users, None
    return users, Mechanisms(names, users, validator or UnsecuredTokens(clock))


def make_authorizer(config: BrokerConfig) -> Authorizer:
    """The authorizer that settings ask for.

    Raises:
        ConfigError: `super_users` are no principals.
    """
    names = [each.strip() for each in config.super_users.split(";") if each.strip()]
    for each in names:
        if not each.partition(":")[2]:
            raise ConfigError(
                f"super_users has {each!r}; they must be like User:admin;User:ada",
                key="super_users",
            )
    return Authorizer(names, config.allow_everyone_if_no_acl_found)


def _principal(text: str) -> str:
    if not isinstance(text, str) or not text or text.endswith(":"):
        raise ConfigError(
            f"principal is {text!r}; it must be a name, or User: and a name", key="principal"
        )
    name = plain_text(text)
    return name if ":" in name else f"User:{name}"


def _operation(text: str) -> Operation:
    name = text.upper().replace("-", "_") if isinstance(text, str) else ""
    if name not in Operation.__members__ or name == "ANY":
        known = ", ".join(each.name.lower() for each in Operation if each is not Operation.ANY)
        raise ConfigError(f"operation {text!r}; there are {known}", key="operations")
    return Operation[name]


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> tuple[ResourceType, str]:
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
        ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
    }
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) != 1 or not given[0][1]:
        raise ConfigError(
            "give one of topic, group, transactional_id and cluster: what the rule is about",
            key="topic",
        )
    kind, name = given[0]
    return kind, _rule_text(kind.name.lower(), name)


def _rule_text(key: str, value: str) -> str:
    """What a rule is compared by; it would hold for nobody if it were no text."""
    if not isinstance(value, str):
        raise ConfigError(f"{key} is {value!r:.100}; it must be text", key=key)
    return plain_text(value)


def resolved_listeners(
    given: Mapping[str, str | BrokerListener] | None, protocol: str, host: str, port: int
) -> Mapping[str, str | BrokerListener]:
    """`listeners`, or the one that `host` and `port` stand for.

    Raises:
        ConfigError: there are both.
    """
    if given is None:
        return {protocol: BrokerListener(protocol, port, host)}
    if port:
        raise ConfigError(
            "port is that of the only listener; with listeners each has its own",
            key="port",
            value=port,
        )
    return given
