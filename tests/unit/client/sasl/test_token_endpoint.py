"""EndpointTokens: what is asked of a token endpoint, and what may go wrong with it."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fastprod.client.sasl.login_error import SHORT_PATIENCE_S, LoginError
from fastprod.client.sasl.token_endpoint import EndpointTokens
from fastprod.security.pem_source import PemSource
from fastprod.security.sasl_settings import JWT_BEARER, TokenEndpoint
from fastprod.security.secret import Secret
from support.security.authority import CertificateAuthority

SECRET = "hush: & /?"
BASIC = base64.b64encode(f"me:{SECRET}".encode()).decode()


class Endpoint:
    """A token endpoint on loopback; `status`, `body` and `headers` are what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = json.dumps({"access_token": "abc", "expires_in": 60}).encode()
        self.headers: dict[str, str] = {}
        self.delay_s = 0.0
        self.pause_s = 0.0
        self.over = threading.Event()
        self.dribbled = 0
        self.asked: list[tuple[dict[str, str], dict[str, str]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/oauth/token"

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((dict(self.headers), dict(urllib.parse.parse_qsl(form))))
                endpoint.over.wait(endpoint.delay_s)
                self.send_response(endpoint.status)
                for name, value in endpoint.headers.items():
                    self.send_header(name, value)
                with contextlib.suppress(OSError):  # who had enough of it hung up
                    for number in range(endpoint.dribbled):
                        self.send_header(f"X-{number}", "x")
                        self.flush_headers()
                        time.sleep(0.05)
                    self.end_headers()
                    endpoint.over.wait(endpoint.pause_s)
                    self.wfile.write(endpoint.body)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler

    def tokens(self, **settings: Any) -> EndpointTokens:
        settings = {"client_id": "me", "client_secret": Secret(SECRET), **settings}
        return EndpointTokens(TokenEndpoint(self.url, **settings), {"a": "1"})

    def error(self, **settings: Any) -> LoginError:
        with pytest.raises(LoginError) as caught:
            self.tokens(**settings).fetch()
        assert SECRET not in str(caught.value)
        assert self.url in str(caught.value)
        return caught.value


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.over.set()
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


def test_client_credentials(endpoint: Endpoint) -> None:
    """RFC 6749, 4.4: id and secret in the header, grant and scope in the form."""
    token = endpoint.tokens(scope="kafka write").fetch()
    assert token.value.reveal() == "abc"
    assert token.expires_s == pytest.approx(time.time() + 60, abs=30)
    assert token.extensions == {"a": "1"}
    ((headers, form),) = endpoint.asked
    assert form == {"grant_type": "client_credentials", "scope": "kafka write"}
    assert headers["Authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_the_header_is_url_encoded_if_that_is_asked_for(endpoint: Endpoint) -> None:
    """RFC 6749, 2.3.1."""
    endpoint.tokens(client_id="m e", header_urlencode=True).fetch()
    ((headers, _),) = endpoint.asked
    decoded = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert decoded == "m+e:hush%3A+%26+%2F%3F"


def test_an_assertion_is_read_from_its_file_each_time(endpoint: Endpoint, tmp_path: Path) -> None:
    """RFC 7523: as Kubernetes mounts it, and replaces it."""
    file = tmp_path / "assertion"
    tokens = endpoint.tokens(client_secret=None, grant_type=JWT_BEARER, assertion_file=str(file))
    for content in ("a.b.c\n", "d.e.f"):
        file.write_text(content)
        tokens.fetch()
    forms = [form for _, form in endpoint.asked]
    assert [form["assertion"] for form in forms] == ["a.b.c", "d.e.f"]
    assert forms[0]["grant_type"] == JWT_BEARER
    assert forms[0]["client_id"] == "me"
    assert all("Authorization" not in headers for headers, _ in endpoint.asked)
    endpoint.tokens(client_secret=None, assertion_file=str(file)).fetch()
    _, form = endpoint.asked[-1]
    assert form["grant_type"] == "client_credentials"
    assert form["client_assertion"] == "d.e.f"
    assert form["client_assertion_type"].endswith(":client-assertion-type:jwt-bearer")
    file.unlink()
    with pytest.raises(LoginError, match="assertion cannot be read from"):
        tokens.fetch()


def test_a_token_may_be_in_a_file_itself(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    tokens = EndpointTokens(TokenEndpoint(file.as_uri()), {})
    for content in ("abc\n", "def"):
        file.write_text(content)
        assert tokens.fetch().value.reveal() == content.strip()
    file.write_text("two words")
    with pytest.raises(LoginError, match="characters"):
        tokens.fetch()


def test_an_end_that_is_not_told_is_the_tokens_own(endpoint: Endpoint) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 9}).encode()).decode()
    endpoint.body = json.dumps({"access_token": f"a.{claims.rstrip('=')}.c"}).encode()
    assert endpoint.tokens().fetch().expires_s == pytest.approx(time.time() + 9, abs=8)


@pytest.mark.parametrize(
    ("status", "body", "words", "patience_s"),
    [
        (401, {"error": "bad", "error_description": "x"}, "HTTP 401 ..bad: x'.; check", 0.0),
        (401, {"error": SECRET}, "HTTP 401; check the client's id", 0.0),
        (401, {"error": f"got {BASIC}"}, "HTTP 401; check the client's id", 0.0),
        (401, {"error": "hush%3A+%26+%2F%3F"}, "HTTP 401; check the client's id", 0.0),
        (400, "x" * 500, "HTTP 400; check", 0.0),
        (404, [], "HTTP 404$", 0.0),
        (503, {}, "HTTP 503$", 10.0),
        (429, {}, "HTTP 429$", 10.0),
        (200, "nonsense", "are not JSON", 0.0),
        (200, [], "without an access_token", 0.0),
        (200, {"access_token": 5}, "without an access_token", 0.0),
        (200, {"access_token": "a b"}, "characters", 0.0),
        (200, {"access_token": "a", "expires_in": -5}, "has expired", 0.0),
        (200, {"access_token": "a", "expires_in": 10**400}, "expires_in that no clock has", 0.0),
        (401, {"error": "bad", "error_description": "y" * 500}, "bad: y{190}", 0.0),
    ],
)  # fmt: skip
def test_answers_that_are_no_token(
    endpoint: Endpoint, status: int, body: object, words: str, patience_s: float
) -> None:
    """P-G.10.5, P-G.10.8"""
    endpoint.status = status
    endpoint.body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    error = endpoint.error()
    assert error.patience_s == patience_s
    assert re.search(words, str(error))


def test_an_assertion_that_is_sent_back_is_not_shown(endpoint: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text("ey.claims.proof")
    endpoint.status = 400
    endpoint.body = json.dumps({"error": "no good: ey.claims.proof"}).encode()
    text = str(endpoint.error(client_secret=None, assertion_file=str(file)))
    assert "HTTP 400; check" in text


def test_an_answer_that_is_cut_short_may_come_whole_another_time(endpoint: Endpoint) -> None:
    endpoint.headers = {"Content-Length": "1000"}
    endpoint.body = b'{"access_token":'
    error = endpoint.error()
    assert error.patience_s == SHORT_PATIENCE_S
    assert "could not be reached: IncompleteRead" in str(error)


def test_what_is_no_http_is_shown_on_one_line_and_not_all_of_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"a\x1b[2Jb" + 9_000 * b"x" + b"\n\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/t"
        with pytest.raises(LoginError, match=r"could not be reached: a \[2Jbx+: check") as told:
            EndpointTokens(TokenEndpoint(url), {}).fetch()
        thread.join()
    assert len(str(told.value)) < 400


def test_it_does_not_follow_elsewhere(endpoint: Endpoint) -> None:
    """The secret stays with whom it was meant for."""
    endpoint.status = 302
    endpoint.headers = {"Location": endpoint.url + "/other"}
    assert "not followed" in str(endpoint.error())
    assert len(endpoint.asked) == 1


def test_an_answer_that_is_late_or_too_large(endpoint: Endpoint) -> None:
    endpoint.delay_s = 20.0
    error = endpoint.error(read_timeout_s=2.0)
    assert "timed out: it had not answered completely within 2 s" in str(error)
    assert "sasl_login_read_timeout_ms" in str(error)
    assert error.patience_s == SHORT_PATIENCE_S
    endpoint.delay_s = 0
    endpoint.body = b" " * 1_100_000
    assert "larger than" in str(endpoint.error())


def test_an_endpoint_that_dribbles_its_headers(endpoint: Endpoint) -> None:
    """P-G.10.5: sasl.login.read.timeout.ms is for all of an answer, and not for each byte of it."""
    endpoint.dribbled = 100  # for 5 s
    error = endpoint.error(read_timeout_s=2.0)
    assert "timed out: it had not answered completely within 2 s" in str(error)
    assert error.patience_s == SHORT_PATIENCE_S


def test_an_error_whose_words_do_not_come(endpoint: Endpoint) -> None:
    """P-G.10.5: what an endpoint says first counts."""
    endpoint.status = 503
    endpoint.headers = {"Content-Length": "1000"}
    endpoint.pause_s = 20.0
    error = endpoint.error(read_timeout_s=2.0)
    assert str(error).endswith("answered HTTP 503")
    assert error.patience_s == 10.0


def test_an_endpoint_that_takes_no_connection() -> None:
    """Its queue is full: the kernel lets further connections wait."""
    with contextlib.ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filling = open_sockets.enter_context(socket.socket())
            filling.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filling.connect(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/t"
        with pytest.raises(
            LoginError, match=r"not taken a connection within 0\.05 s \(sasl_login_connect_timeout"
        ) as told:
            EndpointTokens(TokenEndpoint(url, connect_timeout_s=0.05), {}).fetch()
        assert told.value.patience_s == SHORT_PATIENCE_S
        with pytest.raises(LoginError, match=r"within 0\.05 s \(sasl_login_read_timeout"):
            EndpointTokens(TokenEndpoint(url, read_timeout_s=0.05), {}).fetch()


def test_an_endpoint_that_cannot_be_reached() -> None:
    tokens = EndpointTokens(TokenEndpoint("http://127.0.0.1:1/token?secret=hush"), {})
    with pytest.raises(
        LoginError, match=r"http://127.0.0.1:1/token could not be .* refused"
    ) as told:
        tokens.fetch()
    assert told.value.patience_s == SHORT_PATIENCE_S
    assert "hush" not in str(told.value)
    tokens.close()


def test_an_endpoint_that_does_not_speak_tls(endpoint: Endpoint) -> None:
    url = endpoint.url.replace("http:", "https:")
    with pytest.raises(LoginError, match="could not be reached"):
        EndpointTokens(TokenEndpoint(url), {}).fetch()


def test_certificates_may_have_comments_in_any_encoding(tmp_path: Path) -> None:
    """As those of the brokers may."""
    authority = CertificateAuthority(tmp_path)
    words = "# F\u0151tan\u00fas\u00edtv\u00e1ny\n"
    trusted = tmp_path / "trusted.pem"
    for comment in (words.encode(), words.encode("utf-16"), b""):
        trusted.write_bytes(comment + b"\n" + authority.certificate.read_bytes())
        ca = PemSource(str(trusted), setting="https.ca.location")
        tokens = EndpointTokens(TokenEndpoint("https://127.0.0.1:1/t", ca=ca), {})
        with pytest.raises(LoginError, match=r"could not be reached: .* refused"):
            tokens.fetch()


def test_certificates_that_do_not_parse_are_named() -> None:
    text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    ca = PemSource(text=text, setting="https.ca.pem")
    tokens = EndpointTokens(TokenEndpoint("https://127.0.0.1:1/t", ca=ca), {})
    with pytest.raises(LoginError, match=r"https\.ca\.pem: its certificates do not parse"):
        tokens.fetch()
