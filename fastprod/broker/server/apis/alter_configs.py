"""IncrementalAlterConfigs: changes the limits of connections of nodes (B-D4.9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.describe_configs import (
    BROKER,
    MOST_RESOURCES,
    TOPIC,
    check_configs,
)
from fastprod.broker.server.dynamic_settings import DynamicSettings, can_change
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import INVALID_CONFIG, INVALID_REQUEST, NONE, POLICY_VIOLATION
from fastprod.errors import ConfigError
from fastprod.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Operations."""

_LIST_OPERATIONS: Final = {APPEND: "append", SUBTRACT: "subtract"}


class IncrementalAlterConfigsApi:
    """Handles IncrementalAlterConfigs. Any thread.

    Args:
        settings: the settings that can be changed.
    """

    def __init__(self, settings: DynamicSettings) -> None:
        self._settings = settings

    def handle(self, call: Call[IncrementalAlterConfigsRequest]) -> None:
        """Change the settings of each resource: all that are named, or none."""
        resources = call.message.resources
        if len(resources) > MOST_RESOURCES:
            self.refuse(
                call,
                POLICY_VIOLATION,
                f"{len(resources):,} resources in one request, over {MOST_RESOURCES:,}",
            )
            return
        counts = Counter((each.resource_type, each.resource_name) for each in resources)
        results = []
        for each in resources:
            try:
                if counts[each.resource_type, each.resource_name] > 1:
                    raise TopicError(INVALID_REQUEST, "each resource may appear only once")
                self._alter(call, each)
            except Exception as error:
                results.append(_result(each, *item_error(error)))
            else:
                results.append(_result(each, NONE, None))
        call.answer(IncrementalAlterConfigsResponse(responses=results))

    def refuse(
        self, call: Call[IncrementalAlterConfigsRequest], code: int, text: str | None
    ) -> None:
        """Answer every resource with `code`."""
        results = [_result(each, code, text) for each in call.message.resources]
        call.answer(IncrementalAlterConfigsResponse(responses=results))

    def _alter(
        self, call: Call[IncrementalAlterConfigsRequest], asked: AlterConfigsResource
    ) -> None:
        check_configs(call, Operation.ALTER_CONFIGS, asked.resource_type, asked.resource_name)
        if asked.resource_type == TOPIC:
            raise TopicError(
                INVALID_REQUEST,
                "this broker does not change the settings of a topic; give them when it is made",
            )
        if asked.resource_type != BROKER:
            raise TopicError(
                INVALID_REQUEST,
                f"resource type {asked.resource_type}; this broker changes settings of brokers "
                f"({BROKER})",
            )
        node_id = _node_id(asked.resource_name, call.node_id)
        changes = _changes(asked.configs)
        try:
            self._settings.alter(node_id, changes, call.message.validate_only)
        except ConfigError as error:
            raise TopicError(INVALID_REQUEST, str(error)) from None


def _node_id(name: str, asked: int) -> int | None:
    """The node that a resource names, which is the one that was asked; None: all nodes."""
    if name == "":
        return None
    if name != str(asked):
        raise TopicError(
            INVALID_REQUEST,
            f"broker {name!r}; this is broker {asked}, which changes its own settings, or "
            f"those of all brokers if none is named",
        )
    return asked


def _changes(configs: Sequence[AlterableConfig]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for each in configs:
        if each.name in changes:
            raise TopicError(INVALID_REQUEST, f"{each.name} stands more than once in the request")
        changes[each.name] = _new_value(each)
    return changes


def _new_value(config: AlterableConfig) -> str | None:
    operation = config.config_operation
    if operation == DELETE:
        return None
    if config.value is None:
        raise TopicError(INVALID_REQUEST, f"{config.name} is null; delete it for its default")
    if operation == SET:
        return config.value
    if operation not in _LIST_OPERATIONS:
        raise TopicError(INVALID_REQUEST, f"operation {operation}; there are 0 to 3")
    if can_change(config.name):
        raise TopicError(
            INVALID_CONFIG,
            f"{_LIST_OPERATIONS[operation]}: {config.name} is no list; set its value",
        )
    # What cannot be changed at all is told so.
    return config.value


def _result(
    asked: AlterConfigsResource, code: int, text: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=text,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
