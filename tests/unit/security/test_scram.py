"""SCRAM: the RFCs' examples, both sides against one another, and damaged messages."""

from __future__ import annotations

import base64
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.security.scram import (
    HASH_NAMES,
    Salter,
    ScramClient,
    ScramCredentials,
    ScramError,
    ScramServer,
    credentials_from_salted,
    make_credentials,
    salted_password,
    verify_client_proof,
)

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
MESSAGES = (CLIENT_FIRST, SERVER_FIRST, CLIENT_FINAL, SERVER_FINAL)

# Made once: the rounds take time.
KEYS = {mechanism: make_credentials(mechanism, "pencil", salt=SALT) for mechanism in HASH_NAMES}
mechanisms = pytest.mark.parametrize("mechanism", HASH_NAMES)


def rfc_client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)


def rfc_server() -> ScramServer:
    return ScramServer("SCRAM-SHA-256", nonce=SERVER_NONCE)


def test_the_client_of_the_rfc() -> None:
    """P-G.10.4"""
    client = rfc_client()
    assert client.first() == CLIENT_FIRST
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    client.verify(SERVER_FINAL)


def test_the_server_of_the_rfc() -> None:
    server = rfc_server()
    assert server.read_first(CLIENT_FIRST) == "user"
    assert server.first(KEYS["SCRAM-SHA-256"]) == SERVER_FIRST
    assert server.final(CLIENT_FINAL) == SERVER_FINAL
    assert (server.authorization_id, server.extensions) == ("", {})


def test_credentials_of_a_salted_password_are_the_same() -> None:
    salted = salted_password("SCRAM-SHA-512", "pencil", SALT, 4096)
    assert credentials_from_salted("SCRAM-SHA-512", salted, SALT, 4096) == KEYS["SCRAM-SHA-512"]


def test_a_proof_is_verified_by_itself() -> None:
    """The three messages, as RFC 5802 puts them together."""
    without_proof, _, proof = CLIENT_FINAL.rpartition(b",p=")
    message = b",".join((CLIENT_FIRST[3:], SERVER_FIRST, without_proof))
    stored_key = KEYS["SCRAM-SHA-256"].stored_key
    decoded = base64.b64decode(proof)
    assert verify_client_proof("SCRAM-SHA-256", stored_key, message, decoded)
    for wrong in (decoded[:-1], decoded[:-1] + b"x", b""):
        assert not verify_client_proof("SCRAM-SHA-256", stored_key, message, wrong)


@mechanisms
def test_both_sides_agree_on_names_and_extensions(mechanism: str) -> None:
    """P-L.181, P-G.10.4: special characters in user names, as in Kafka's SaslAuthenticatorTest."""
    client = ScramClient(
        mechanism,
        "a=b,c=2Cd",
        "p\u00e4ss,=word",
        authorization_id="x=,y",
        extensions={"tokenauth": "true"},
    )
    server = ScramServer(mechanism)
    first = client.first()
    assert first.startswith(b"n,a=x=3D=2Cy,n=a=3Db=2Cc=3D2Cd,r=")
    assert first.endswith(b",tokenauth=true")
    assert server.read_first(first) == "a=b,c=2Cd"
    assert server.authorization_id == "x=,y"
    assert server.extensions == {"tokenauth": "true"}
    credentials = make_credentials(mechanism, "p\u00e4ss,=word")
    client.verify(server.final(client.final(server.first(credentials))))


@mechanisms
def test_a_wrong_password_proves_nothing_to_either_side(mechanism: str) -> None:
    client = ScramClient(mechanism, "user", "pen", nonce=NONCE)
    server = ScramServer(mechanism)
    server.read_first(client.first())
    final = client.final(server.first(KEYS[mechanism]))
    with pytest.raises(ScramError, match=r"proof is wrong"):
        server.final(final)
    with pytest.raises(ScramError, match=r"another server"):
        client.verify(SERVER_FINAL)


def test_a_server_that_knows_no_keys_is_found_out() -> None:
    """P-G.10.4: `v=` is verified, and not before there is something to verify it by."""
    client = rfc_client()
    with pytest.raises(ScramError, match=r"another server"):
        client.verify(SERVER_FINAL)
    client.final(SERVER_FIRST)
    with pytest.raises(ScramError, match=r"another server"):
        client.verify(b"v=AAAA")
    with pytest.raises(ScramError, match=r"refused the proof: 'invalid-proof'"):
        client.verify(b"e=invalid-proof,x=y")


@pytest.mark.parametrize(
    ("server_first", "words"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=XOpr"), "another exchange"),
        (SERVER_FIRST.replace(SERVER_NONCE.encode(), b""), "another exchange"),
        (SERVER_FIRST.replace(b"k0,", b"k\x00,"), "another exchange"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), r"4,095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1000001"), r"1,000,001 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=99999999999999999999"), "is none"),
        (SERVER_FIRST.replace(b"i=4096", "i=\u0664096".encode()), "is none"),
        (SERVER_FIRST.replace(b"s=W22", b"s=!22"), "base 64"),
        (SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "base 64"),
        (b"m=x," + SERVER_FIRST, "nobody knows"),
        (SERVER_FIRST.replace(b",i=4096", b""), "no attribute 'i'"),
        (SERVER_FIRST + b",i=4096", "number 4"),
        (b"s=QQ==,r=a,i=4096", "number 1"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "number 1"),
    ],
)
def test_a_wrong_first_message_of_the_server(server_first: bytes, words: str) -> None:
    """P-G.10.4: the nonce starts with ours, and 4,096 iterations are the least."""
    with pytest.raises(ScramError, match=words):
        rfc_client().final(server_first)


