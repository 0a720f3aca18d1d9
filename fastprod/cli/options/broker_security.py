"""Options of `fastprod broker` about TLS, users and listeners, and the files that clients need."""

from __future__ import annotations

import functools
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from fastprod.broker.broker import Broker
from fastprod.broker.listeners import BrokerListener
from fastprod.broker.network.sasl.mechanisms import ALL_MECHANISMS, OAUTHBEARER
from fastprod.settings.properties_file import properties_text

F = TypeVar("F", bound=Callable[..., Any])

_PASSWORD_BYTES: Final = 18
_LISTENER: Final = re.compile(r"([^=]+)=([A-Za-z_]+):([0-9]{1,5})")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class BrokerSecurityOptions:
    """What the options say.

    Attributes:
        tls: whether clients speak TLS.
        certificate: file with the broker's certificate; None: the broker makes one.
        key: file with its key.
        users: NAME or NAME:PASSWORD; not shown.
        mechanisms: of SASL; empty: the broker's default.
        listeners: NAME=PROTOCOL:PORT.
        folder: where the files for clients go; None: one that ends with the broker.
    """

    tls: bool
    certificate: Path | None
    key: Path | None
    users: Sequence[str] = field(repr=False)
    mechanisms: Sequence[str]
    listeners: Sequence[str]
    folder: Path | None

    def port(self, port: int) -> int:
        """The port of an only listener; 0 if there are others.

        Raises:
            click.UsageError: somebody has asked for it although there are others.
        """
        if not self.listeners:
            return port
        source = click.get_current_context().get_parameter_source("port")
        if source is ParameterSource.COMMANDLINE:
            raise click.UsageError("--port is that of an only listener: leave it or --listener out")
        return 0

    def arguments(self) -> dict[str, Any]:
        """Arguments of `Broker`.

        Raises:
            click.UsageError: an option is not of its form.
        """
        is_named = any("SSL" in each.upper() for each in self.listeners)
        found: dict[str, Any] = {"tls": (self.tls or is_named) and self.certificate is None}
        if self.certificate is not None:
            found |= {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        elif self.key is not None:
            raise click.UsageError("--tls-key goes with --tls-certificate")
        if self.users or self.mechanisms:
            found["sasl_users"] = self._passwords()
        if self.mechanisms:
            found["sasl_mechanisms"] = self.mechanisms
        if self.listeners:
            found["listeners"] = self._ways_in()
        return found

    def _ways_in(self) -> dict[str, BrokerListener]:
        found: dict[str, BrokerListener] = {}
        for name, listener in map(_listener, self.listeners):
            if name in found:
                raise click.UsageError(f"--listener {name} is given twice")
            found[name] = listener
        return found

    def _passwords(self) -> dict[str, str]:
        """Names to passwords; one that is not given is made."""
        found: dict[str, str] = {}
        for each in self.users:
            name, colon, password = each.partition(":")
            if not _FILE_NAME.fullmatch(name) or (colon and not password):
                # Not shown: it may be a password.
                raise click.UsageError(
                    "--sasl-user is NAME or NAME:PASSWORD; a name has 1 to 64 letters, digits, "
                    "'.', '_' and '-'"
                )
            if name in found:
                raise click.UsageError(f"--sasl-user {name} is given twice")
            found[name] = password or secrets.token_urlsafe(_PASSWORD_BYTES)
        return found

    @contextmanager
    def files(self, broker: Broker) -> Iterator[str]:
        """Write what clients need for as long as the broker runs; gives a line about it, or "".

        Raises:
            OSError: the files cannot be written.
            click.UsageError: one of them is there already; it stays as it is.
        """
        settings = dict(_settings(broker, broker.users))
        if not any(each["security.protocol"] != "PLAINTEXT" for each in settings.values()):
            yield ""
            return
        folder = self.folder or Path(tempfile.mkdtemp(prefix="fastprod-broker-"))
        folder.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        try:
            ca = folder / "ca.pem"
            if broker.certificate_pem is not None:
                _write(ca, broker.certificate_pem, written)
            for name, each in settings.items():
                _write(folder / f"{name}.properties", _properties(each, ca), written)
            yield "settings for clients: " + ", ".join(map(str, written))
        finally:
            for path in written:
                path.unlink(missing_ok=True)
            if self.folder is None:
                shutil.rmtree(folder, ignore_errors=True)


def _listener(text: str) -> tuple[str, BrokerListener]:
    found = _LISTENER.fullmatch(text)
    if found is None:
        raise click.UsageError(f"--listener {text}: it is not of the form NAME=PROTOCOL:PORT")
    return found[1], BrokerListener(found[2].upper(), int(found[3]))


def _settings(broker: Broker, users: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names of files to settings: one for each listener, and each user of those with SASL."""
    for listener, found in broker.listeners.items():
        prefix = f"{listener}-" if len(broker.listeners) > 1 else ""
        if not found.has_sasl:
            yield f"{prefix}client", broker.client_settings(listener=listener, flavour="java")
            continue
        for user in users:
            yield (
                f"{prefix}{user}",
                broker.client_settings(user, listener=listener, flavour="java"),
            )


def _properties(settings: dict[str, Any], ca: Path) -> str:
    """A property file of Java, with the certificates in a file of their own."""
    found = dict(settings)
    if found.pop("ssl.truststore.certificates", None) is not None:
        found["ssl.truststore.location"] = str(ca.resolve())
    return properties_text({name: str(value) for name, value in found.items()})


def _write(path: Path, text: str, written: list[Path]) -> None:
    """Write a new file that nobody else can read."""
    # It belongs to us alone before there is anything in it.
    try:
        path.touch(0o600, exist_ok=False)
    except FileExistsError:
        raise click.UsageError(
            f"--client-settings: {path} is there already; remove it, or name another folder"
        ) from None
    written.append(path)
    path.write_text(text, encoding="utf-8")


def broker_security_options(command: F) -> F:
    """Add the options; their values come as one argument, `security`."""
    options = [
        click.option("--tls", is_flag=True, help="Clients speak TLS; without a certificate the "
                     "broker makes one, by the program openssl."),
        click.option("--tls-certificate", "certificate",
                     type=click.Path(path_type=Path, dir_okay=False),
                     help="PEM file with the broker's certificate; implies --tls."),
        click.option("--tls-key", "key",
                     type=click.Path(path_type=Path, dir_okay=False),
                     help="PEM file with its key; without it the key is in --tls-certificate."),
        click.option("--sasl-user", "users", multiple=True, metavar="NAME[:PASSWORD]",
                     envvar="FASTPROD_SASL_USERS", show_envvar=True,
                     help="A user that may log in by SASL; may be repeated. Without a password one "
                          "is made; it stands in the user's file of settings. One that is given "
                          "here is shown by the list of processes, one in the variable is not."),
        click.option("--sasl-mechanism", "mechanisms", multiple=True,
                     type=click.Choice([e for e in ALL_MECHANISMS if e != OAUTHBEARER],
                                       case_sensitive=False),
                     help="By which mechanisms; may be repeated.  [default: all]"),
        click.option("--listener", "listeners", multiple=True, metavar="NAME=PROTOCOL:PORT",
                     help="A way in, such as OUTER=SASL_SSL:9094, in place of --port; may be "
                          "repeated."),
        click.option("--client-settings", "folder",
                     type=click.Path(path_type=Path, file_okay=False),
                     help="Folder for ca.pem and a property file for each user, which are removed "
                          "at the end.  [default: one that is made for them]"),
    ]  # fmt: skip

    @functools.wraps(command)
    def bundled(**given: Any) -> Any:
        said = {each.name: given.pop(each.name) for each in fields(BrokerSecurityOptions)}
        return command(**given, security=BrokerSecurityOptions(**said))

    decorated: Any = bundled
    for option in reversed(options):
        decorated = option(decorated)
    return cast(F, decorated)
