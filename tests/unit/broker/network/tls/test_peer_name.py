"""The names of certificates, as RFC 2253 writes them."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fastprod.broker.network.tls.peer_name import subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
Attribute = x509.NameAttribute
OID_OF_MAIL = NameOID.EMAIL_ADDRESS


def certificate(name: x509.Name) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([Attribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    "attributes",
    [
        [Attribute(NameOID.COMMON_NAME, "ada")],
        [
            Attribute(NameOID.COUNTRY_NAME, "GB"),
            Attribute(NameOID.STATE_OR_PROVINCE_NAME, "Greater London"),
            Attribute(NameOID.LOCALITY_NAME, "London"),
            Attribute(NameOID.ORGANIZATION_NAME, "Analytical, Engines"),
            Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, 'R+D; "x" <y> \\z'),
            Attribute(NameOID.USER_ID, "a1"),
            Attribute(NameOID.DOMAIN_COMPONENT, "example"),
            Attribute(NameOID.STREET_ADDRESS, "12 St James's"),
            Attribute(NameOID.COMMON_NAME, "Ada Lovelace"),
        ],
        [Attribute(NameOID.COMMON_NAME, " #ada ")],
        [Attribute(NameOID.COMMON_NAME, "#ada")],
        [Attribute(NameOID.COMMON_NAME, "\u00c1da \u4e2d")],
        [],
    ],
)
def test_a_subject_is_written_as_another_library_writes_it(
    attributes: list[x509.NameAttribute[str]],
) -> None:
    """cryptography writes RFC 4514, which differs in what is left unescaped only."""
    name = x509.Name(attributes)
    assert subject_of(certificate(name)) == name.rfc4514_string()


def test_attributes_that_belong_together_stay_so() -> None:
    both = x509.RelativeDistinguishedName(
        [Attribute(NameOID.COMMON_NAME, "ada"), Attribute(NameOID.USER_ID, "1")]
    )
    found = subject_of(certificate(x509.Name([both])))
    assert set(found.split("+")) == {"CN=ada", "UID=1"}


def test_an_attribute_without_a_keyword_has_its_number() -> None:
    """As in Java: the value in DER, in hex."""
    name = x509.Name([Attribute(OID_OF_MAIL, "a@b.c"), Attribute(NameOID.COMMON_NAME, "ada")])
    assert subject_of(certificate(name)) == "CN=ada,1.2.840.113549.1.9.1=#1605" + b"a@b.c".hex()


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x80", b"\x30\x03abc", b"text", bytes(100)])
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        subject_of(data)
