"""Access tokens from a token endpoint, or out of a file (KIP-768, KIP-1139; RFC 6749, RFC 7523)."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Final

from fastprod.client.connections.system_certificates import system_certificates
from fastprod.client.sasl.bearer_token import BearerToken, read_token
from fastprod.client.sasl.bounded_http import Bounds, open_bounded, read_body
from fastprod.client.sasl.login_error import SHORT_PATIENCE_S, LoginError
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.errors import ConfigError
from fastprod.security.sasl_settings import JWT_BEARER, TokenEndpoint
from fastprod.security.secret import shown_path

_READ_TIMEOUT_S: Final = 10.0
_MOST_OF_AN_ERROR_BYTES: Final = 65_536
_MOST_SHOWN: Final = 200
_FILE: Final = "file://"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# Kafka's HttpAccessTokenRetriever gives up at once at these.
_LASTING_STATUS: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)


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

    @property
    def name(self) -> str:
        """What it is, for errors, without what may be secret in its URL."""
        parts = urllib.parse.urlsplit(self._settings.url)
        host = parts.netloc.rpartition("@")[2]
        return f"the token endpoint {parts.scheme}://{host}{parts.path}"

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
            raise LoginError(f"the token from {self.name}: {error}") from None

    def close(self) -> None:
        """Nothing is kept open."""

    def _ask(self) -> tuple[object, float | None]:
        settings = self._settings
        bounds = Bounds(settings.connect_timeout_s, settings.read_timeout_s or _READ_TIMEOUT_S)
        request = self._request()
        try:
            with open_bounded(request, bounds, self._context()) as answer:
                body = read_body(answer)
        except urllib.error.HTTPError as error:
            raise self._http_error(error, request) from None
        except (OSError, http.client.HTTPException) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(why, TimeoutError) and why.errno is None:
                raise LoginError(self._late(bounds), patience_s=SHORT_PATIENCE_S) from None
            is_lasting = isinstance(why, ssl.SSLCertVerificationError)
            raise LoginError(
                f"{self.name} could not be reached: "
                f"{_in_a_line(why)}: check sasl_oauthbearer_token_endpoint_url",
                patience_s=0.0 if is_lasting else SHORT_PATIENCE_S,
            ) from None
        except (ValueError, ConfigError) as error:
            raise LoginError(f"{self.name}: {error}") from None
        return self._token_in(body)

    def _late(self, bounds: Bounds) -> str:
        settings = self._settings
        what = "answered completely" if bounds.is_connected else "taken a connection"
        if bounds.is_connected or settings.connect_timeout_s is None:
            limit_s, setting = settings.read_timeout_s or _READ_TIMEOUT_S, "read"
        else:
            limit_s, setting = settings.connect_timeout_s, "connect"
        return (
            f"{self.name} timed out: it had not {what} within {limit_s:g} s "
            f"(sasl_login_{setting}_timeout_ms)"
        )

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

    def _context(self) -> ssl.SSLContext | None:
        if not self._settings.url.lower().startswith("https:"):
            return None
        ca = self._settings.ca
        if ca is None:
            return ssl.create_default_context(cafile=system_certificates())
        # Comments between certificates may be in any encoding, which the ssl module does not take.
        text = ca.read().decode("ascii", "surrogateescape").encode("ascii", "replace").decode()
        try:
            return ssl.create_default_context(cadata=text)
        except ssl.SSLError as error:
            raise ConfigError(
                f"{ca.setting}: its certificates do not parse: {error.reason or error}",
                key=ca.setting,
            ) from None

    def _http_error(
        self, error: urllib.error.HTTPError, request: urllib.request.Request
    ) -> LoginError:
        body = b""
        # Its status says enough if the rest does not come.
        with error, contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            body = error.read(_MOST_OF_AN_ERROR_BYTES)
        said, hint = self._shown(body, request), ""
        if error.code in (400, 401, 403):
            hint = "; check the client's id, secret or assertion, its scope and its grant"
        elif 300 <= error.code < 400:
            hint = "; it is not followed elsewhere: set the URL that it points to"
        is_lasting = error.code in _LASTING_STATUS or 300 <= error.code < 400
        # One that is only busy is tried for as long as by Kafka's client.
        return LoginError(
            f"{self.name} answered HTTP {error.code}{said}{hint}",
            patience_s=0.0 if is_lasting else self._settings.retry_backoff_max_s,
        )

    def _shown(self, body: bytes, request: urllib.request.Request) -> str:
        """The error that RFC 6749 puts into an answer; nothing else of it is shown, and nothing if
        it repeats what the request proved itself by."""
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(found, dict):
            return ""
        words = [found.get("error"), found.get("error_description")]
        text = ": ".join([word for word in words if isinstance(word, str)])
        if any(secret in text for secret in self._secrets(request)):
            return ""
        return f" ({text[:_MOST_SHOWN]!r})" if text else ""

    def _secrets(self, request: urllib.request.Request) -> list[str]:
        """What must not be shown of a request, as it is and as it was sent."""
        form = urllib.parse.parse_qs(bytes(request.data).decode())  # type: ignore[arg-type]
        found = [*form.get("assertion", ()), *form.get("client_assertion", ())]
        if self._settings.client_secret is not None:
            found.append(self._settings.client_secret.reveal())
            found.append(request.headers["Authorization"].removeprefix("Basic "))
        return [*found, *map(urllib.parse.quote_plus, found)]

    def _token_in(self, body: bytes) -> tuple[object, float | None]:
        where = self.name
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise LoginError(f"{where} sent {len(body):,} bytes that are not JSON") from None
        if not isinstance(found, dict) or not isinstance(found.get("access_token"), str):
            raise LoginError(f"{where} sent JSON without an access_token")
        life_s = found.get("expires_in")
        if isinstance(life_s, bool) or not isinstance(life_s, int | float):
            return found["access_token"], None
        try:
            return found["access_token"], float(life_s)
        except OverflowError:
            raise LoginError(f"{where} sent an expires_in that no clock has") from None


def _in_a_line(error: object) -> str:
    """An error's text, which may be what the other side sent."""
    text = str(error)[:_MOST_SHOWN].strip() or type(error).__name__
    return "".join([each if each.isprintable() else " " for each in text])


def _path(url: str) -> str:
    return urllib.request.url2pathname(urllib.parse.urlsplit(url).path)


def _file_text(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise LoginError(f"{what} cannot be read from {shown_path(path)}: {why}") from None
