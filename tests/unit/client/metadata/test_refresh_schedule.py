"""RefreshSchedule: contract P-H.2.1 to P-H.2.5; P-L.176 testTimeToNextUpdate*, testFailedUpdate."""

from __future__ import annotations

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.metadata.refresh_schedule import RefreshSchedule

AGE_MS = 300_000
NOW_MS = 1_000_000


def schedule(uniform: float = 1.0) -> RefreshSchedule:
    return RefreshSchedule(ExponentialBackoff(100, 1000, uniform=lambda a, b: uniform), AGE_MS)


def succeed(
    schedule: RefreshSchedule, now_ms: int, *, is_partial: bool = False, has_news: bool = True
) -> None:
    schedule.succeeded(now_ms, schedule.request_version, is_partial=is_partial, has_news=has_news)


def test_nothing_known_is_due_at_once() -> None:
    """P-H.2.1: never refreshed, so its age is over."""
    assert schedule().time_to_next_ms(0) == 0


def test_an_answer_lasts_until_its_age_is_over() -> None:
    """P-L.176 testTimeToNextUpdate. P-H.2.1."""
    s = schedule()
    succeed(s, NOW_MS)
    assert s.time_to_next_ms(NOW_MS) == AGE_MS
    assert s.time_to_next_ms(NOW_MS + 1000) == AGE_MS - 1000
    assert s.time_to_next_ms(NOW_MS + AGE_MS) == 0


def test_a_request_waits_for_the_backoff_after_the_last_answer() -> None:
    """P-L.176 testTimeToNextUpdateRetryBackoff. P-H.2.1: the attempts term never vanishes."""
    s = schedule()
    succeed(s, NOW_MS)
    s.request_full()
    assert s.is_requested
    assert s.time_to_next_ms(NOW_MS) == 100
    assert s.time_to_next_ms(NOW_MS + 60) == 40
    assert s.time_to_next_ms(NOW_MS + 100) == 0


def test_failures_back_off_exponentially_and_a_success_ends_that() -> None:
    """P-L.176 testFailedUpdate. P-H.2.5."""
    s = schedule()
    s.request_full()
    delays = []
    now_ms = NOW_MS
    for _ in range(6):
        s.failed(now_ms)
        delays.append(s.time_to_next_ms(now_ms))
        now_ms += delays[-1]
    assert delays == [100, 200, 400, 800, 1000, 1000]
    succeed(s, now_ms)
    s.request_full()
    assert s.time_to_next_ms(now_ms) == 100


def test_answers_without_news_back_off_exponentially() -> None:
    """P-H.2.4, KIP-580: even while every partition says NOT_LEADER."""
    s = schedule()
    delays = []
    now_ms = NOW_MS
    for _ in range(6):
        succeed(s, now_ms, has_news=False)
        s.request_full()
        delays.append(s.time_to_next_ms(now_ms))
        now_ms += delays[-1]
    assert delays == [100, 200, 400, 800, 1000, 1000]
    succeed(s, now_ms, has_news=True)
    s.request_full()
    assert s.time_to_next_ms(now_ms) == 100


def test_a_caller_may_ask_to_forget_that_the_answers_had_no_news() -> None:
    """P-H.2.1."""
    s = schedule()
    for _ in range(4):
        succeed(s, NOW_MS, has_news=False)
    s.request_full()
    assert s.time_to_next_ms(NOW_MS) == 800
    s.request_full(reset_equivalent_backoff=True)
    assert s.time_to_next_ms(NOW_MS) == 100


def test_the_periodic_refresh_is_not_one_more_fruitless_question() -> None:
    """P-H.2.1: equivalent_count is reset on expiry."""
    s = schedule()
    for _ in range(4):
        succeed(s, NOW_MS, has_news=False)
    assert s.time_to_next_ms(NOW_MS + AGE_MS) == 0
    succeed(s, NOW_MS + AGE_MS, has_news=False)
    s.request_full()
    assert s.time_to_next_ms(NOW_MS + AGE_MS) == 100


def test_new_topics_pass_every_backoff() -> None:
    """P-L.177 testTimeToNextUpdateOverwriteBackoff. P-H.2.2."""
    s = schedule()
    for _ in range(5):
        succeed(s, NOW_MS, has_news=False)
    s.failed(NOW_MS)
    s.request_new_topics()
    assert s.time_to_next_ms(NOW_MS) == 0
    assert s.is_partial_enough(NOW_MS)


def test_a_full_answer_is_needed_when_asked_for_or_due() -> None:
    """P-H.2.2."""
    s = schedule()
    s.request_new_topics()
    assert not s.is_partial_enough(NOW_MS)
    succeed(s, NOW_MS)
    s.request_new_topics()
    assert s.is_partial_enough(NOW_MS + AGE_MS - 1)
    assert not s.is_partial_enough(NOW_MS + AGE_MS)
    s.request_full()
    assert not s.is_partial_enough(NOW_MS)


def test_a_partial_answer_neither_renews_the_age_nor_clears_a_full_request() -> None:
    """P-H.2.2."""
    s = schedule()
    succeed(s, NOW_MS)
    succeed(s, NOW_MS + 5000, is_partial=True)
    assert s.time_to_next_ms(NOW_MS + 5000) == AGE_MS - 5000
    s.request_full()
    succeed(s, NOW_MS + 6000, is_partial=True)
    assert s.is_requested
    succeed(s, NOW_MS + 7000)
    assert not s.is_requested


def test_a_topic_added_while_a_request_was_under_way_asks_again() -> None:
    """P-H.2.3; P-L.176 testPartialMetadataUpdate."""
    s = schedule()
    succeed(s, NOW_MS)
    s.request_new_topics()
    sent_version = s.request_version
    s.request_new_topics()
    s.succeeded(NOW_MS, sent_version, is_partial=True, has_news=True)
    assert s.is_requested
    s.succeeded(NOW_MS, s.request_version, is_partial=True, has_news=True)
    assert not s.is_requested


def test_jitter_is_drawn_once_for_each_refresh() -> None:
    """P-D.6.4: two looks at the same delay agree."""
    draws = iter([0.8, 1.2, 0.9, 1.0, 1.1])
    s = RefreshSchedule(ExponentialBackoff(100, 1000, uniform=lambda a, b: next(draws)), AGE_MS)
    s.request_full()
    s.failed(NOW_MS)
    assert [s.time_to_next_ms(NOW_MS) for _ in range(5)] == [80] * 5
    s.failed(NOW_MS)
    assert [s.time_to_next_ms(NOW_MS) for _ in range(5)] == [240] * 5


def test_the_last_full_answer_is_what_metadata_age_counts_from() -> None:
    """K metadata-age: neither a partial answer nor a failure makes it younger."""
    s = schedule()
    assert s.last_successful_refresh_ms is None
    succeed(s, NOW_MS)
    succeed(s, NOW_MS + 1000, is_partial=True)
    s.failed(NOW_MS + 2000)
    assert s.last_successful_refresh_ms == NOW_MS
