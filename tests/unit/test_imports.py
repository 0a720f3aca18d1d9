"""What `import fastprod` brings along: nothing that only some users need."""

from __future__ import annotations

import pytest

from support.processes.child_python import run_python

_LOADED = """
import json, sys
before = set(sys.modules)
{imports}
print(json.dumps({{"modules": sorted(set(sys.modules) - before)}}))
"""
# Packages of others, and modules of Python that take long to import.
_NOT_NEEDED = {
    *("numpy", "click", "rich", "pyarrow", "pyspark", "kio", "lz4", "zstandard", "crc32c"),
    *("ssl", "http", "email", "asyncio", "concurrent", "subprocess", "tomllib", "logging"),
    *("dataclasses", "inspect", "uuid", "platform", "ipaddress", "difflib", "traceback"),
    *("random", "string"),
}


def loaded(imports: str) -> set[str]:
    """The packages and modules at the top that these statements load."""
    names: list[str] = run_python(_LOADED.format(imports=imports)).told["modules"]
    return {name.partition(".")[0] for name in names}


def test_import_fastprod_loads_no_other_package() -> None:
    assert loaded("import fastprod") & _NOT_NEEDED == set()


@pytest.mark.parametrize("package", ["numpy", "click", "rich"])
def test_a_package_that_is_imported_is_seen(package: str) -> None:
    assert package in loaded(f"import fastprod, {package}")


@pytest.mark.parametrize("module", ["fastprod.broker", "fastprod.serializers"])
def test_nor_do_the_broker_and_the_serializers_load_the_command_lines(module: str) -> None:
    assert loaded(f"import {module}") & {"numpy", "click", "rich", "pyarrow"} == set()


# Only what a setting needs to be known; what connections by TLS, SASL or proxies need comes later.
_OF_SECURITY = {
    "fastprod.security",
    "fastprod.security.secret",
    "fastprod.security.security_settings",
}
_OF_SETTINGS = {"fastprod.settings", "fastprod.settings.given_settings"}
_CONNECTIONS = "fastprod.client.connections"
_ROOMS_FOR_SOME = (
    *("fastprod.security", "fastprod.settings", "fastprod.client.sasl", f"{_CONNECTIONS}.proxy"),
    *(f"{_CONNECTIONS}.tls_contexts", f"{_CONNECTIONS}.tls_reasons"),
    f"{_CONNECTIONS}.sasl_connections",
    *("fastprod._core.tls", "fastprod._core.io.proxy_transport"),
    *(f"{_CONNECTIONS}.protocol_probe", "base64", "hashlib", "hmac", "urllib", "pathlib", "shlex"),
)


def test_import_fastprod_loads_nothing_that_a_plaintext_producer_does_not_need() -> None:
    names: list[str] = run_python(_LOADED.format(imports="import fastprod")).told["modules"]
    found = {
        name for name in names for room in _ROOMS_FOR_SOME if f"{name}.".startswith(f"{room}.")
    }
    assert found == _OF_SECURITY | _OF_SETTINGS
