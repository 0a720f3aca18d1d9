"""Numbers and names of the APIs."""

from __future__ import annotations

from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kio.index import load_request_schema

from fastprod.protocol import api_keys
from support.oracle.message_samples import APIS


def test_every_number_has_the_name_that_kafka_gives_it() -> None:
    numbers = {value for name, value in vars(api_keys).items() if isinstance(value, int)}
    assert numbers == set(api_keys.API_NAMES)
    for number, name in api_keys.API_NAMES.items():
        low = APIS[number].versions[0] if number in APIS else 0
        assert load_request_schema(number, low).__name__ == f"{name}Request"
    assert set(APIS) <= set(BROKER_API_VERSIONS[4, 0])


def test_every_file_is_of_the_api_that_it_is_called_after() -> None:
    for key, api in APIS.items():
        module = api.request.kind.__module__.rpartition(".")[2]
        assert module.replace("_", "") == api.name.lower()
        assert getattr(api_keys, module.upper()) == key
