"""Credentials: what a producer says who it is, for all its connections, and that can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.sasl.login import Login, TokenSource
from fastprod.client.sasl.login_error import LoginError
from fastprod.client.sasl.mechanism import Mechanism, MechanismError
from fastprod.errors import ConfigError, IllegalStateError
from fastprod.security.sasl_settings import KerberosSettings, SaslSettings

if TYPE_CHECKING:
    from fastprod.security.scram import Salter

_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_WITH_TOKEN: Final = ("OAUTHBEARER", "AWS_MSK_IAM")


class Credentials:
    """Makes a mechanism for each exchange.

    Args:
        settings: mechanism, user, and where tokens come from.
        on_change: called on another thread when `new_mechanism` may say something else than before.
        client_id: names the login's thread.

    Attributes:
        generation: grows with each `replace`: what failed before may succeed now.
        token_name: what a connection waits for while there is no token, in words.

    Threads: `replace`, `awaited`, `end` and `close` any; `start` the producer's; the rest the
    control thread's.
    """

    def __init__(
        self, settings: SaslSettings, on_change: Callable[[], None], client_id: str
    ) -> None:
        self._settings = settings
        password = settings.password
        # With what salts the password, once SCRAM has been asked for: both go together.
        self._user: tuple[str, str, list[Salter]]
        self._user = (settings.username, "" if password is None else password.reveal(), [])
        self.generation = 0
        self._on_change = on_change
        self._login: Login | None = None
        self._login_failure = ""
        self.token_name = "the access token"
        if settings.mechanism in _WITH_TOKEN:
            self._make_login(f"kafka-login | {client_id}")

    @property
    def mechanism(self) -> str:
        """The mechanism's name on the wire: MSK's brokers take its tokens by OAUTHBEARER."""
        name = self._settings.mechanism
        return "OAUTHBEARER" if name == "AWS_MSK_IAM" else name

    def start(self) -> None:
        """Begin to fetch a token, if there is one."""
        if self._login is not None:
            self._login.start()

    def awaited(self) -> str:
        """What every connection waits for, as a clause; "": nothing."""
        if self._login is None or not self._login.is_awaited:
            return ""
        failure = self._login.failure
        if failure:
            return f"there is no access token yet: {failure}"
        return f"{self.token_name} is still awaited"

    def end(self) -> None:
        """Fetch no more tokens.  Does not wait."""
        if self._login is not None:
            self._login.end()

    def close(self, deadline_s: float | None = None) -> None:
        """The same, and wait for the login's thread: at most a second, and if it fetches a token at
        most until `deadline_s`, in seconds of the monotonic clock."""
        if self._login is not None:
            self._login.close(deadline_s)

    def replace(self, username: str, password: str) -> None:
        """Use another user from the next exchange on.

        Raises:
            IllegalStateError: the mechanism has no password.
        """
        if self._settings.mechanism not in _WITH_PASSWORD:
            raise IllegalStateError(
                f"sasl_mechanism = {self._settings.mechanism} has no user name and password to "
                f"replace: {', '.join(_WITH_PASSWORD)} have"
            )
        self._user = (username, str.__str__(password), [])  # as it is, if it is a Secret
        self.generation += 1
        self._on_change()

    def new_mechanism(
        self, host: str, *, after: int = 0, least_life_s: float = 0.0
    ) -> tuple[Mechanism, int]:
        """Return the client's side of an exchange, and its token's number or 0.

        Args:
            host: the broker's, as its address has it.
            after: a token with a larger number will do.
            least_life_s: so will one that is good for so many seconds more.

        Raises:
            LoginPendingError: the token is on its way; `on_change` tells.
            AuthenticationError: it cannot be had, and why.
            MechanismError: the mechanism lacks something.
        """
        # Imported where they are used: each of them brings modules that the others do not need.
        settings = self._settings
        username, password, salters = self._user
        if settings.mechanism == "PLAIN":
            from fastprod.client.sasl.plain import PlainMechanism  # noqa: PLC0415

            return PlainMechanism(username, password, settings.authorization_id), 0
        if settings.mechanism in _WITH_PASSWORD:
            from fastprod.client.sasl.scram import ScramMechanism  # noqa: PLC0415
            from fastprod.security.scram import Salter  # noqa: PLC0415

            if not salters:
                salters.append(Salter(settings.mechanism, password))
            made = ScramMechanism(
                settings.mechanism,
                username,
                password,
                settings.authorization_id,
                settings.extensions,
                salters[0],
            )
            return made, 0
        if settings.mechanism == "GSSAPI":
            from fastprod.client.sasl.gssapi import GssapiMechanism  # noqa: PLC0415

            kerberos = settings.kerberos or KerberosSettings()
            return GssapiMechanism(kerberos, host, settings.authorization_id), 0
        from fastprod.client.sasl.oauthbearer import OAuthBearerMechanism  # noqa: PLC0415

        if self._login is None:
            raise MechanismError(self._login_failure)
        token, number = self._login.token(after=after, least_life_s=least_life_s)
        return OAuthBearerMechanism(token, settings.authorization_id), number

    def refused(self, number: int) -> None:
        """A broker did not accept the token with that number."""
        if self._login is not None and number:
            self._login.refused(number)

    def _make_login(self, name: str) -> None:
        settings = self._settings
        try:
            source = _token_source(settings)
        except LoginError as error:
            self._login_failure = str(error)
            return
        self.token_name = f"the access token from {source.name}"
        backoff = ExponentialBackoff(100, 10_000)
        if settings.token_endpoint is not None:
            endpoint = settings.token_endpoint
            backoff = ExponentialBackoff(
                round(endpoint.retry_backoff_s * 1000), round(endpoint.retry_backoff_max_s * 1000)
            )
        self._login = Login(source, settings.refresh, backoff, self._on_change, name)


def _token_source(settings: SaslSettings) -> TokenSource:
    extensions = dict(settings.extensions)
    if settings.mechanism == "AWS_MSK_IAM":
        from fastprod.client.sasl.aws_msk_iam import AwsMskIamTokens  # noqa: PLC0415

        if settings.aws is None:
            raise ConfigError("AWS_MSK_IAM needs the region of the cluster", key="sasl_mechanism")
        return AwsMskIamTokens(settings.aws)
    if settings.token_callback is not None:
        from fastprod.client.sasl.callback_tokens import CallbackTokens  # noqa: PLC0415

        return CallbackTokens(settings.token_callback, extensions)
    if settings.token_endpoint is None:
        raise ConfigError("OAUTHBEARER needs a callback or an endpoint", key="sasl_mechanism")
    from fastprod.client.sasl.token_endpoint import EndpointTokens  # noqa: PLC0415

    return EndpointTokens(settings.token_endpoint, extensions)
