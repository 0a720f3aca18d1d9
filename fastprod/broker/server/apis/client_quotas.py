"""AlterClientQuotas and DescribeClientQuotas: how fast addresses may connect (B-D4.10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.network.connection_quotas import checked_address
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import UNAUTHORIZED, Call
from fastprod.broker.server.ip_quotas import MOST_ADDRESSES, RATE, IpQuotas
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    POLICY_VIOLATION,
    UNSUPPORTED_VERSION,
)
from fastprod.errors import ConfigError
from fastprod.protocol.messages import describe_client_quotas as described
from fastprod.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryResult,
)
from fastprod.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

IP = "ip"
_OTHER_TYPES = ("user", "client-id")
EXACT, DEFAULT, ANY = 0, 1, 2
"""Ways to match an entity's name."""


class AlterClientQuotasApi:
    """Handles AlterClientQuotas. Any thread.

    Args:
        quotas: the rates of addresses.
    """

    def __init__(self, quotas: IpQuotas) -> None:
        self._quotas = quotas

    def handle(self, call: Call[AlterClientQuotasRequest]) -> None:
        """Change the quotas of each entity."""
        if not call.allows_cluster(Operation.ALTER_CONFIGS):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, UNAUTHORIZED)
            return
        entries = call.message.entries
        if len(entries) > MOST_ADDRESSES:
            self.refuse(
                call,
                POLICY_VIOLATION,
                f"{len(entries):,} entities in one request, over {MOST_ADDRESSES:,}",
            )
            return
        counts = Counter(_key(each.entity) for each in entries)
        results = []
        for each in entries:
            try:
                if counts[_key(each.entity)] > 1:
                    raise TopicError(INVALID_REQUEST, "each entity may appear only once")
                self._alter(each, call.message.validate_only)
            except Exception as error:
                results.append(_result(each, *item_error(error)))
            else:
                results.append(_result(each, NONE, None))
        call.answer(AlterClientQuotasResponse(entries=results))

    def refuse(self, call: Call[AlterClientQuotasRequest], code: int, text: str | None) -> None:
        """Answer every entity with `code`."""
        results = [_result(each, code, text) for each in call.message.entries]
        call.answer(AlterClientQuotasResponse(entries=results))

    def _alter(self, entry: EntryData, validate_only: bool) -> None:
        types = [each.entity_type for each in entry.entity]
        if types != [IP]:
            raise TopicError(
                INVALID_REQUEST,
                f"an entity of {' and '.join(types) or 'nothing'}; "
                f"this broker has quotas of addresses ({IP}) only",
            )
        for op in entry.ops:
            if op.key != RATE:
                raise TopicError(INVALID_REQUEST, f"quota {op.key!r}; an address has only {RATE}")
        if len(entry.ops) > 1:
            raise TopicError(INVALID_REQUEST, f"{RATE} stands more than once in the request")
        for op in entry.ops:
            rate = None if op.remove else op.value
            try:
                self._quotas.alter(entry.entity[0].entity_name, rate, validate_only)
            except ConfigError as error:
                raise TopicError(INVALID_REQUEST, str(error)) from None


def _key(entity: Sequence[EntityData]) -> tuple[tuple[str, str | None], ...]:
    return tuple((each.entity_type, each.entity_name) for each in entity)


def _result(asked: EntryData, code: int, text: str | None) -> EntryResult:
    return EntryResult(error_code=code, error_message=text, entity=asked.entity)


class DescribeClientQuotasApi:
    """Handles DescribeClientQuotas. Any thread.

    Args:
        quotas: the rates of addresses.
    """

    def __init__(self, quotas: IpQuotas) -> None:
        self._quotas = quotas

    def handle(self, call: Call[DescribeClientQuotasRequest]) -> None:
        """Answer with the quotas of the entities that are asked for."""
        if not call.allows_cluster(Operation.DESCRIBE_CONFIGS):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, UNAUTHORIZED)
            return
        try:
            entries = self._find(call.message)
        except TopicError as error:
            self.refuse(call, error.code, error.message)
            return
        call.answer(
            DescribeClientQuotasResponse(error_code=NONE, error_message=None, entries=entries)
        )

    def refuse(self, call: Call[DescribeClientQuotasRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None))

    def _find(self, asked: DescribeClientQuotasRequest) -> list[described.EntryData]:
        by_type: dict[str, ComponentData] = {}
        for each in asked.components:
            if each.entity_type in by_type:
                raise TopicError(INVALID_REQUEST, f"{each.entity_type} stands more than once")
            _check(each)
            by_type[each.entity_type] = each
        wanted = by_type.pop(IP, None)
        if wanted is not None and by_type:
            raise TopicError(INVALID_REQUEST, f"{IP} and {', '.join(by_type)} do not go together")
        if by_type or (asked.strict and wanted is None):
            # All quotas are those of addresses.
            return []
        name = None if wanted is None else _address(wanted.match)
        return [
            described.EntryData(
                entity=[described.EntityData(entity_type=IP, entity_name=address)],
                values=[described.ValueData(key=RATE, value=rate)],
            )
            for address, rate in self._quotas.rates().items()
            if wanted is None or wanted.match_type == ANY or name == address
        ]


def _check(component: ComponentData) -> None:
    """Refuse what cannot be meant.

    Raises:
        TopicError: an unknown type of entity, a way to match that there is not, or one that does
            not fit the name.
    """
    if component.entity_type not in (IP, *_OTHER_TYPES):
        raise TopicError(
            UNSUPPORTED_VERSION,
            f"entity type {component.entity_type!r}; there are {', '.join((IP, *_OTHER_TYPES))}",
        )
    if component.match_type not in (EXACT, DEFAULT, ANY):
        raise TopicError(
            INVALID_REQUEST,
            f"match type {component.match_type}; there are 0 (a name), 1 (the default) and 2 (any)",
        )
    if (component.match is None) == (component.match_type == EXACT):
        raise TopicError(INVALID_REQUEST, "a name goes with match type 0, and only with that")


def _address(name: str | None) -> str | None:
    """An address as `IpQuotas` spells it; any other name as it is."""
    try:
        return None if name is None else checked_address(name)
    except ConfigError:
        return name
