"""The jars of Spark's own Kafka sink: resolved once with Maven into a cache outside the tree.

`ci/spark_jars.py` fetches them.  Each is resolved without what it depends on: PySpark brings the
rest, and the parents of some of these name repositories that need not answer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import java_flags
import kafka_jars

CONNECTOR_VERSION = "4.2.0"
_ARTIFACTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
JARS = tuple(f"{name}-{version}.jar" for _, name, version in _ARTIFACTS)
_DEPENDENCY = """
  <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
    <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
  </dependency>"""
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.fastprod</groupId><artifactId>spark-sink-for-tests</artifactId><version>1</version>
  <dependencies>{"".join(_DEPENDENCY.format(*each) for each in _ARTIFACTS)}
  </dependencies>
</project>
"""


def cache_folder() -> Path:
    """Where the jars of this version are kept, beside Apache Kafka's."""
    return kafka_jars.cache_folder().parent / f"spark-kafka-{CONNECTOR_VERSION}"


def resolve() -> list[Path]:
    """Fetch the jars unless they are there; return their paths.

    Raises: KafkaUnavailable with what to do.
    Blocks: for the download, up to 10 minutes.
    """
    folder = cache_folder()
    if not folder.is_dir():
        kafka_jars.fill_cache(folder, _fill)
    return sorted(folder.glob("*.jar"))


def _fill(part: Path) -> None:
    kafka_jars.copy_jars(f"Spark's Kafka sink {CONNECTOR_VERSION}", _POM, part, JARS)


def java_options(*flags: str) -> str:
    """Java options, as Spark's settings and variables have them, for JVMs that start fast."""
    return " ".join((*flags, *java_flags.QUICK))


def submit_environment() -> dict[str, str]:
    """The variable by which the drivers of commands, which set no Java options, start fast."""
    return {"PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{java_options()}" pyspark-shell'}


if __name__ == "__main__":
    try:
        print("\n".join(map(str, resolve())))
    except kafka_jars.KafkaUnavailable as error:
        sys.exit(f"ci/spark_jars.py: {error}")
