"""Apache Kafka's jars: resolved once with Maven into a cache outside the tree."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

import java_flags

KAFKA_VERSION = "4.3.0"
SCALA_VERSION = "2.13"
# The version of log4j-core that this Kafka brings along; without the binding nothing is logged.
LOG4J_VERSION = "2.25.4"
MAVEN_TIMEOUT_S = 600
FORMAT_TIMEOUT_S = 60

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.fastprod</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId>
      <artifactId>kafka_{SCALA_VERSION}</artifactId><version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId><version>{LOG4J_VERSION}</version></dependency>
  </dependencies>
</project>
"""
_FORMAT_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9
listeners=PLAINTEXT://127.0.0.1:10,CONTROLLER://127.0.0.1:9
controller.listener.names=CONTROLLER
log.dirs={folder}
"""


class KafkaUnavailable(RuntimeError):
    """Kafka cannot be had here; the text says what to install or run."""


def program(name: str) -> str:
    """Path of `java` or `mvn`; JAVA_HOME is looked at first for java.

    Raises: KafkaUnavailable when it is not installed.
    """
    if name == "java" and "JAVA_HOME" in os.environ:
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
        if java.exists():
            return str(java)
    found = shutil.which(name)
    if found is None:
        packages = {"java": "default-jre-headless (Java 17 or later)", "mvn": "maven"}
        raise KafkaUnavailable(
            f"{name} is not on PATH, and Apache Kafka needs it; "
            f"on Debian: apt-get install {packages[name]}"
        )
    return found


def cache_folder() -> Path:
    """Where this version of Kafka is kept: FASTPROD_CACHE, else ~/.cache/fastprod."""
    root = os.environ.get("FASTPROD_CACHE") or "~/.cache/fastprod"
    return Path(root).expanduser() / f"kafka-{KAFKA_VERSION}"


def jars() -> Path:
    """Folder of the resolved jars.

    Raises: KafkaUnavailable when `ci/kafka resolve` has not been run.
    """
    folder = cache_folder()
    if not folder.is_dir():
        raise KafkaUnavailable(f"Apache Kafka {KAFKA_VERSION} is not here: run ci/kafka resolve")
    return folder / "jars"


def quick_flags() -> tuple[str, ...]:
    """Flags of a JVM that starts Kafka fast.

    Raises: KafkaUnavailable when `ci/kafka resolve` has not been run.
    """
    return java_flags.quick(program("java"), jars())


def bootstrap_checkpoint() -> Path:
    """The feature levels that formatting writes; the same for every node and cluster."""
    return jars().parent / "format" / "bootstrap.checkpoint"


def class_command(class_name: str, *args: str, folder: Path | None = None) -> list[str]:
    """The command that runs a class of Kafka in a JVM of its own."""
    folder = folder or jars()
    command = [program("java"), *java_flags.quick(program("java"), folder), "-Xmx512m"]
    return [*command, "-Dlog4j2.level=ERROR", "-cp", str(folder / "*"), class_name, *args]


def run_class(
    class_name: str, *args: str, timeout_s: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka to its end in a JVM of its own; the caller looks at the exit code."""
    return subprocess.run(
        class_command(class_name, *args, folder=folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def new_kafka_id() -> str:
    """A random id as Kafka writes it: 16 bytes in 22 URL-safe base64 digits, no leading dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith(
        "-"
    ):
        pass
    return text


def resolve() -> Path:
    """Fetch the jars unless they are there; return the cache folder.

    Raises: KafkaUnavailable with what to do.
    Blocks: for the download, up to 10 minutes.
    """
    folder = cache_folder()
    if not folder.is_dir():
        program("java")
        fill_cache(folder, _fill)
    return folder


def fill_cache(folder: Path, fill: Callable[[Path], None]) -> None:
    """Have a folder beside filled, and rename it.

    So a killed run leaves no half cache, and two runs at once do no harm.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        fill(part)
        part.chmod(0o755)
        try:
            part.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def copy_jars(what: str, pom: str, folder: Path, expected: Collection[str]) -> None:
    """Have Maven copy what a POM depends on into a folder.

    Args:
        what: how errors call it.
        pom: its text.
        folder: made if absent.
        expected: names of jars that are there afterwards.

    Raises: KafkaUnavailable with what to do.
    Blocks: up to 10 minutes.
    """
    with tempfile.TemporaryDirectory(prefix="fastprod-maven-") as scratch:
        pom_file = Path(scratch) / "pom.xml"
        pom_file.write_text(pom)
        done = subprocess.run(
            [
                *(program("mvn"), "-q", "-B", "-f", str(pom_file), "dependency:copy-dependencies"),
                f"-DoutputDirectory={folder}",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    missing = [name for name in expected if not (folder / name).exists()]
    if done.returncode != 0 or missing:
        raise KafkaUnavailable(
            f"Maven could not resolve {what} (exit code {done.returncode}, {len(missing)} jars of "
            f"{len(expected)} missing); check the network and Maven's settings.xml:\n"
            f"{(done.stdout + done.stderr)[-3000:]}"
        )


def _fill(part: Path) -> None:
    clients = f"kafka-clients-{KAFKA_VERSION}.jar"
    copy_jars(f"Apache Kafka {KAFKA_VERSION}", _POM, part / "jars", [clients])
    _format(part)


def _format(part: Path) -> None:
    """Format one throw-away node: its checkpoint serves every node and saves a JVM each time."""
    properties = part / "format.properties"
    properties.write_text(_FORMAT_PROPERTIES.format(folder=part / "format"))
    done = run_class(
        "kafka.tools.StorageTool",
        *("format", "-t", new_kafka_id(), "-c", str(properties)),
        timeout_s=FORMAT_TIMEOUT_S,
        folder=part / "jars",
    )
    if done.returncode != 0 or not (part / "format" / "bootstrap.checkpoint").exists():
        raise KafkaUnavailable(
            f"Kafka's StorageTool failed (exit code {done.returncode}); "
            f"is this Java 17 or later?\n{(done.stdout + done.stderr)[-3000:]}"
        )
