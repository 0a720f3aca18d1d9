"""TlsContexts: what connections use TLS by, made anew when one of its files has changed."""

from __future__ import annotations

from typing import NoReturn

from fastprod._core.tls.tls_context import TlsContext, TlsContextError
from fastprod.client.connections.system_certificates import system_certificates
from fastprod.errors import ConfigError
from fastprod.log import Log
from fastprod.security.pem_source import PemSource
from fastprod.security.secret import HIDDEN, Secret, plain_text, shown_path
from fastprod.security.tls_settings import TlsSettings

_LOG = Log(__name__)

_States = tuple[object, ...]

_SETTING_OF = {
    "ca": "ssl_truststore_location",
    "certificate": "ssl_keystore_location",
    "private_key": "ssl_keystore_location",
    "key_password": "ssl_key_password",
    "crl": "ssl_crl_location",
    "min_version": "ssl_enabled_protocols",
    "max_version": "ssl_enabled_protocols",
    "ciphers": "ssl_cipher_suites",
    "cipher_suites": "ssl_cipher_suites",
}
"""Where what `TlsContext` is made of comes from, if it has no source that says so."""


class TlsContexts:
    """The context for the next connection. One thread, the control thread, uses it.

    Args:
        settings: what it is made of; the files are read at once.

    Raises:
        ConfigError: a file cannot be read, or what is in it cannot be used; it names the setting.
        ImportError: there is no OpenSSL 1.1.1 or later.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._ca = settings.ca
        if self._ca is None and settings.verify:
            bundle = system_certificates()
            if bundle is not None:
                self._ca = PemSource(bundle, setting="the system's certificates")
        self._states = self._refused = self._now()
        self._context = self._make()

    def current(self) -> TlsContext:
        """Return the context; made anew if a file has changed. Blocks for the disk.

        If the files cannot be used now, as when they are being written, the one before is returned
        and a warning is logged, once for each state of the files.
        """
        states = self._now()
        if states == self._states:
            return self._context
        try:
            self._context = self._make()
            self._states = states
        except ConfigError as error:
            if states != self._refused:
                self._refused = states
                _LOG.warning(
                    "certificates that have changed cannot be used, those before are kept: %s",
                    error,
                )
        else:
            _LOG.info("certificates have changed: the next connections use the new ones")
        return self._context

    def _now(self) -> _States:
        settings = self._settings
        sources = (self._ca, settings.certificate, settings.private_key, settings.crl)
        return tuple(None if source is None else source.state() for source in sources)

    def _make(self) -> TlsContext:
        settings = self._settings
        password = settings.key_password
        try:
            return TlsContext(
                ca=_read(self._ca),
                certificate=_read(settings.certificate),
                private_key=_read(settings.private_key),
                key_password=None if password is None else password.encode(),
                crl=_read(settings.crl),
                verify=settings.verify,
                check_host_name=settings.check_host_name,
                min_version=settings.min_version,
                max_version=settings.max_version,
                ciphers=_plain(settings.ciphers),
                cipher_suites=_plain(settings.cipher_suites),
                strict=settings.strict,
                partial_chain=settings.partial_chain,
            )
        except TlsContextError as error:
            self._refuse(error)

    def _refuse(self, error: TlsContextError) -> NoReturn:
        source = self._ca if error.part == "ca" else getattr(self._settings, error.part, None)
        setting, where = _SETTING_OF.get(error.part, error.part), ""
        if isinstance(source, PemSource):
            setting = source.setting
            where = "" if source.path is None else f" = {shown_path(source.path)}"
        text = str(error)
        if error.part.startswith("cipher") and isinstance(source, Secret):
            text = f"OpenSSL does not know what it names ({HIDDEN})"
        raise ConfigError(f"{setting}{where}: {text}", key=setting) from None


def _read(source: PemSource | None) -> bytes | None:
    return None if source is None else source.read()


def _plain(text: str | None) -> str | None:
    return None if text is None else plain_text(text)


def server_name(host: str) -> str:
    """The name that is told to a broker, and that its certificate must have, for a host.

    Returns:
        `host`, by the rules of IDNA if it is not ASCII.
    """
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host
