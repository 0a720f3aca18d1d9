"""Call: a request is answered once."""

from __future__ import annotations

from typing import Any

import pytest

from broker_world import BrokerWorld, batch_of, produce_request
from fastprod.broker.apis.call import Call
from fastprod.broker.faults.hooks import Faults
from fastprod.broker.request import Request
from fastprod.errors import IllegalStateError


class Keeper(Faults):
    """Keeps the last request."""

    request: Request

    def before(self, request: Request, message: Any) -> None:
        self.request = request


def test_a_second_answer_is_an_error_of_the_handler() -> None:
    keeper = Keeper()
    with BrokerWorld(topics={"t": 1}, faults=keeper) as world:
        world.ask("Produce", 9, produce_request([("t", 0, batch_of(b"a"))]))
        call = Call(world.state.apis, keeper.request, None)
        with pytest.raises(IllegalStateError, match="answered before"):
            call.answer_nothing()
        with pytest.raises(IllegalStateError, match="answered before"):
            call.close()
