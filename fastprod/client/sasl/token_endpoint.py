"""Access tokens from a token endpoint, or out of a file (KIP-768, KIP-1139; RFC 6749, RFC 7523)."""

from __future__ import annotations

import base64
import functools
import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

from fastprod.client.connections.system_certificates import system_certificates
from fastprod.client.sasl.bearer_token import BearerToken, read_token
from fastprod.client.sasl.login_error import LoginError
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.errors import ConfigError
from fastprod.security.sasl_settings import JWT_BEARER, TokenEndpoint
from fastprod.security.secret import shown_path

_READ_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 1_048_576
_MOST_SHOWN: Final = 200
_FILE: Final = "file://"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# Kafka's HttpAccessTokenRetriever gives up at once at these.
_LASTING_STATUS: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An answer that points elsewhere is an error: the secret must not follow it."""

    def redirect_request(self, *args: Any) -> None:
        return None


class EndpointTokens:
    """Fetches tokens as `TokenEndpoint` says.

    Args:
        settings: where, and as whom.
        extensions: sent with every token.

    Threads: the login's.
    """

    def __init__(self, settings: TokenEndpoint, extensions: dict[str, str]) -> None:
        self._settings = settings
        self._extensions = extensions

    def fetch(self) -> BearerToken:
        """Fetch a new token.  Blocks for the network, within the endpoint's timeouts.

        Raises:
            LoginError: there is none, and why.
        """
        settings = self._settings
        if settings.url.lower().startswith(_FILE):
            answer: tuple[object, float | None] = _file_text(_path(settings.url), "the token"), None
        else:
            answer = self._ask()
        value, life_s = answer
        now_s = time.time()
        end_s = None if life_s is None else now_s + life_s
        try:
            return read_token((value, end_s), now_s, self._extensions)
        except MechanismError as error:
            raise LoginError(f"the token from {self._where()}: {error}") from None

    def close(self) -> None:
        """Nothing is kept open."""

    def _where(self) -> str:
        """The endpoint without what may be secret in its URL."""
        parts = urllib.parse.urlsplit(self._settings.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}"

    def _ask(self) -> tuple[object, float | None]:
        request = self._request()
        try:
            with self._opener().open(request, timeout=self._read_timeout_s()) as answer:
                body = _read_all(answer, time.monotonic() + self._read_timeout_s())
        except urllib.error.HTTPError as error:
            raise self._http_error(error) from None
        except (OSError, http.client.HTTPException) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            is_lasting = isinstance(why, ssl.SSLCertVerificationError)
            raise LoginError(
                f"the token endpoint {self._where()} could not be reached: "
                f"{why or type(why).__name__}: check sasl_oauthbearer_token_endpoint_url",
                is_lasting=is_lasting,
            ) from None
        except (ValueError, ConfigError) as error:
            raise LoginError(f"the token endpoint {self._where()}: {error}") from None
        return self._token_in(body)

    def _request(self) -> urllib.request.Request:
        settings = self._settings
        form: dict[str, str] = {"grant_type": settings.grant_type}
        headers = {"Accept": "application/json"}
        if settings.assertion_file is not None:
            assertion = _file_text(settings.assertion_file, "the assertion").strip()
            if settings.grant_type == JWT_BEARER:
                form["assertion"] = assertion
            else:
                form["client_assertion_type"] = _ASSERTION_TYPE
                form["client_assertion"] = assertion
            if settings.client_id:
                form["client_id"] = settings.client_id
        if settings.client_secret is not None:
            headers["Authorization"] = self._basic(settings.client_secret.reveal())
        if settings.scope:
            form["scope"] = settings.scope
        data = urllib.parse.urlencode(form).encode()
        return urllib.request.Request(settings.url, data, headers, method="POST")

    def _basic(self, secret: str) -> str:
        client_id = self._settings.client_id
        if self._settings.header_urlencode:
            client_id = urllib.parse.quote_plus(client_id)
            secret = urllib.parse.quote_plus(secret)
        return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()

    def _read_timeout_s(self) -> float:
        return self._settings.read_timeout_s or _READ_TIMEOUT_S

    def _opener(self) -> urllib.request.OpenerDirector:
        connect_s = self._settings.connect_timeout_s or self._read_timeout_s()
        read_s = self._read_timeout_s()
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect(), _Http(connect_s, read_s)]
        if self._settings.url.lower().startswith("https:"):
            if self._settings.ca is not None:
                context = ssl.create_default_context(cadata=self._settings.ca.read().decode())
            else:
                context = ssl.create_default_context(cafile=system_certificates())
            handlers.append(_Https(connect_s, read_s, context))
        return urllib.request.build_opener(*handlers)

    def _http_error(self, error: urllib.error.HTTPError) -> LoginError:
        with error:
            said = self._shown(error.read(_MOST_SHOWN))
        hint = ""
        if error.code in (400, 401, 403):
            hint = "; check the client's id, secret or assertion, its scope and its grant"
        elif 300 <= error.code < 400:
            hint = "; it is not followed elsewhere: set the URL that it points to"
        return LoginError(
            f"the token endpoint {self._where()} answered HTTP {error.code}{said}{hint}",
            is_lasting=error.code in _LASTING_STATUS or 300 <= error.code < 400,
        )

    def _shown(self, body: bytes) -> str:
        """The error that RFC 6749 puts into an answer; nothing else of it is shown."""
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(found, dict):
            return ""
        words = [found.get("error"), found.get("error_description")]
        text = ": ".join([word for word in words if isinstance(word, str)])
        secret = self._settings.client_secret
        if secret is not None and secret.reveal() in text:
            return ""
        return f" ({text[:_MOST_SHOWN]!r})" if text else ""

    def _token_in(self, body: bytes) -> tuple[object, float | None]:
        where = f"the token endpoint {self._where()}"
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise LoginError(f"{where} sent {len(body):,} bytes that are not JSON") from None
        if not isinstance(found, dict) or not isinstance(found.get("access_token"), str):
            raise LoginError(f"{where} sent JSON without an access_token")
        life_s = found.get("expires_in")
        if isinstance(life_s, bool) or not isinstance(life_s, int | float):
            life_s = None
        return found["access_token"], life_s


class _Http(urllib.request.HTTPHandler):
    """Connects within one time, and reads within another."""

    def __init__(self, connect_s: float, read_s: float) -> None:
        super().__init__()
        self._times = (connect_s, read_s)

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        made = functools.partial(_Connection, times=self._times)
        return self.do_open(made, request)


class _Https(urllib.request.HTTPSHandler):
    """The same over TLS."""

    def __init__(self, connect_s: float, read_s: float, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._times = (connect_s, read_s)
        self._own_context = context

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        made = functools.partial(_SecureConnection, times=self._times, context=self._own_context)
        return self.do_open(made, request)


class _Connection(http.client.HTTPConnection):
    def __init__(self, *args: Any, times: tuple[float, float], **words: Any) -> None:
        super().__init__(*args, **words)
        self.timeout, self._read_s = times

    def connect(self) -> None:
        super().connect()
        _set_timeout(self.sock, self._read_s)


class _SecureConnection(http.client.HTTPSConnection):
    def __init__(self, *args: Any, times: tuple[float, float], **words: Any) -> None:
        super().__init__(*args, **words)
        self.timeout, self._read_s = times

    def connect(self) -> None:
        super().connect()
        _set_timeout(self.sock, self._read_s)


def _set_timeout(sock: socket.socket, seconds: float) -> None:
    sock.settimeout(seconds)


def _read_all(answer: http.client.HTTPResponse, deadline_s: float) -> bytes:
    body = b""
    while part := answer.read1(65_536):
        body += part
        if len(body) > _MOST_BYTES:
            raise ValueError(f"its answer is larger than {_MOST_BYTES:,} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError("its answer took too long")
    return body


def _path(url: str) -> str:
    return urllib.request.url2pathname(urllib.parse.urlsplit(url).path)


def _file_text(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise LoginError(f"{what} cannot be read from {shown_path(path)}: {why}") from None
