"""Call: a request is answered once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastprod.broker.faults.hooks import Faults
from fastprod.broker.log.log import Log
from fastprod.broker.network.request import Request
from fastprod.broker.server.apis.call import Call
from fastprod.errors import IllegalStateError
from fastprod.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker.world import PATIENCE_S, BrokerWorld, batch_of, produce_request


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


@pytest.mark.parametrize(
    ("api", "version", "message"),
    [
        ("Metadata", 5, MetadataRequest(topics=[MetadataRequestTopic(name="new")])),
        (
            "CreateTopics",
            2,
            CreateTopicsRequest(
                topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
            ),
        ),
        ("DeleteTopics", 1, DeleteTopicsRequest(topic_names=["old"])),
    ],
)
def test_who_changes_topics_waits_for_nobody_on_the_networks_thread(
    api: str, version: int, message: Any
) -> None:
    """Somebody who has the Broker makes a large topic meanwhile."""
    with BrokerWorld(topics={"old": 1}) as world:
        topics = world.state.topics
        is_making, may_go_on = threading.Event(), threading.Event()
        open_log = topics._open_log

        def open_later(*args: Any) -> Log:
            is_making.set()
            may_go_on.wait(PATIENCE_S)
            return open_log(*args)

        topics._open_log = open_later
        maker = threading.Thread(target=topics.create, args=("large",))
        maker.start()
        assert is_making.wait(PATIENCE_S)
        asked = world.post(api, version, message)
        is_waiting = asked.answer is None
        may_go_on.set()
        maker.join(PATIENCE_S)
        assert is_waiting
        assert asked.wait() is not None