@pytest.mark.parametrize(
    ("client_first", "words"),
    [
        (b"", "ends early"),
        (b"n,", "ends early"),
        (b"p=tls-unique,,n=user,r=abc", "channel binding"),
        (b"n,x=ada,n=user,r=abc", "authorization id"),
        (b"n,a==,n=user,r=abc", "neither =2C nor =3D"),
        (b"n,,n=us=er,r=abc", "neither =2C nor =3D"),
        (b"n,,n=,r=abc", "no user name"),
        (b"n,,n=user,r=", "no nonce"),
        (b"n,,r=abc,n=user", "number 1"),
        (b"n,,m=x,n=user,r=abc", "nobody knows"),
        (b"n,,n=user", "no attribute 'r'"),
    ],
)
def test_a_wrong_first_message_of_the_client(client_first: bytes, words: str) -> None:
    with pytest.raises(ScramError, match=words):
        rfc_server().read_first(client_first)


@pytest.mark.parametrize(
    ("client_final", "words"),
    [
        (CLIENT_FINAL.replace(b"c=biws", b"c=eSws"), "another header"),
        (CLIENT_FINAL.replace(b"r=rO", b"r=xO"), "another exchange"),
        (CLIENT_FINAL.replace(b"p=dH", b"p=eH"), "proof is wrong"),
        (CLIENT_FINAL.replace(b"p=dHzb", b"p="), "proof is wrong"),
        (CLIENT_FINAL.replace(b"p=dH", b"p=!"), "base 64"),
        (CLIENT_FINAL.partition(b",p=")[0], "no proof"),
    ],
)
def test_a_wrong_final_message_of_the_client(client_final: bytes, words: str) -> None:
    server = rfc_server()
    server.read_first(CLIENT_FIRST)
    with pytest.raises(ScramError, match="no proof"):
        server.final(client_final)
    server.first(KEYS["SCRAM-SHA-256"])
    with pytest.raises(ScramError, match=words):
        server.final(client_final)


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ScramError, match="no such mechanism: 'SCRAM-MD5'"):
        make_credentials("SCRAM-MD5", "x")
    with pytest.raises(ScramError, match="user name is empty"):
        ScramClient("SCRAM-SHA-256", "", "x")
    for extensions in ({"a1": "x"}, {"r": "x"}, {"a": "x,y"}, {"a\n": "x"}):
        with pytest.raises(ScramError, match="extension"):
            ScramClient("SCRAM-SHA-256", "u", "x", extensions=extensions)
    with pytest.raises(ScramError, match="salt is empty"):
        make_credentials("SCRAM-SHA-256", "x", salt=b"")


def test_nothing_shows_the_keys_or_the_password() -> None:
    """P-G.10.8"""
    assert repr(KEYS["SCRAM-SHA-256"]) == "ScramCredentials(iterations=4096)"
    assert "pencil" not in repr(rfc_client())
    assert "pencil" not in repr(Salter("SCRAM-SHA-256", "pencil"))
    assert isinstance(KEYS["SCRAM-SHA-256"], ScramCredentials)


def test_nonces_differ() -> None:
    firsts = {ScramClient("SCRAM-SHA-256", "u", "x").first() for _ in range(100)}
    assert len(firsts) == 100


def feed(message: bytes) -> None:
    """Hand a message to whoever might get it; only ScramError may come of it."""
    server, client, waiting = rfc_server(), rfc_client(), rfc_server()
    waiting.read_first(CLIENT_FIRST)
    waiting.first(KEYS["SCRAM-SHA-256"])
    for take in (server.read_first, client.verify, waiting.final):
        try:
            take(message)
        except ScramError:
            continue
    if b"i=1" not in message:  # the rounds would take long
        with pytest.raises(ScramError):
            client.final(message + b",i=4095")


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_refused_with_an_error(message: bytes) -> None:
    feed(message)


@given(st.sampled_from(MESSAGES), st.data())
@settings(max_examples=300)
def test_damaged_messages_are_refused_with_an_error(message: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(message)))
    end = data.draw(st.integers(start, len(message)))
    piece = data.draw(st.binary(max_size=8))
    feed(message[:start] + piece + message[end:])


def test_messages_cut_anywhere_are_refused_with_an_error() -> None:
    for message in MESSAGES:
        for end in range(len(message)):
            feed(message[:end])


printable = st.characters(exclude_categories=["C", "Z"], include_characters=" ")
name_text = st.text(printable, min_size=1, max_size=20)


@given(name_text, name_text, st.text(printable, max_size=8))
@settings(max_examples=30)
def test_both_sides_agree_on_any_text(username: str, password: str, other: str) -> None:
    client = ScramClient("SCRAM-SHA-256", username, password, authorization_id=other)
    server = ScramServer("SCRAM-SHA-256")
    assert server.read_first(client.first()) == username
    assert server.authorization_id == other
    credentials = make_credentials("SCRAM-SHA-256", password)
    client.verify(server.final(client.final(server.first(credentials))))


def test_every_byte_of_the_final_messages_matters() -> None:
    client = rfc_client()
    client.final(SERVER_FIRST)
    for place, bit in itertools.product(range(2, len(CLIENT_FINAL)), (1, 2)):
        changed = bytearray(CLIENT_FINAL)
        changed[place] ^= bit
        server = rfc_server()
        server.read_first(CLIENT_FIRST)
        server.first(KEYS["SCRAM-SHA-256"])
        with pytest.raises(ScramError):
            server.final(bytes(changed))
    for place, bit in itertools.product(range(len(SERVER_FINAL)), (1, 2)):
        changed = bytearray(SERVER_FINAL)
        changed[place] ^= bit
        with pytest.raises(ScramError):
            client.verify(bytes(changed))
