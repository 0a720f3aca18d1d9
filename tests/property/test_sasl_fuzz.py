"""SASL with damaged messages, in both directions: documented errors come out, and nothing else.

Our client's side talks to our broker's, message by message; one of the messages is damaged, and
what follows is the other side's honest answer to it. In `make accept` a million messages are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from fastprod._core.io.server_selector import Frame
from fastprod.broker.api_table import ApiTable, InvalidRequestError
from fastprod.broker.config import BrokerConfig
from fastprod.broker.network.connection import ANONYMOUS, Connection
from fastprod.broker.network.request import Request, Response, SendResponse
from fastprod.broker.network.sasl import authenticator as broker_side
from fastprod.broker.network.sasl.authenticator import SaslAuthenticator
from fastprod.broker.network.sasl.bearer_token import BearerToken
from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError
from fastprod.broker.network.sasl.mechanisms import ALL_MECHANISMS, Mechanisms
from fastprod.broker.network.sasl.users import Users
from fastprod.broker.threads.clock import FakeClock
from fastprod.client.sasl.authenticator import Authenticator, Step
from fastprod.client.sasl.authenticator import Frame as ClientFrame
from fastprod.client.sasl.bearer_token import read_token
from fastprod.client.sasl.mechanism import Mechanism, MechanismError
from fastprod.client.sasl.oauthbearer import OAuthBearerMechanism
from fastprod.client.sasl.plain import PlainMechanism
from fastprod.client.sasl.scram import ScramMechanism
from fastprod.errors import AuthenticationError, NetworkError
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeRequest
from fastprod.security import scram
from support.broker.sasl_client import AUTHENTICATE, HANDSHAKE, USERS, payload
from support.oracle.damage import EXTREMES, damaged
from support.processes.scale import scaled, time_limit
from support.security.sasl_answers import versions_answer

TOKENS = 600_000
FRAMES = 400_000
DEFAULT_PERCENT = 1.0
NOW_S = 1_000.0
USER, PASSWORD = "alice", USERS["alice"]
TOKEN, REFUSED_TOKEN = "abc.def.ghi", "abc.def.xyz"
MOST_MESSAGES = 50
SWOLLEN_EVERY = 2_000
SWOLLEN_BYTES = 300_000
MOST_GROWTH_BYTES = 64 << 20
LONGEST_TOLD = 2_000
VERSIONS = versions_answer({HANDSHAKE: (0, 1), AUTHENTICATE: (0, 2)})

# What belongs to the language of tokens.
WORDS = [
    *(b",", b"=", b",,", b"\0", b"\1", b"\1\1", b"n,,", b"y,,", b"p=tls-unique,,", b"n,a=bob,"),
    *(b"m=", b"r=", b"s=", b",s=,", b"i=", b"i=0,", b"i=-1", b"i=999999999", b"i=1000001"),
    *(b"i=4096,i=1", b"i=\xd9\xa4\xd9\xa0\xd9\xa9\xd9\xa6", b"v=", b"p=", b",p=,p=", b"e="),
    *(b"e=other-error", b"====", b"=2C", b"=3D", b"=2c", b"auth=", b"auth=Bearer "),
    *(b"\1auth=Bearer abc.def.ghi\1", b'{"status":', b"{}", b"[" * 500, b"", b"\r\n", b"a" * 5_000),
    *(b"\xff", b"\xc0\x80", b"\xed\xa0\x80", "\u00fc\u2028".encode()),
    *(b"i=" + b"1" * 5_000, PASSWORD.encode(), TOKEN.encode()),
]  # fmt: skip
MIXED = EXTREMES + WORDS
SAMPLES = [
    b"n,,n=alice,r=rOprNGfwEbeRWgbNEkqO",
    b"n,a=bob,n=alice,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDp,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    b"e=invalid-proof",
    b"\0alice\0wonderland",
    b"bob\0bob\0builder",
    b"n,,\1auth=Bearer abc.def.ghi\1\1",
    b"n,a=alice,\1auth=Bearer abc.def.ghi\1traceId=1\1\1",
    json.dumps({"status": "invalid_token", "scope": "x"}).encode(),
    b"\1",
]


@contextmanager
def reported(name: str, damage: Damage) -> Iterator[None]:
    """Add the damaged message to whatever fails."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{name}: input {damage.count}: {damage.last[:LONGEST_TOLD]!r}")
        raise


