"""What DumpLogSegments prints becomes data, and each of its findings an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_dump import DumpFailed, parse, parse_partitions


def batch(first: int, count: int, **changed: str) -> str:
    """One batch as the tool of Kafka 4.3.0 prints it."""
    fields = {
        "baseOffset": str(first),
        "lastOffset": str(first + count - 1),
        "count": str(count),
        "baseSequence": "-1",
        "producerId": "-1",
        "isTransactional": "false",
        "deleteHorizonMs": "OptionalLong.empty",
        "position": "0",
        "CreateTime": "1000",
        "size": "90",
        "magic": "2",
        "compresscodec": "lz4",
        "crc": "17",
        "isvalid": "true",
        **changed,
    }
    lines = [" ".join(f"{key}: {value}" for key, value in fields.items())]
    lines += [
        f"| offset: {first + i} CreateTime: 1000 keySize: -1 valueSize: 3 sequence: -1 "
        "headerKeys: [a,Exception: corrupt]"
        for i in range(count)
    ]
    return "\n".join(lines) + "\n"


HEAD = "Dumping 0.log\nLog starting offset: 0\n"


def test_batches_and_records_come_in_order() -> None:
    batches = parse(HEAD + batch(0, 2) + batch(2, 1))
    assert [(each.number("baseOffset"), each.number("count")) for each in batches] == [
        (0, 2),
        (2, 1),
    ]
    assert batches[0].fields["compresscodec"] == "lz4"
    assert batches[0].records[1]["offset"] == "1"
    assert batches[0].records[1]["valueSize"] == "3"
    assert batches[0].records[1]["headerKeys"] == "[a,Exception: corrupt]"


def said_of(segment: str, *pairs: str) -> str:
    """What the tool says of the offsets of a segment."""
    lines = [f"Non-consecutive offsets in {segment}", *(f"  {pair}" for pair in pairs)]
    return "\n".join(lines) + "\n"


def test_a_later_segment_begins_with_the_offset_in_its_name() -> None:
    name = "/a/t-0/00000000000000000010.log"
    findings = said_of(name, "-1 is followed by 10") + said_of("20.log", "-1 is followed by 20")
    batches = parse(HEAD + batch(0, 10) + batch(10, 10) + batch(20, 1) + findings)
    assert [each.number("baseOffset") for each in batches] == [0, 10, 20]


@pytest.mark.parametrize(
    "pairs",
    [
        ("-1 is followed by 11",),
        ("-1 is followed by 1",),
        ("-1 is followed by 10", "12 is followed by 14"),
        ("12 is followed by 14", "-1 is followed by 10"),
        ("9 is followed by 10",),
        (),
    ],
)
def test_any_other_gap_in_a_later_segment_is_an_error(pairs: tuple[str, ...]) -> None:
    with pytest.raises(DumpFailed, match="Non-consecutive"):
        parse(HEAD + batch(0, 1) + said_of("/a/t-0/00000000000000000010.log", *pairs))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (batch(0, 2, isvalid="false"), "not a valid batch"),
        (batch(0, 2, magic="1"), "not a valid batch"),
        (batch(0, 2) + "Found 73 invalid bytes at the end of 0.log\n", "73 invalid bytes"),
        (batch(0, 2) + "Non-consecutive offsets in 0.log\n  0 is followed by 2\n", "Non-consec"),
        (batch(0, 2) + batch(3, 1), "offset 2 should come next"),
        (batch(0, 2) + batch(1, 1), "offset 2 should come next"),
        (batch(0, 2, lastOffset="2"), "the records' offsets are not 0 to 2"),
    ],
)
def test_damage_is_an_error(text: str, message: str) -> None:
    with pytest.raises(DumpFailed, match=message):
        parse(HEAD + text)


def test_files_of_several_partitions_are_told_apart() -> None:
    """Each partition's offsets begin at 0; a later file of it goes on."""
    text = (
        f"Dumping /a/t-0/0.log\n{batch(0, 2)}Dumping /a/t-1/0.log\n{batch(0, 3)}"
        f"Dumping /a/t-0/2.log\n{batch(2, 1)}"
    )
    folders = [Path("/a/t-1"), Path("/a/t-0")]
    found = parse_partitions(text, folders)
    assert [[each.number("count") for each in batches] for batches in found] == [[3], [2, 1]]
    with pytest.raises(DumpFailed, match="invalid bytes"):
        parse_partitions(text + "Found 7 invalid bytes at the end of 2.log\n", folders)
    with pytest.raises(KeyError):
        parse_partitions(text, folders[:1])
