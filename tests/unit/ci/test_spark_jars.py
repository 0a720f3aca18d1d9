"""The jars of Spark's own sink: from the cache, or by Maven, or not at all with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_jars
from kafka_jars import KafkaUnavailable


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTPROD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache" / f"spark-kafka-{spark_jars.CONNECTOR_VERSION}"


def maven(folder: Path, script: str) -> None:
    program = folder / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_what_is_in_the_cache_needs_no_maven(cache: Path) -> None:
    cache.mkdir(parents=True)
    for name in ("b.jar", "a.jar", "pom.xml"):
        (cache / name).touch()
    assert [path.name for path in spark_jars.resolve()] == ["a.jar", "b.jar"]


def test_maven_fills_the_cache_once(cache: Path, tmp_path: Path) -> None:
    names = " ".join(spark_jars.JARS)
    maven(tmp_path, f'for jar in {names}; do : > "${{6#-DoutputDirectory=}}/$jar"; done')
    assert [path.name for path in spark_jars.resolve()] == sorted(spark_jars.JARS)
    (tmp_path / "bin" / "mvn").unlink()
    assert len(spark_jars.resolve()) == 4
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


@pytest.mark.parametrize(
    "script", ["echo no such artifact; exit 1", ': > "${6#*=}/commons-pool2-2.12.0.jar"']
)
def test_a_failed_download_says_so_and_leaves_nothing(
    cache: Path, tmp_path: Path, script: str
) -> None:
    maven(tmp_path, script)
    with pytest.raises(KafkaUnavailable, match="Maven could not resolve Spark's Kafka sink"):
        spark_jars.resolve()
    assert list(cache.parent.iterdir()) == []


def test_without_maven_the_error_says_what_to_install() -> None:
    with pytest.raises(KafkaUnavailable, match="apt-get install maven"):
        spark_jars.resolve()
