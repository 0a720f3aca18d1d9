"""LeaderEpochs: contract P-H.4.1, P-H.4.2, P-H.4.5; P-L.176 epoch tests."""

from __future__ import annotations

import pytest

from fastprod.client.metadata.cluster import NO_PARTITIONS, Partitions
from fastprod.client.metadata.leader_epochs import LeaderEpochs
from support.oracle.metadata_world import topic_metadata

ID1 = bytes([1] * 16)
ID2 = bytes([2] * 16)


def accept(
    epochs: LeaderEpochs,
    known: Partitions,
    *numbers: int,
    known_id: bytes | None = ID1,
    topic_id: bytes = ID1,
    leader: int = 1,
) -> tuple[Partitions, bool]:
    topic = topic_metadata("t", numbers, topic_id=topic_id, leader=leader)
    return epochs.accept("t", topic, known, known_id)


def test_first_equal_and_newer_epochs_are_taken() -> None:
    """P-H.4.2; P-L.176 testUpdateLastEpoch."""
    epochs = LeaderEpochs()
    first, news = accept(epochs, NO_PARTITIONS, 5, leader=1)
    assert (first[0].leader_epoch, news) == (5, True)
    equal, news = accept(epochs, first, 5, leader=2)
    assert (equal[0].leader_id, news) == (2, False)
    newer, news = accept(epochs, equal, 6, leader=1)
    assert (newer[0].leader_epoch, newer[0].leader_id, news) == (6, 1, True)
    assert epochs.last_seen("t", 0) == 6


def test_an_older_epoch_keeps_what_is_known() -> None:
    """P-H.4.2; P-L.176 testRejectOldMetadata."""
    epochs = LeaderEpochs()
    known, _ = accept(epochs, NO_PARTITIONS, 10, 10, leader=1)
    after, news = accept(epochs, known, 9, 11, leader=2)
    assert after[0] is known[0]
    assert after[1].leader_epoch == 11
    assert news
    assert epochs.last_seen("t", 0) == 10


def test_an_older_epoch_of_a_partition_that_is_not_known_is_left_out() -> None:
    """P-H.4.2, P-H.4.3: nothing is kept, because there is nothing."""
    epochs = LeaderEpochs()
    accept(epochs, NO_PARTITIONS, 10)
    after, news = accept(epochs, NO_PARTITIONS, 9)
    assert (after, news) == ({}, False)


@pytest.mark.parametrize("known_id", [ID1, None])
def test_another_topic_id_is_taken_even_with_a_lower_epoch(known_id: bytes | None) -> None:
    """P-H.4.2; P-L.176 testEpochUpdateOnChangedTopicIds, an old id that was lost included."""
    epochs = LeaderEpochs()
    known, _ = accept(epochs, NO_PARTITIONS, 100, known_id=None)
    after, news = accept(epochs, known, 1, known_id=known_id, topic_id=ID2)
    assert (after[0].leader_epoch, news) == (1, True)
    assert epochs.last_seen("t", 0) == 1


def test_an_answer_without_topic_id_does_not_reset() -> None:
    """P-H.4.2: only a non-null id counts."""
    epochs = LeaderEpochs()
    known, _ = accept(epochs, NO_PARTITIONS, 100)
    after, _ = accept(epochs, known, 1, topic_id=bytes(16))
    assert after[0].leader_epoch == 100


def test_a_partition_without_epoch_is_taken_and_its_epoch_forgotten() -> None:
    """P-H.4.2: epoch unknown -> accept."""
    epochs = LeaderEpochs()
    known, _ = accept(epochs, NO_PARTITIONS, 10)
    after, news = accept(epochs, known, -1, leader=2)
    assert (after[0].leader_id, after[0].leader_epoch, news) == (2, -1, True)
    assert epochs.last_seen("t", 0) is None


def test_what_did_not_change_stays_the_same_object() -> None:
    epochs = LeaderEpochs()
    known, _ = accept(epochs, NO_PARTITIONS, 10, 11)
    after, news = accept(epochs, known, 10, 11)
    assert after is known
    assert not news


def test_topics_no_longer_followed_are_forgotten() -> None:
    """P-H.4.5."""
    epochs = LeaderEpochs()
    epochs.see("t", 0, 3)
    epochs.see("u", 0, 4)
    epochs.forget("t")
    epochs.forget("unknown")
    assert (epochs.last_seen("t", 0), epochs.last_seen("u", 0)) == (None, 4)
