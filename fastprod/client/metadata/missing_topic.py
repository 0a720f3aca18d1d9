"""The error of a caller whose topic, or partition, did not become known in time."""

from __future__ import annotations

from fastprod.errors import MetadataTimeoutError


def missing_topic_error(
    topic: str,
    partition: int | None,
    count: int | None,
    timeout_ms: int,
    cause: BaseException | None,
    awaited: str,
) -> MetadataTimeoutError:
    """Say what is missing, why, and what to do about it.

    Args:
        topic: its name.
        partition: the one that the caller needs; None: any.
        count: partitions that the topic is known to have; None: it is not known.
        timeout_ms: how long the caller waited.
        cause: the last thing that went wrong, if anything did.
        awaited: what connections wait for, "" for nothing.

    Source: contract P-A.4.5.
    """
    reason = "; ".join(filter(None, ["" if cause is None else str(cause), awaited]))
    error = MetadataTimeoutError(
        topic=topic,
        waited_ms=timeout_ms,
        partition=None if count is None else partition,
        partition_count=count,
        reason=reason,
    )
    # The first sentence is Kafka's own: it is what people search for.
    if count is None:
        said = f"Topic {topic} not present in metadata after {timeout_ms} ms."
        advice = (
            "Create the topic, check its name and bootstrap_servers, or wait longer"
            " (max_block_ms, or the timeout that the call was given)"
        )
    else:
        said = (
            f"Partition {partition} of topic {topic} with partition count {count} is not"
            f" present in metadata after {timeout_ms} ms."
        )
        advice = f"Use a partition from 0 to {count - 1}, or add partitions to the topic"
    end = "" if reason.endswith(("?", ".")) else "."
    because = f" The last problem was: {reason}{end}" if reason else ""
    error.args = (f"{said}{because} {advice}.",)
    error.__cause__ = cause
    return error
