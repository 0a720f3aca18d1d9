"""DescribeConfigs of topics and nodes (D4.8)."""

from __future__ import annotations

from dataclasses import fields

from fastprod.broker import codes
from fastprod.broker.apis.call import Call
from fastprod.broker.cluster import Cluster
from fastprod.broker.config import BrokerConfig
from fastprod.broker.item_errors import item_error
from fastprod.broker.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from fastprod.broker.topic_config import (
    BOOLEAN,
    DEFAULT,
    DYNAMIC_TOPIC,
    INT,
    STATIC_BROKER,
    STRING,
    TopicConfig,
    TopicConfigEntry,
)
from fastprod.broker.topics import TopicError

TOPIC, BROKER = 2, 4
"""Types of resources."""

_MOST_RESOURCES = 10_000


class DescribeConfigsApi:
    """Handles DescribeConfigs. Any thread.

    Args:
        cluster: whose topics and nodes.
        config: of every node.
    """

    def __init__(self, cluster: Cluster, config: BrokerConfig) -> None:
        self._cluster = cluster
        self._config = config

    def handle(self, call: Call[DescribeConfigsRequest]) -> None:
        """Tell the settings of each resource."""
        resources = call.message.resources
        # Each once, and not too many: the answer is a hundred times as large as the request.
        asked = {(each.resource_type, each.resource_name): each for each in resources}
        if len(asked) > _MOST_RESOURCES:
            self.refuse(
                call,
                codes.POLICY_VIOLATION,
                f"{len(asked):,} resources in one request, over {_MOST_RESOURCES:,}",
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
            if asked.resource_type == TOPIC:
                found = self._topic_entries(asked.resource_name, message.include_synonyms)
            elif asked.resource_type == BROKER:
                found = self._node_entries(asked.resource_name, message.include_synonyms)
            else:
                raise TopicError(
                    codes.INVALID_REQUEST,
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
        return _result(asked, codes.NONE, None, chosen)

    def _topic_entries(
        self, name: str, include_synonyms: bool
    ) -> list[DescribeConfigsResourceResult]:
        topic = self._cluster.topics.get(name)
        if topic is None:
            raise TopicError(
                codes.UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{name}'."
            )
        return [
            _topic_entry(topic.config, entry, include_synonyms) for entry in topic.config.entries()
        ]

    def _node_entries(
        self, name: str, include_synonyms: bool
    ) -> list[DescribeConfigsResourceResult]:
        if name == "":
            # The settings that were changed for all nodes while they run: none can be.
            return []
        known = {str(node_id): node_id for node_id in self._cluster.node_ids}
        if name not in known:
            raise TopicError(
                codes.INVALID_REQUEST, f"no broker {name!r}; there are {', '.join(known)}"
            )
        entries = [
            _node_entry(
                each.name.replace("_", "."),
                getattr(self._config, each.name),
                each.default,
                str(each.metadata["doc"]),
                include_synonyms,
            )
            for each in fields(self._config)
        ]
        own = _node_entry("node.id", known[name], None, "number of this node", include_synonyms)
        return [*entries, own]


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
    name: str, value: object, default: object, doc: str, include_synonyms: bool
) -> DescribeConfigsResourceResult:
    source = DEFAULT if value == default else STATIC_BROKER
    kind = BOOLEAN if isinstance(value, bool) else STRING if isinstance(value, str) else INT
    return DescribeConfigsResourceResult(
        name=name,
        value=_text(value),
        read_only=True,
        config_source=source,
        is_sensitive=False,
        synonyms=[_synonym(name, _text(value), source)] if include_synonyms else [],
        config_type=kind,
        documentation=doc,
    )


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
