"""The wire format of Confluent's Schema Registry, with a registry of our own on the loopback."""

from __future__ import annotations

import base64
import importlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import LongType, StructType

from fastprod.errors import ConfigError
from fastprod.spark.formats import avro
from fastprod.spark.formats.column_types import FormatError

SCHEMA = StructType().add("a", LongType(), nullable=False)
# What the parts of the client say of each other when they are first imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Registry(HTTPServer):
    """Gives every schema the id 258, but for topics named bad."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[tuple[str, Any]] = []
        self.logins: list[str | None] = []


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Registry)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path.partition("?")[0], body))
        self.server.logins.append(self.headers["Authorization"])
        is_bad = "/bad-" in self.path
        answer = {"error_code": 42201, "message": "no"} if is_bad else {"id": 258}
        data = json.dumps(answer).encode()
        self.send_response(422 if is_bad else 200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def options(registry: Registry, login: str = "") -> dict[str, str]:
    return {"schema.registry.url": f"http://{login}127.0.0.1:{registry.server_port}"}


def test_the_schema_is_registered_once_and_its_id_precedes_every_message(
    registry: Registry,
) -> None:
    encoder = avro.plan(SCHEMA, options(registry), "orders", "value")
    found = encoder.encode(pyarrow.RecordBatch.from_pydict({"a": [1, -1]})).to_pylist()
    assert found == [b"\0\0\0\x01\x02\x02", b"\0\0\0\x01\x02\x01"]
    assert avro.plan(SCHEMA, options(registry), "orders", "value") == encoder
    ((path, body),) = registry.asked
    assert path == "/subjects/orders-value/versions"
    assert json.loads(body["schema"])["name"] == "topLevelRecord"


def test_rows_with_topics_of_their_own_have_no_subject(registry: Registry) -> None:
    with pytest.raises(FormatError, match="needs the option topic"):
        avro.plan(SCHEMA, options(registry), None, "value")
    assert registry.asked == []


def test_a_refusal_is_told_without_passwords(registry: Registry) -> None:
    with pytest.raises(FormatError, match="did not register the schema of bad-value") as caught:
        avro.plan(SCHEMA, options(registry, "me:secret@"), "bad", "value")
    assert "secret" not in str(caught.value)


def test_a_login_may_stand_in_the_environment_or_a_file(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGISTRY_LOGIN", "ada:hunter2")
    (tmp_path / "login").write_text("ada:hunter2")
    login = "schema.registry.basic.auth.user.info"
    references = {"one": "${env:REGISTRY_LOGIN}", "two": f"${{file:{tmp_path}/login}}"}
    for topic, reference in references.items():
        avro.plan(SCHEMA, {**options(registry), login: reference}, topic, "value")
    assert registry.logins == ["Basic " + base64.b64encode(b"ada:hunter2").decode()] * 2
    with pytest.raises(FormatError) as caught:
        avro.plan(SCHEMA, {**options(registry), login: "${env:REGISTRY_LOGIN}"}, "bad", "value")
    assert "hunter2" not in str(caught.value)


def test_the_registrys_address_may_stand_in_the_environment(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", options(registry, "me:secret@")["schema.registry.url"])
    given = {"schema.registry.url": "${env:REGISTRY}"}
    avro.plan(SCHEMA, given, "three", "value")
    with pytest.raises(FormatError, match="did not register the schema of bad-value") as caught:
        avro.plan(SCHEMA, given, "bad", "value")
    assert "secret" not in str(caught.value)


def test_a_reference_to_nothing_is_told(registry: Registry) -> None:
    given = {**options(registry), "schema.registry.bearer.auth.token": "${env:NO_SUCH_TOKEN}"}
    with pytest.raises(ConfigError, match=r"schema\.registry\.bearer\.auth\.token .*NO_SUCH_TOKEN"):
        avro.plan(SCHEMA, given, "orders", "value")
    assert registry.asked == []


def test_a_setting_that_the_client_does_not_know_is_told(registry: Registry) -> None:
    with pytest.raises(FormatError, match=r"did not register .*Unrecognized"):
        avro.plan(SCHEMA, {**options(registry), "schema.registry.x": "1"}, "orders", "value")


def test_a_registry_that_does_not_answer_is_told(registry: Registry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = {
            "schema.registry.url": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "schema.registry.timeout": "0.1",
            "schema.registry.max.retries": "0",
        }
        with pytest.raises(FormatError, match=r"ReadTimeout.*0\.1 s.* schema\.registry\.timeout"):
            avro.plan(SCHEMA, given, "orders", "value")


def test_the_client_waits_for_some_seconds_by_default(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    library = importlib.import_module("confluent_kafka.schema_registry")
    client = library.SchemaRegistryClient

    def made(settings: dict[str, Any]) -> Any:
        given.append(settings)
        return client(settings)

    monkeypatch.setattr(library, "SchemaRegistryClient", made)
    avro.plan(SCHEMA, options(registry), "default", "value")
    numbers = {"schema.registry.timeout": "2", "schema.registry.retries.wait.ms": " 5 "}
    avro.plan(SCHEMA, {**options(registry), **numbers}, "numbers", "value")
    assert [each["timeout"] for each in given] == [10, 2]
    assert given[1]["retries.wait.ms"] == 5


@pytest.mark.parametrize(
    ("name", "value"), [("timeout", "0"), ("timeout", "soon"), ("max.retries", "-1")]
)
def test_a_setting_that_is_no_number_is_refused(registry: Registry, name: str, value: str) -> None:
    given = {**options(registry), f"schema.registry.{name}": value}
    with pytest.raises(FormatError, match=rf"schema\.registry\.{name} = '{value}': must be"):
        avro.plan(SCHEMA, given, "orders", "value")
    assert registry.asked == []


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("url", "http://ada:hush/7@127.0.0.1:1"),
        ("url", "http://ada:hush?7@127.0.0.1:1"),
        ("url", "http://ada:hush#7@127.0.0.1:1"),
        ("url", "http://ada:pass,hush@127.0.0.1:1"),
        ("url", "ada:hush@127.0.0.1:1"),
        ("url", "http:/ada:hush@127.0.0.1:1"),
        ("url", "http://127.0.0.1:1,ada:hush@127.0.0.1:1"),
        ("proxy", "http://ada:hush/7@127.0.0.1:1"),
        ("proxy", "ada:hush@127.0.0.1:1"),
    ],
)
def test_an_address_with_a_password_that_cannot_be_told_apart_is_refused_without_it(
    registry: Registry, name: str, address: str
) -> None:
    """The client's own error has a part of it: Invalid port: 'hush'."""
    given = {**options(registry), f"schema.registry.{name}": address}
    with pytest.raises(FormatError, match=f"^schema.registry.{name}: .* / .* %2F") as caught:
        avro.plan(SCHEMA, given, "bad", "value")
    assert "hush" not in str(caught.value)


def test_a_password_that_begins_like_another_is_not_told(registry: Registry) -> None:
    url = options(registry, "ada:hush@")["schema.registry.url"]
    both = {"schema.registry.url": f"{url},{url.replace('hush', 'hush7')}"}
    with pytest.raises(FormatError, match=r"http://\*\*\*@.*,http://\*\*\*@.* did not"):
        avro.plan(SCHEMA, both, "bad", "value")


def test_a_password_with_marks_is_taken_if_they_are_written_as_in_urls(registry: Registry) -> None:
    avro.plan(SCHEMA, options(registry, "ada:hush%2F%3F%23%2C%40@"), "marks", "value")
    assert registry.logins == ["Basic " + base64.b64encode(b"ada:hush/?#,@").decode()]