class Damage:
    """Damages one message of each conversation, chosen by chance."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.count = 0
        self.last = b""
        self._left = 0

    def start(self, most: int) -> None:
        """A new conversation: one of the first `most` messages will be damaged."""
        self._left = self.chance.randrange(most)
        self.last = b""

    def __call__(
        self, message: bytes, *, header_bytes: int = 0, extremes: list[bytes] = WORDS
    ) -> bytes:
        """The next message, as it arrives."""
        self._left -= 1
        if self._left != -1:
            return message
        self.count += 1
        found = damaged(message, SAMPLES, self.chance, header_bytes=header_bytes, extremes=extremes)
        if self.count % SWOLLEN_EVERY == 0:
            at = self.chance.randint(0, len(found))
            piece = found[at : at + self.chance.randint(1, 8)] or b","
            found = found[:at] + piece * (SWOLLEN_BYTES // len(piece)) + found[at:]
        self.last = found
        return found


@pytest.fixture
def damage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Damage:
    """Everything else is the same in every run: nonces, and salts."""
    made = Damage(request.node.name)
    nonces = random.Random(1)
    monkeypatch.setattr(scram, "_new_nonce", lambda: f"{nonces.getrandbits(144):036x}")
    return made


@pytest.fixture(autouse=True)
def quick_rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[int]]:
    """One round of the hash in place of thousands; how many were asked for is looked at."""
    asked: Counter[int] = Counter()
    real = hashlib.pbkdf2_hmac

    def quick(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        asked[iterations] += 1
        return real(name, password, salt + b"%d" % iterations, 1)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", quick)
    yield asked
    assert all(scram.LEAST_ITERATIONS <= each <= scram.MOST_ITERATIONS for each in asked)


class Told(logging.Handler):
    """Errors of the broker's own; what it says of its clients are warnings."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors.append(record.getMessage())


@pytest.fixture
def told() -> Iterator[Told]:
    logger = logging.getLogger("fastprod.broker")
    handler = Told()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)  # a million warnings would be kept
    yield handler
    logger.setLevel(before)
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < MOST_GROWTH_BYTES


def client_side(name: str, chance: random.Random) -> Mechanism:
    """A new exchange of the client's, sometimes with what is rarely used."""
    authorization_id = USER if chance.random() < 0.2 else ""
    if name == "PLAIN":
        return PlainMechanism(USER, PASSWORD, authorization_id)
    if name == "OAUTHBEARER":
        value = TOKEN if chance.random() < 0.5 else REFUSED_TOKEN
        extensions = {"traceId": "1"} if chance.random() < 0.2 else None
        return OAuthBearerMechanism(
            read_token((value, NOW_S + 60), NOW_S, extensions), authorization_id
        )
    extensions = {"tokenauth": "true"} if chance.random() < 0.2 else None
    return ScramMechanism(name, USER, PASSWORD, authorization_id, extensions)


def offered(clock: FakeClock) -> Mechanisms:
    def whose(token: str) -> BearerToken | None:
        return BearerToken(USER, clock.time_ms() + 60_000) if token == TOKEN else None

    return Mechanisms(ALL_MECHANISMS, Users(USERS), whose)


def check_text(error: Exception, secrets: tuple[str, ...]) -> None:
    """It can be shown, whatever the broker said, and is not too long."""
    text = str(error)
    assert not any(each in text for each in secrets)
    assert len(text) <= LONGEST_TOLD


def converse(name: str, mechanisms: Mechanisms, damage: Damage) -> str:
    """One exchange of tokens, one of them damaged; what became of it."""
    client, server = client_side(name, damage.chance), mechanisms.server(name)
    assert server is not None
    damage.start(4 if name != "PLAIN" else 2)
    token: bytes | None = client.initial()
    for _ in range(MOST_MESSAGES):
        assert token is not None
        try:
            challenge = server.next(damage(token))
        except InvalidCredentialsError:
            return "refused by the broker"
        if server.is_done:
            assert server.user in USERS
        try:
            heard = damage(challenge)
            token = client.next(heard)
        except MechanismError:
            return "refused by the client"
        if token is None:
            assert client.is_done
            # Who proves that it knows the password has seen the client's proof before.
            assert server.is_done or not name.startswith("SCRAM")
            # Behind the proof there may be what nobody knows.
            proof = challenge.split(b",")[0]
            assert heard.split(b",")[0] == proof or not name.startswith("SCRAM")
            return "accepted"
        if server.is_done:
            return "another token for a broker that is content"
    raise AssertionError("the exchange does not end")


@time_limit(1_800.0)
def test_damaged_tokens_are_refused_by_either_side(damage: Damage, told: Told) -> None:
    """P-G.10.4, P-G.10.5, B-A7.5: of every mechanism, on either side."""
    mechanisms = offered(FakeClock())
    found: Counter[str] = Counter()
    count = scaled(TOKENS, default_percent=DEFAULT_PERCENT)
    while damage.count < count:
        name = damage.chance.choice(ALL_MECHANISMS)
        with reported(name, damage):
            found[converse(name, mechanisms, damage)] += 1
    assert not told.errors
    assert found.keys() >= {"refused by the broker", "refused by the client", "accepted"}


