"""DescribeConfigs of topics and nodes (B-D4.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.topic_config import (
    BOOLEAN,
    DEFAULT,
    DYNAMIC_TOPIC,
    INT,
    STATIC_BROKER,
    STRING,
    TopicConfig,
    TopicConfigEntry,
)
from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.config import SETTINGS, BrokerConfig
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import UNAUTHORIZED, Call
from fastprod.broker.server.dynamic_settings import DynamicSettings, can_change, is_number
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC, BROKER = 2, 4
"""Types of resources."""

DYNAMIC_NODE, DYNAMIC_DEFAULT = 2, 3
"""Sources of what was changed for one node, and for all."""

MOST_RESOURCES = 10_000


class DescribeConfigsApi:
    """Handles DescribeConfigs. Any thread.

    Args:
        cluster: whose topics and nodes.
        config: of every node.
        settings: what was changed since the start.
    """

    def __init__(self, cluster: Cluster, config: BrokerConfig, settings: DynamicSettings) -> None:
        self._cluster = cluster
        self._config = config
        self._settings = settings

    def handle(self, call: Call[DescribeConfigsRequest]) -> None:
        """Answer with the settings of each resource."""
        resources = call.message.resources
        # Each resource once, and not too many: the answer is a hundred times the request.
        asked = {(each.resource_type, each.resource_name): each for each in resources}
        if len(asked) > MOST_RESOURCES:
            self.refuse(
                call,
                POLICY_VIOLATION,
                f"{len(asked):,} resources in one request, over {MOST_RESOURCES:,}",
            )
            return
        call.answer(
            DescribeConfigsResponse(results=[self._describe(call, each) for each in asked.values()])
        )

    def refuse(self, call: Call[DescribeConfigsRequest], code: int, text: str | None) -> None:
        """Answer every resource with `code`."""
        call.answer(
            DescribeConfigsResponse(
                results=[_result(each, code, text, []) for each in call.message.resources]
            )
        )

    def _describe(
        self, call: Call[DescribeConfigsRequest], asked: DescribeConfigsResource
    ) -> DescribeConfigsResult:
        message = call.message
        try:
            check_configs(
                call, Operation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name
            )
            if asked.resource_type == TOPIC:
                found = self._topic_entries(asked.resource_name, message.include_synonyms)
            elif asked.resource_type == BROKER:
                found = self._node_entries(asked.resource_name, message.include_synonyms)
            else:
                raise TopicError(
                    INVALID_REQUEST,
                    f"resource type {asked.resource_type}; this broker describes topics "
                    f"({TOPIC}) and brokers ({BROKER})",
                )
        except Exception as error:
            return _result(asked, *item_error(error), [])
        wanted = asked.configuration_keys
        chosen = [each for each in found if wanted is None or each.name in wanted]
        if not message.include_documentation:
            for each in chosen:
                each.documentation = None
        return _result(asked, NONE, None, chosen)

    def _topic_entries(
        self, name: str, include_synonyms: bool
    ) -> list[DescribeConfigsResourceResult]:
        topic = self._cluster.topics.get(name)
        if topic is None:
            raise TopicError(UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{name}'.")
        return [
            _topic_entry(topic.config, entry, include_synonyms) for entry in topic.config.entries()
        ]

    def _node_entries(
        self, name: str, include_synonyms: bool
    ) -> list[DescribeConfigsResourceResult]:
        everywhere = self._settings.changed(None)
        if name == "":
            return [
                _node_entry(each, [(value, DYNAMIC_DEFAULT)], "", include_synonyms)
                for each, value in sorted(everywhere.items())
            ]
        known = {str(node_id): node_id for node_id in self._cluster.node_ids}
        if name not in known:
            raise TopicError(INVALID_REQUEST, f"no broker {name!r}; there are {', '.join(known)}")
        own = self._settings.changed(known[name])
        values: dict[str, list[tuple[object, int]]] = {}
        docs = {}
        for field, about in SETTINGS.items():
            value = getattr(self._config, field)
            setting = field.replace("_", ".")
            values[setting] = [(value, DEFAULT if value == about.default else STATIC_BROKER)]
            docs[setting] = str(about.rule["doc"])
        values["node.id"], docs["node.id"] = [(known[name], STATIC_BROKER)], "number of this node"
        for source, changed in ((DYNAMIC_DEFAULT, everywhere), (DYNAMIC_NODE, own)):
            for setting, text in sorted(changed.items()):
                values.setdefault(setting, []).insert(0, (text, source))
        return [
            _node_entry(setting, chain, docs.get(setting, ""), include_synonyms)
            for setting, chain in values.items()
        ]


def check_configs(call: Call[Any], operation: Operation, resource_type: int, name: str) -> None:
    """Refuse a client that may not see, or change, the settings of a resource.

    Raises:
        TopicError: it may not.
    """
    if resource_type == TOPIC and not call.allows_topic(operation, name):
        raise TopicError(TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED)
    if resource_type == BROKER and not call.allows_cluster(operation):
        raise TopicError(CLUSTER_AUTHORIZATION_FAILED, UNAUTHORIZED)


def _topic_entry(
    config: TopicConfig, entry: TopicConfigEntry, include_synonyms: bool
) -> DescribeConfigsResourceResult:
    setting = entry.setting
    synonyms = []
    if include_synonyms:
        broker_name = setting.broker_name.replace("_", ".") or setting.name
        if entry.source == DYNAMIC_TOPIC:
            synonyms.append(_synonym(setting.name, entry.value, DYNAMIC_TOPIC))
        elif entry.source == STATIC_BROKER:
            synonyms.append(_synonym(broker_name, entry.value, STATIC_BROKER))
        synonyms.append(_synonym(broker_name, setting.default, DEFAULT))
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=entry.value,
        read_only=False,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=setting.kind,
        documentation=setting.doc,
    )


def _node_entry(
    name: str, values: Sequence[tuple[object, int]], doc: str, include_synonyms: bool
) -> DescribeConfigsResourceResult:
    """A setting of a node; `values` are its value and those that hold without it, with sources."""
    value, source = values[0]
    synonyms = [_synonym(name, _text(each), its_source) for each, its_source in values]
    return DescribeConfigsResourceResult(
        name=name,
        value=_text(value),
        read_only=not can_change(name),
        config_source=source,
        is_sensitive=False,
        synonyms=synonyms if include_synonyms else [],
        config_type=_kind(name, values[-1][0]),
        documentation=doc,
    )


def _kind(name: str, value: object) -> int:
    if isinstance(value, bool):
        return BOOLEAN
    return STRING if isinstance(value, str) and not is_number(name) else INT


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _synonym(name: str, value: str | None, source: int) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def _result(
    asked: DescribeConfigsResource,
    code: int,
    text: str | None,
    configs: list[DescribeConfigsResourceResult],
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=text,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=configs,
    )
