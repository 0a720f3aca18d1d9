"""StandaloneCluster: Spark's own cluster, a master and workers as processes on loopback."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pyspark

import spark_jars
from checkout import ROOT
from kept_process import KeptProcess
from support.processes import process_tree
from support.processes.closing import Closing
from support.processes.process_tree import Process

START_S = 240.0
GONE_S = 60.0
_CLASSES = "org.apache.spark.deploy"


class StandaloneCluster(Closing):
    """A master, and workers with one core each; executors find this checkout.

    Args:
        worker_count: how many.

    Blocks: while the processes start, all at once but for the master.  Threads: one.
    """

    def __init__(self, worker_count: int = 2) -> None:
        package = pyspark.__file__
        assert package is not None
        self._home = Path(package).parent
        # Not in pytest's folders: Spark's sockets have to have short names.
        self.folder = Path(tempfile.mkdtemp(prefix="fp-spark-"))
        self._processes: list[KeptProcess] = []
        try:
            self._start("master", "master.Master", "--port", "0")
            self.master = self._processes[0].wait_for_output(
                r"Starting Spark master at (spark://127\.0\.0\.1:\d+)\s", START_S
            )[1]
            self._processes[0].wait_for_output("elected leader", START_S)
            for number in range(worker_count):
                self._start(f"worker-{number}", "worker.Worker", "--cores", "1", self.master)
            for worker in self._processes[1:]:
                worker.wait_for_output("Successfully registered with master", START_S)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, main_class: str, *arguments: str) -> None:
        folder = self.folder / name
        folder.mkdir()
        memory = () if name == "master" else ("--memory", "600m", "--work-dir", str(folder))
        command = (
            *(str(self._home / "bin" / "spark-class"), f"{_CLASSES}.{main_class}"),
            *("--host", "127.0.0.1", "--webui-port", "0", *memory, *arguments),
        )
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": spark_jars.java_options(f"-Djava.io.tmpdir={folder}"),
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(folder),
        }
        log_path = self.folder / f"{name}.log"
        self._processes.append(
            KeptProcess(f"Spark's {name}", command, log_path, folder=self.folder, env=environment)
        )

    def executors_of(self, number: int) -> int:
        """How many executors a worker has started so far."""
        return len(list((self.folder / f"worker-{number}").glob("app-*/*")))

    def close(self) -> None:
        """End all processes, executors too, and remove the folder."""
        below: list[Process] = []
        for each in self._processes:
            below += process_tree.below(each.pid)
        for each in reversed(self._processes):
            each.kill()
        for left in process_tree.wait_until_gone(below, GONE_S):
            left.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
