"""`fastprod demo --spark` as people start it: a process, with a broker and a Java of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spark_jars

PATIENCE_S = 240.0
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_writes_two_topics_and_finds_them_right() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fastprod", "demo", "--spark", "--records", "5000"],
        cwd=ROOT,
        env=os.environ | spark_jars.submit_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "log 5,000 lines of a web server requests 4,900 records, 2 micro-batches" in told
    assert "compared both topics are what plain Python makes of the log" in told
