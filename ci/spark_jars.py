"""The jars of Spark's own Kafka sink: resolved once with Maven into a cache outside the tree.

`ci/spark_jars.py` fetches them.  Each is resolved without what it depends on: PySpark brings the
rest, and the parents of some of these name repositories that need not answer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kafka_jars

CONNECTOR_VERSION = "4.2.0"
_ARTIFACTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
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

    Atomic: made in a folder beside, which is then renamed.

    Raises: KafkaUnavailable with what to do.
    Blocks: for the download, up to 10 minutes.
    """
    folder = cache_folder()
    if not folder.is_dir():
        maven = kafka_jars.program("mvn")
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
        try:
            _copy_jars(maven, part)
            part.chmod(0o755)
            try:
                part.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return sorted(folder.glob("*.jar"))


def _copy_jars(maven: str, part: Path) -> None:
    pom = part / "pom.xml"
    pom.write_text(_POM)
    done = subprocess.run(
        [
            *(maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
            f"-DoutputDirectory={part}",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=kafka_jars.MAVEN_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0 or len(list(part.glob("*.jar"))) != len(_ARTIFACTS):
        raise kafka_jars.KafkaUnavailable(
            f"Maven could not resolve Spark's Kafka sink {CONNECTOR_VERSION} (exit code "
            f"{done.returncode}); check the network and Maven's settings.xml:\n"
            f"{(done.stdout + done.stderr)[-3000:]}"
        )


if __name__ == "__main__":
    try:
        print("\n".join(map(str, resolve())))
    except kafka_jars.KafkaUnavailable as error:
        sys.exit(f"ci/spark_jars.py: {error}")
