"""A certificate for this machine that signs itself, as good for one test run as any."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fastprod.broker.network.tls.server_certificate import (
    CertificateSources,
    ClientAuth,
    ServerCertificate,
)
from fastprod.security.pem_source import PemSource


class Certificate(NamedTuple):
    """Two files in PEM; clients trust the first."""

    certfile: Path
    keyfile: Path

    def server(
        self, ca: Certificate | None = None, client_auth: ClientAuth = "none"
    ) -> ServerCertificate:
        """What a broker shows; clients' certificates are signed by `ca`."""
        return ServerCertificate(
            CertificateSources(
                PemSource(str(self.certfile)),
                PemSource(str(self.keyfile)),
                ca=None if ca is None else PemSource(str(ca.certfile)),
                client_auth=client_auth,
            )
        )

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certfile)


def make(folder: Path, owner: str = "localhost") -> Certificate:
    """Make one for localhost and 127.0.0.1, with the name of its owner."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, owner)])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    made.certfile.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    made.keyfile.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return made
