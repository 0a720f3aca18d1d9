"""CertificateAuthority: signs certificates for one test run, good ones and bad ones."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
HOUR = datetime.timedelta(hours=1)
LOOPBACK = ("localhost", "127.0.0.1")

_Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, each as a file in PEM.

    Attributes:
        certificate: the certificate alone.
        key: PKCS 8, encrypted if a password was given.
        both: key and certificate in one file, as Kafka's PEM key stores want them.
        serial: of the certificate.
    """

    certificate: Path
    key: Path
    both: Path
    serial: int


class CertificateAuthority:
    """An authority of its own: `authority.certificate` is what those who trust it are given.

    Args:
        folder: for the files; made if it is missing.
        name: common name.
        issuer: who signs its certificate; None: itself.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "test authority",
        issuer: CertificateAuthority | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        now = datetime.datetime.now(datetime.UTC)
        signer = issuer or self
        signed = (
            _unsigned(self._name, signer._name, self._key, now - HOUR, now + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(signer._key, hashes.SHA256())
        )
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = LOOPBACK,
        *,
        not_before: datetime.timedelta = -HOUR,
        not_after: datetime.timedelta = DAY,
        password: str | None = None,
    ) -> Identity:
        """Make a certificate for servers and clients.

        Args:
            name: common name, and the beginning of the files' names.
            hosts: host names and addresses that it is good for; none: no subjectAltName at all.
            not_before: when it begins to be valid, from now.
            not_after: when it ends, from now.
            password: the key is encrypted with it.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = _unsigned(_named(name), self._name, key, now + not_before, now + not_after)
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return self._write(name, signed, key, password)

    def revoke(self, *identities: Identity) -> Path:
        """Return the file of a list that names these certificates as revoked."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder(
            self._name, last_update=now - HOUR, next_update=now + DAY
        )
        for identity in identities:
            entry = x509.RevokedCertificateBuilder(identity.serial, now - HOUR).build()
            builder = builder.add_revoked_certificate(entry)
        path = self._folder / "revoked.pem"
        signed = builder.sign(self._key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return path

    def _write(
        self, name: str, certificate: x509.Certificate, key: _Key, password: str | None
    ) -> Identity:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        pem = serialization.Encoding.PEM
        key_bytes = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption)
        certificate_bytes = certificate.public_bytes(pem)
        stem = name.replace(" ", "-")
        made = Identity(
            self._folder / f"{stem}.pem",
            self._folder / f"{stem}.key",
            self._folder / f"{stem}.both.pem",
            certificate.serial_number,
        )
        made.certificate.write_bytes(certificate_bytes)
        made.key.write_bytes(key_bytes)
        made.both.write_bytes(key_bytes + certificate_bytes)
        return made


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: _Key,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )
