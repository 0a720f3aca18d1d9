"""IncrementalAlterConfigs and AlterConfigs: settings of topics, limits of nodes (B-D4.9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topic_config import LIST, TOPIC_SETTINGS, TopicConfig
from fastprod.broker.cluster.topics import TopicError, Topics
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
from fastprod.error_codes import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    NONE,
    POLICY_VIOLATION,
)
from fastprod.errors import ConfigError
from fastprod.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from fastprod.protocol.messages.alter_configs import (
    AlterConfigsResource as ReplacedResource,
)
from fastprod.protocol.messages.alter_configs import (
    AlterConfigsResourceResponse as ReplacedResourceResponse,
)
from fastprod.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Operations."""

_THROTTLES: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)

_LIST_OPERATIONS: Final = {APPEND: "append", SUBTRACT: "subtract"}


class _AlteringApi:
    """Changes settings.

    Args:
        settings: those of nodes that can be changed.
        topics: those of topics.
        changed: called with each partition that has others.
    """

    def __init__(
        self,
        settings: DynamicSettings,
        topics: Topics,
        changed: Callable[[Partition], object],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._changed = changed

    def _change_topic(
        self,
        name: str,
        new_overrides: Callable[[TopicConfig], Mapping[str, str | None]],
        is_only_checked: bool,
    ) -> None:
        """As `Topics.change_config`; then have it looked at what waits for the topic: fewer
        replicas may be enough now."""
        self._topics.change_config(name, new_overrides, is_only_checked)
        topic = self._topics.get(name)
        for partition in () if topic is None else topic.partitions:
            self._changed(partition)


class IncrementalAlterConfigsApi(_AlteringApi):
    """Handles IncrementalAlterConfigs. Any thread."""

    def handle(self, call: Call[IncrementalAlterConfigsRequest]) -> None:
        """Change the settings of each resource: all that are named, or none."""
        results = _alter_each(call, call.message.resources, self._alter)
        call.answer(IncrementalAlterConfigsResponse(responses=[_result(*row) for row in results]))

    def refuse(
        self, call: Call[IncrementalAlterConfigsRequest], code: int, text: str | None
    ) -> None:
        """Answer every resource with `code`."""
        results = [_result(each, code, text) for each in call.message.resources]
        call.answer(IncrementalAlterConfigsResponse(responses=results))

    def _alter(
        self, call: Call[IncrementalAlterConfigsRequest], asked: AlterConfigsResource
    ) -> None:
        is_only_checked = call.message.validate_only
        configs = _without_throttles(asked.configs)
        if asked.resource_type == TOPIC:
            name = asked.resource_name
            self._change_topic(
                name, lambda config: _new_overrides(config, configs), is_only_checked
            )
            return
        changes = _changes(configs)
        _alter_node(self._settings, asked.resource_name, call, changes, is_only_checked)


class AlterConfigsApi(_AlteringApi):
    """Handles AlterConfigs, which replaces all of a resource's own settings. Any thread."""

    def handle(self, call: Call[AlterConfigsRequest]) -> None:
        """Replace the settings of each resource."""
        results = _alter_each(call, call.message.resources, self._alter)
        call.answer(AlterConfigsResponse(responses=[_replaced(*row) for row in results]))

    def refuse(self, call: Call[AlterConfigsRequest], code: int, text: str | None) -> None:
        """Answer every resource with `code`."""
        results = [_replaced(each, code, text) for each in call.message.resources]
        call.answer(AlterConfigsResponse(responses=results))

    def _alter(self, call: Call[AlterConfigsRequest], asked: ReplacedResource) -> None:
        given = {each.name: each.value for each in asked.configs}
        if len(given) < len(asked.configs):
            raise TopicError(INVALID_REQUEST, "a setting stands more than once in the request")
        for name, value in given.items():
            if value is None:
                raise TopicError(INVALID_REQUEST, f"Null value not supported for : {name}")
        if asked.resource_type == TOPIC:
            name, is_only_checked = asked.resource_name, call.message.validate_only
            self._change_topic(name, lambda _: given, is_only_checked)
            return
        node_id = _node_id(asked.resource_name, call.node_id)
        changes = {**dict.fromkeys(self._settings.changed(node_id)), **given}
        _alter_node(self._settings, asked.resource_name, call, changes, call.message.validate_only)


class _Resource(Protocol):
    resource_type: int
    resource_name: str


R = TypeVar("R", bound=_Resource)


def _alter_each(
    call: Call[Any], resources: Sequence[R], alter: Callable[[Call[Any], R], None]
) -> list[tuple[R, int, str | None]]:
    """Change each resource by itself; what became of each."""
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    results: list[tuple[R, int, str | None]] = []
    for each in resources:
        kind, name = each.resource_type, each.resource_name
        try:
            if len(resources) > MOST_RESOURCES:
                raise TopicError(
                    POLICY_VIOLATION,
                    f"{len(resources):,} resources in one request, over {MOST_RESOURCES:,}",
                )
            if counts[kind, name] > 1:
                raise TopicError(INVALID_REQUEST, "each resource may appear only once")
            check_configs(call, Operation.ALTER_CONFIGS, kind, name)
            if kind not in (TOPIC, BROKER):
                raise TopicError(
                    INVALID_REQUEST,
                    f"resource type {kind}; this broker changes settings of topics ({TOPIC}) and "
                    f"brokers ({BROKER})",
                )
            alter(call, each)
        except Exception as error:
            results.append((each, *item_error(error)))
        else:
            results.append((each, NONE, None))
    return results


def _alter_node(
    settings: DynamicSettings,
    name: str,
    call: Call[Any],
    changes: dict[str, str | None],
    is_only_checked: bool,
) -> None:
    try:
        settings.alter(_node_id(name, call.node_id), changes, is_only_checked)
    except ConfigError as error:
        raise TopicError(INVALID_REQUEST, str(error)) from None


def _new_overrides(
    config: TopicConfig, changes: Sequence[AlterableConfig]
) -> dict[str, str | None]:
    """What a topic's own settings are after these changes."""
    found: dict[str, str | None] = {**config.overrides}
    if len({each.name for each in changes}) < len(changes):
        raise TopicError(INVALID_REQUEST, "a setting stands more than once in the request")
    for each in changes:
        if each.config_operation == DELETE:
            check_name(each.name)
            found.pop(each.name, None)
        elif each.value is None:
            raise TopicError(INVALID_REQUEST, f"Null value not supported for : {each.name}")
        elif each.config_operation == SET:
            found[each.name] = each.value
        elif each.config_operation in _LIST_OPERATIONS:
            found[each.name] = _new_list(config, each, each.value)
        else:
            raise TopicError(INVALID_REQUEST, f"operation {each.config_operation}; it can be 0..3")
    return found


def _new_list(config: TopicConfig, change: AlterableConfig, value: str) -> str:
    check_name(change.name)
    entry = config.entry(change.name)
    if entry.setting.kind != LIST:
        verb = _LIST_OPERATIONS[change.config_operation].upper()
        raise TopicError(
            INVALID_CONFIG, f"Can't {verb} to key {change.name} because its type is not LIST."
        )
    words, given = entry.value.split(","), value.split(",")
    if change.config_operation == APPEND:
        return ",".join([*words, *(each for each in given if each not in words)])
    return ",".join(each for each in words if each not in given)


def check_name(name: str) -> None:
    """Refuse a name that is none of a topic's settings.

    Raises:
        TopicError: it is none.
    """
    if name not in TOPIC_SETTINGS:
        raise TopicError(INVALID_CONFIG, f"Unknown topic config name: {name}")


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


def _without_throttles(configs: Sequence[AlterableConfig]) -> list[AlterableConfig]:
    """Those that are no limits of replication.

    There are none here. kafka-reassign-partitions.sh removes them in any case, which is done then.

    Raises:
        TopicError: one is to be set.
    """
    for each in configs:
        if each.name in _THROTTLES and each.config_operation != DELETE:
            raise TopicError(
                INVALID_CONFIG,
                f"{each.name}: this broker does not throttle replication; leave --throttle out",
            )
    return [each for each in configs if each.name not in _THROTTLES]


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


def _replaced(asked: ReplacedResource, code: int, text: str | None) -> ReplacedResourceResponse:
    return ReplacedResourceResponse(
        error_code=code,
        error_message=text,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
