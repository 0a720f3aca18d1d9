"""Reports of errors may print local variables: none of ours holds a password (S13)."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.aio import AsyncProducer
from fastprod.errors import KafkaError

SECRET = "hunter2~"
NOWHERE = "127.0.0.1:1"
USER = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "ada",
    "sasl_password": "first",
}


def shown_by(error: BaseException) -> str:
    """With the local variables of all frames but the test's."""
    found = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in found.stack if frame.filename != __file__]
    assert frames
    return f"{error!r} {[frame.locals for frame in frames]}"


@pytest.mark.parametrize("make", [KafkaProducer, AsyncProducer])
def test_settings_that_are_refused(make: Callable[..., object]) -> None:
    given = {**USER, "bootstrap_servers": NOWHERE, "sasl_password": SECRET, "linger_ms": "long"}
    for positional, named in (((given,), {}), ((), given)):
        with pytest.raises(KafkaError) as caught:
            make(*positional, **named)
        assert SECRET not in shown_by(caught.value)
        assert "without settings" in shown_by(caught.value)


@pytest.mark.parametrize(
    ("password", "settings"),
    [(SECRET + "\0", USER), (SECRET.encode(), USER), (SECRET, {})],
    ids=["a NUL", "bytes", "without SASL"],
)
def test_credentials_that_are_refused(password: Any, settings: dict[str, str]) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=NOWHERE, **settings) as producer:
            with pytest.raises(KafkaError) as caught:
                await producer.set_sasl_credentials("ada", password)
            assert SECRET not in shown_by(caught.value)

    asyncio.run(main())
    with KafkaProducer(bootstrap_servers=NOWHERE, **settings) as producer:
        with pytest.raises(KafkaError) as caught:
            producer.set_sasl_credentials("ada", password)
        assert SECRET not in shown_by(caught.value)
