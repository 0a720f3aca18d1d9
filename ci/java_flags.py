"""Flags of the JVMs that tests start: those that start fast, and those that run fast.

A class-data archive (`ci/java_archive.py` makes Kafka's) holds an application's classes as the JVM
has them after loading: with it Kafka starts in half the CPU time. It fits one Java and one class
path; without it, or where it does not fit, a JVM starts as it always did.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

# For benchmarks.
FULL_SPEED = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExplicitGCInvokesConcurrent")
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# An archive that does not fit does no harm, so nothing is said of it.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def archive(java: str, jars: Path) -> Path:
    """Where the archive for programs made of the jars in a folder is, or would be: in .venv."""
    program = Path(java).resolve()
    times = [each.stat().st_mtime_ns if each.exists() else 0 for each in (program, jars)]
    key = f"{program} {jars} {times}"
    return Path(sys.prefix) / "java" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def quick(java: str, jars: Path) -> tuple[str, ...]:
    """Flags of a JVM that starts fast, with the archive if it was made.

    Args:
        java: path of the program.
        jars: the folder whose jars are the class path.
    """
    path = archive(java, jars)
    return (*QUICK, f"-XX:SharedArchiveFile={path}", *_QUIET) if path.exists() else QUICK


def writing(path: Path) -> tuple[str, ...]:
    """Flags of a JVM that writes what it has loaded to a file when it ends."""
    return (*QUICK, f"-XX:ArchiveClassesAtExit={path}", *_QUIET)
