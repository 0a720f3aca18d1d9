"""GSSAPI: Kerberos, by the package gssapi (RFC 4752; P-G.10.6). No security layer: TLS is one."""

from __future__ import annotations

from typing import Any, Final

from fastprod.client.sasl.mechanism import MechanismError
from fastprod.security.sasl_settings import KerberosSettings

_NO_LAYER: Final = 1
_LAYERS_BYTES: Final = 4


class GssapiMechanism:
    """One exchange by GSSAPI; see `Mechanism`.

    Args:
        settings: the brokers' service, and whose ticket is used.
        host: the broker's, as its address has it.
        authorization_id: whom to act as; "": the ticket's principal.

    Raises:
        MechanismError: the package is not installed.
    """

    hint = "check the ticket (klist), sasl_kerberos_service_name and the host name in the address"
    secrets = ()
    may_block = True

    def __init__(self, settings: KerberosSettings, host: str, authorization_id: str = "") -> None:
        self._gssapi = _package()
        self._settings = settings
        self._authorization_id = authorization_id.encode()
        self._service = f"{settings.service_name}@{settings.host_name or host}"
        self._context: Any = None
        self._has_layer_due = False
        self.user = "the Kerberos principal" + (
            f" {settings.principal!r}" * bool(settings.principal)
        )
        self.is_done = False

    def initial(self) -> bytes:
        """The ticket for the broker.  Blocks for the KDC."""
        gssapi = self._gssapi
        try:
            service = gssapi.Name(self._service, gssapi.NameType.hostbased_service)
            flag = gssapi.RequirementFlag
            self._context = gssapi.SecurityContext(
                name=service,
                creds=self._credentials(),
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=flag.mutual_authentication | flag.integrity | flag.out_of_sequence_detection,
            )
            return bytes(self._context.step() or b"")
        except gssapi.exceptions.GSSError as error:
            raise MechanismError(f"no ticket for {self._service!r}: {error}") from None

    def next(self, challenge: bytes) -> bytes | None:
        """The rest of the tickets' exchange, then that there is no security layer."""
        gssapi = self._gssapi
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            if not self._has_layer_due:
                self._has_layer_due = True
                return self._layer(challenge)
        except gssapi.exceptions.GSSError as error:
            raise MechanismError(f"the broker's message for {self._service!r}: {error}") from None
        self.is_done = True
        return None

    def _layer(self, challenge: bytes) -> bytes:
        offered = self._context.unwrap(challenge).message
        if len(offered) != _LAYERS_BYTES or not offered[0] & _NO_LAYER:
            raise MechanismError("the broker asks for a security layer of SASL; TLS is one here")
        answer = bytes([_NO_LAYER, 0, 0, 0]) + self._authorization_id
        return bytes(self._context.wrap(answer, False).message)

    def _credentials(self) -> Any:
        settings, gssapi = self._settings, self._gssapi
        if not settings.principal and not settings.keytab:
            return None
        name = None
        if settings.principal:
            name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal)
        store = {"client_keytab": settings.keytab} if settings.keytab else None
        return gssapi.Credentials(usage="initiate", name=name, store=store)


def _package() -> Any:
    try:
        import gssapi  # noqa: PLC0415
    except ImportError as error:
        raise MechanismError(
            f"sasl_mechanism = GSSAPI needs the package gssapi and the system's Kerberos libraries "
            f"({error}): pip install 'fastprod[kerberos]'"
        ) from None
    return gssapi
