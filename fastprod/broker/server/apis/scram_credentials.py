"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554, B-D6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.network.sasl.users import SCRAM_256, SCRAM_512, Users
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    DUPLICATE_RESOURCE,
    NONE,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNSUPPORTED_SASL_MECHANISM,
)
from fastprod.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fastprod.protocol.messages.security.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_MECHANISMS = {1: SCRAM_256, 2: SCRAM_512}
_NUMBERS = {name: number for number, name in _MECHANISMS.items()}
_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 16_384


class DescribeUserScramCredentialsApi:
    """Handles DescribeUserScramCredentials. Any thread.

    Args:
        users: have the credentials.
    """

    def __init__(self, users: Users) -> None:
        self._users = users

    def handle(self, call: Call[DescribeUserScramCredentialsRequest]) -> None:
        """Answer with mechanisms and iterations, never with keys."""
        if not call.allows_cluster(Operation.DESCRIBE):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        known = self._users.scram_iterations()
        asked = Counter([each.name for each in call.message.users or ()] or list(known))
        results = []
        for name, count in asked.items():
            if count > 1:
                text = f"Cannot describe SCRAM credentials for the same user twice: {name}"
                results.append(_described(name, DUPLICATE_RESOURCE, text, {}))
            elif name in known:
                results.append(_described(name, NONE, None, known[name]))
            else:
                text = f"Attempt to describe a user credential that does not exist: {name}"
                results.append(_described(name, RESOURCE_NOT_FOUND, text, {}))
        call.answer(
            DescribeUserScramCredentialsResponse(
                error_code=NONE, error_message=None, results=results
            )
        )

    def refuse(
        self, call: Call[DescribeUserScramCredentialsRequest], code: int, text: str | None
    ) -> None:
        """Answer with `code`."""
        call.answer(
            DescribeUserScramCredentialsResponse(error_code=code, error_message=text, results=[])
        )


def _described(
    name: str, code: int, text: str | None, found: dict[str, int]
) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=code,
        error_message=text,
        credential_infos=[
            CredentialInfo(mechanism=_NUMBERS[mechanism], iterations=iterations)
            for mechanism, iterations in found.items()
        ],
    )


class AlterUserScramCredentialsApi:
    """Handles AlterUserScramCredentials. Any thread.

    Args:
        users: get the credentials, or lose them.
    """

    def __init__(self, users: Users) -> None:
        self._users = users

    def handle(self, call: Call[AlterUserScramCredentialsRequest]) -> None:
        """Change the credentials of each user that the request names once."""
        if not call.allows_cluster(Operation.ALTER):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        counts = Counter(_names(call.message))
        results: dict[str, AlterUserScramCredentialsResult] = {}

        def alter(name: str, change: Callable[[], None]) -> None:
            try:
                if counts[name] > 1:
                    raise TopicError(
                        DUPLICATE_RESOURCE,
                        "A user credential cannot be altered twice in the same request",
                    )
                change()
            except Exception as error:
                results[name] = _altered(name, *item_error(error))
            else:
                results[name] = _altered(name, NONE, None)

        for deletion in call.message.deletions:
            alter(deletion.name, partial(self._delete, deletion))
        for upsertion in call.message.upsertions:
            alter(upsertion.name, partial(self._upsert, upsertion))
        call.answer(AlterUserScramCredentialsResponse(results=list(results.values())))

    def refuse(
        self, call: Call[AlterUserScramCredentialsRequest], code: int, text: str | None
    ) -> None:
        """Answer every user with `code`."""
        results = [_altered(name, code, text) for name in dict.fromkeys(_names(call.message))]
        call.answer(AlterUserScramCredentialsResponse(results=results))

    def _delete(self, asked: ScramCredentialDeletion) -> None:
        mechanism = _mechanism(asked.name, asked.mechanism)
        if not self._users.remove_scram(asked.name, mechanism):
            raise TopicError(
                RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            )

    def _upsert(self, asked: ScramCredentialUpsertion) -> None:
        mechanism = _mechanism(asked.name, asked.mechanism)
        if asked.iterations < _MIN_ITERATIONS:
            raise TopicError(UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if asked.iterations > _MAX_ITERATIONS:
            raise TopicError(UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        salted, salt = bytes(asked.salted_password), bytes(asked.salt)
        if not salted or not salt:
            raise TopicError(UNACCEPTABLE_CREDENTIAL, "salt or salted password is empty")
        # It brings 4 MB of OpenSSL, which most brokers do without.
        from fastprod.security.scram import credentials_from_salted  # noqa: PLC0415

        credentials = credentials_from_salted(mechanism, salted, salt, asked.iterations)
        self._users.put_scram(asked.name, mechanism, credentials)


def _names(message: AlterUserScramCredentialsRequest) -> list[str]:
    return [
        *(each.name for each in message.deletions),
        *(each.name for each in message.upsertions),
    ]


def _mechanism(name: str, number: int) -> str:
    if not name:
        raise TopicError(UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if number not in _MECHANISMS:
        raise TopicError(UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return _MECHANISMS[number]


def _altered(name: str, code: int, text: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)