class BrokerEnd:
    """The broker's side of one connection: takes a frame, returns the answer's."""

    def __init__(self, mechanisms: Mechanisms, clock: FakeClock) -> None:
        self.connection = Connection("c", 1, "SASL_PLAINTEXT", 0, ("h", 1), ("h", 2))
        self._authenticator = SaslAuthenticator(self.connection, mechanisms, TABLE, CONFIG, clock)
        self._responses: list[Response] = []

    def send_response(self, response: Response) -> None:
        """For the Request."""
        self._responses.append(response)

    def answer(self, data: bytes) -> bytes | None:
        """The answer without its size; None: the connection ends, or others answer this."""
        try:
            header = self._authenticator.parse_header(memoryview(data))
        except (
            broker_side.AuthenticationError,
            broker_side.SessionExpiredError,
            InvalidRequestError,
        ):
            return None
        if not self._authenticator.takes(header):
            return None
        request = Request(cast(Frame, bytearray(data)), header, self.connection, 0, 0, self)
        self._authenticator.handle(request)
        response = self._responses.pop()
        assert not self._responses
        if not isinstance(response, SendResponse):
            return None
        answer = b"".join(bytes(part) for part in response.parts)
        if not answer:
            return None
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        return answer[4:]


TABLE = ApiTable()
CONFIG = BrokerConfig.make({})


def authenticate(name: str, end: BrokerEnd, damage: Damage) -> str:
    """Frames of one authentication, one of them damaged; what became of it."""
    client = Authenticator(client_side(name, damage.chance), name, "b0:9092", "me")
    damage.start(6)

    def heard(frame: ClientFrame) -> bytes | None:
        sent = damage(frame.data[4:], header_bytes=8, extremes=MIXED)
        answer = end.answer(sent)
        return None if answer is None else damage(answer, header_bytes=4, extremes=MIXED)

    client.versions_frame()
    try:
        client.on_versions(VERSIONS if damage.chance.random() < 0.9 else damage(VERSIONS))
        frame: ClientFrame | None = client.handshake_frame()
        for _ in range(MOST_MESSAGES):
            assert frame is not None
            answer = heard(frame)
            if answer is None:
                return "closed by the broker"
            if client.step is Step.HANDSHAKE:
                client.on_handshake(answer)
                frame = client.first_token_frame()
            else:
                frame = client.on_authenticate(answer)
                if frame is None:
                    assert client.session_lifetime_ms >= 0
                    return "accepted"
    except (AuthenticationError, NetworkError, SchemaError) as error:
        check_text(error, client.mechanism.secrets)
        return type(error).__name__
    raise AssertionError("the exchange does not end")


def authenticate_barely(name: str, end: BrokerEnd, damage: Damage) -> str:
    """The same by the first version of the handshake: tokens in frames of their own (KIP-43)."""
    client = client_side(name, damage.chance)
    damage.start(4)
    handshake = payload(HANDSHAKE, 0, SaslHandshakeRequest(mechanism=name))
    if end.answer(damage(handshake, header_bytes=8, extremes=MIXED)) is None:
        return "closed by the broker"
    token: bytes | None = client.initial()
    for _ in range(MOST_MESSAGES):
        assert token is not None
        challenge = end.answer(damage(token))
        if challenge is None:
            return "closed by the broker"
        try:
            token = client.next(damage(challenge))
        except MechanismError:
            return "refused by the client"
        if token is None:
            return "accepted"
    raise AssertionError("the exchange does not end")


@time_limit(1_800.0)
def test_damaged_frames_of_an_authentication_end_it(damage: Damage, told: Told) -> None:
    """P-G.10.1, B-A7.5, B-A3.15: SaslHandshake and SaslAuthenticate, requests and answers."""
    clock = FakeClock()
    mechanisms = offered(clock)
    found: Counter[str] = Counter()
    count = scaled(FRAMES, default_percent=DEFAULT_PERCENT)
    while damage.count < count:
        name = damage.chance.choice(ALL_MECHANISMS)
        end = BrokerEnd(mechanisms, clock)
        with reported(name, damage):
            way = authenticate if damage.chance.random() < 0.8 else authenticate_barely
            outcome = way(name, end, damage)
            if outcome == "accepted" and name.startswith("SCRAM"):
                assert end.connection.principal == f"User:{USER}"
            assert end.connection.principal in (ANONYMOUS, *(f"User:{each}" for each in USERS))
            assert not told.errors
        found[outcome] += 1
    assert found.keys() >= {
        "accepted",
        "closed by the broker",
        "AuthenticationError",
        "SchemaError",
    }
