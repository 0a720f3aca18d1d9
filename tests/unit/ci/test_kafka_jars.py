"""Resolving Kafka is atomic and says what is missing; no network here, Maven is a script."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_jars

MAVEN = """#!/bin/sh
echo called >> "$FAKE_LOG"
for argument; do case "$argument" in
    -DoutputDirectory=*) mkdir -p "${argument#*=}"; : > "${argument#*=}/kafka-clients-%s.jar";;
esac; done
exit %d
"""
JAVA = """#!/bin/sh
for last; do :; done
folder=$(sed -n 's/^log.dirs=//p' "$last")
mkdir -p "$folder"
echo features > "$folder/bootstrap.checkpoint"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a java and a mvn that need no network, and a cache of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    install(folder, "mvn", MAVEN % (kafka_jars.KAFKA_VERSION, 0))
    install(folder, "java", JAVA)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("FASTPROD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "calls"))
    return folder


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


def test_resolve_fills_the_cache_once(tools: Path, tmp_path: Path) -> None:
    folder = kafka_jars.resolve()
    assert folder == tmp_path / "cache" / f"kafka-{kafka_jars.KAFKA_VERSION}"
    assert kafka_jars.bootstrap_checkpoint().read_text() == "features\n"
    assert kafka_jars.resolve() == folder
    assert (tmp_path / "calls").read_text() == "called\n"
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("tool", ["mvn", "java"])
def test_a_missing_tool_is_named_with_the_package_to_install(
    tools: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    (tools / tool).unlink()
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(
        kafka_jars.KafkaUnavailable, match=f"{tool} is not on PATH.*apt-get install"
    ):
        kafka_jars.resolve()


def test_a_failing_maven_leaves_nothing_behind(tools: Path, tmp_path: Path) -> None:
    install(tools, "mvn", MAVEN % (kafka_jars.KAFKA_VERSION, 1))
    with pytest.raises(kafka_jars.KafkaUnavailable, match=r"Maven could not resolve.*exit code 1"):
        kafka_jars.resolve()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_failing_format_leaves_nothing_behind(tools: Path, tmp_path: Path) -> None:
    install(tools, "java", "#!/bin/sh\necho no such class >&2; exit 1\n")
    with pytest.raises(
        kafka_jars.KafkaUnavailable, match=r"StorageTool failed[\s\S]*no such class"
    ):
        kafka_jars.resolve()
    assert list((tmp_path / "cache").iterdir()) == []


def test_jars_without_resolve_says_what_to_run(tools: Path) -> None:
    with pytest.raises(kafka_jars.KafkaUnavailable, match="run ci/kafka resolve"):
        kafka_jars.jars()


def test_ids_have_22_digits_and_no_leading_dash() -> None:
    ids = {kafka_jars.new_kafka_id() for _ in range(500)}
    assert len(ids) == 500
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)
