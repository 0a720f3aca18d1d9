"""TransactionState: every transition that Kafka allows, and no other (P-I.1)."""

from __future__ import annotations

import itertools

import pytest

from fastprod.client.transactions.transaction_state import TransactionState as State

ALLOWED = {
    State.UNINITIALIZED: {State.INITIALIZING},
    State.INITIALIZING: {State.READY, State.ABORTABLE_ERROR},
    State.READY: {State.UNINITIALIZED, State.IN_TRANSACTION},
    State.IN_TRANSACTION: {
        State.COMMITTING_TRANSACTION,
        State.ABORTING_TRANSACTION,
        State.ABORTABLE_ERROR,
    },
    State.COMMITTING_TRANSACTION: {State.READY, State.INITIALIZING, State.ABORTABLE_ERROR},
    State.ABORTING_TRANSACTION: {State.READY, State.INITIALIZING},
    State.ABORTABLE_ERROR: {
        State.UNINITIALIZED,
        State.ABORTING_TRANSACTION,
        State.ABORTABLE_ERROR,
    },
    State.FATAL_ERROR: set(),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(State, State)))
def test_a_transition_is_allowed_or_not(source: State, target: State) -> None:
    """P-I.1, its table."""
    allowed = target is State.FATAL_ERROR or target in ALLOWED[source]
    assert source.may_become(target) == allowed


def test_which_states_have_a_transaction_and_which_an_error() -> None:
    """P-I.1.4"""
    assert [state for state in State if state.is_ongoing] == [
        State.IN_TRANSACTION,
        State.COMMITTING_TRANSACTION,
        State.ABORTING_TRANSACTION,
        State.ABORTABLE_ERROR,
    ]
    assert [state for state in State if state.is_error] == [
        State.ABORTABLE_ERROR,
        State.FATAL_ERROR,
    ]
    assert [state for state in State if state.is_completing] == [
        State.COMMITTING_TRANSACTION,
        State.ABORTING_TRANSACTION,
    ]
