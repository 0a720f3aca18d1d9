"""ci/accept.py: steps with logs, what passed is not repeated, a failure is the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import accept
import checkout

COUNTING = "import pathlib; p = pathlib.Path('runs'); p.write_text(p.read_text() + 'x')"

EVERY = {"named", "spark", "bench", "spark bench", "all", "chaos"}
SPARK_BENCH_USES = ("bench", "bench/spark", "fastprod/spark")
FOLDERS = ("tests/", "bench/", "ci/", "Makefile")


def step(name: str, code: str, limit_s: float = 20.0) -> accept.Step:
    return accept.Step(name, f"runs {name}", (sys.executable, "-c", code), limit_s)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one source file; the steps below count their runs in `runs`."""
    (tmp_path / "fastprod").mkdir()
    (tmp_path / "fastprod" / "a.py").write_text("A = 1\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "runs").write_text("")
    return tmp_path


@pytest.fixture(autouse=True)
def only_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counting file and the logs are no sources."""
    monkeypatch.setattr(checkout, "files", lambda root: sorted((root / "fastprod").iterdir()))


def test_a_passed_step_is_not_repeated_for_the_same_sources(root: Path) -> None:
    chosen = [step("counting", COUNTING)]
    assert accept.run_all(chosen, root) == 0
    assert accept.run_all(chosen, root) == 0
    assert (root / "runs").read_text() == "x"


def test_other_sources_or_again_make_it_due(root: Path) -> None:
    chosen = [step("counting", COUNTING)]
    accept.run_all(chosen, root)
    (root / "fastprod" / "a.py").write_text("A = 2\n")
    accept.run_all(chosen, root)
    accept.run_all(chosen, root, again=True)
    assert (root / "runs").read_text() == "xxx"


def test_a_file_may_be_left_out_of_the_fingerprint(root: Path) -> None:
    other = root / "fastprod" / "b.py"

    def found(*without: Path) -> str:
        return accept.fingerprint(root, None, without)

    other.write_text("B = 1\n")
    whole, part = found(), found(Path("fastprod/b.py"))
    other.write_text("B = 2\n")
    assert found() != whole
    assert found(Path("fastprod/b.py")) == part


@pytest.mark.parametrize(
    ("source", "due"),
    [
        ("fastprod/client/metadata.py", EVERY),
        ("fastprod/spark/sink/writer.py", {"spark", "spark bench", "all"}),
        ("fastprod/aio/async_producer.py", {"bench", "all"}),
        ("tests/support/waiting.py", EVERY),
        ("tests/interop/test_one.py", {"named", "all"}),
        ("tests/interop/test_other.py", {"all"}),
        ("tests/spark/test_write.py", {"spark", "all"}),
        ("tests/spark/test_other.py", {"all"}),
        ("bench/meter.py", {"bench", "spark bench", "all"}),
        ("bench/spark/job.py", {"spark bench", "all"}),
        ("ci/kafka_cluster.py", EVERY),
        ("ci/accept.py", set()),
        ("ci/chaos.py", {"chaos", "all"}),
        ("tests/conftest.py", {"named", "spark", "all"}),
        ("tests/interop/conftest.py", {"named", "all"}),
        ("tests/faults/conftest.py", {"all"}),
    ],
)
def test_a_step_is_due_again_when_what_it_builds_on_changes(source: str, due: set[str]) -> None:
    every = [
        accept.pytest_step("named", "one test", 1.0, "tests/interop/test_one.py", "-k", "a"),
        accept.pytest_step("spark", "of Spark's", 1.0, "tests/spark/test_write.py"),
        accept.Step("bench", "benchmarks", ("bench/run",), 1.0, uses=("bench", "fastprod/aio")),
        accept.Step("spark bench", "Spark's", ("bench/spark_run",), 1.0, uses=SPARK_BENCH_USES),
        accept.pytest_step("all", "all tests", 1.0, "-m", "slow", "tests/"),
        accept.Step("chaos", "one seed", (sys.executable, "ci/chaos.py", "--seed", "1"), 1.0),
    ]
    assert {each.name for each in every if each.builds_on(Path(source))} == due


NAMED = "tests/interop/test_one.py"


@pytest.mark.parametrize(
    ("user", "text", "is_used"),
    [
        (NAMED, "from support.chaos.proxy import ChaosProxy", True),
        (NAMED, "from support.chaos import plan, proxy as own", True),
        (NAMED, 'RUN = "from support.chaos.proxy import ChaosProxy"', True),
        (NAMED, 'COMMAND = ["python", "tests/support/chaos/proxy.py"]', True),
        (NAMED, "from support.chaos.proxies import ChaosProxy", False),
        (NAMED, "import proxy", False),
        ("tests/conftest.py", "from support.chaos import proxy", True),
        ("tests/interop/conftest.py", "from support.chaos import proxy", True),
        ("tests/faults/conftest.py", "from support.chaos import proxy", False),
        ("tests/interop/test_other.py", "from support.chaos import proxy", False),
        ("bench/meter.py", "from support.chaos import proxy", False),
        ("ci/kafka_node.py", "from support.chaos import proxy", True),
        ("ci/chaos.py", "from support.chaos import proxy", False),
        ("tests/support/broker/world.py", "from support.chaos import proxy", False),
    ],
)
def test_a_helper_counts_for_a_step_that_uses_it(
    tmp_path: Path, user: str, text: str, is_used: bool
) -> None:
    helper = "tests/support/chaos/proxy.py"
    sources = write(tmp_path, {helper: "", NAMED: "", user: text})
    named = accept.pytest_step("named", "one test", 1.0, NAMED)
    assert (Path(helper) in named.sources(tmp_path, sources)) == is_used


def test_a_step_that_runs_what_is_marked_builds_on_the_files_that_have_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        NAMED: "@pytest.mark.slow\ndef test_one(): ...",
        "tests/unit/test_two.py": "pytestmark = [pytest.mark.slow]",
        "tests/unit/test_three.py": "def test_slow(): ...",
        "tests/support/slow.py": "pytest.mark.slow",
        "tests/spark/conftest.py": "pytest.param('kafka', marks=pytest.mark.slow)",
        "tests/spark/test_four.py": "def test_four(): ...",
    }
    write(tmp_path, texts)
    monkeypatch.setattr(
        checkout, "files", lambda root: sorted(path for path in root.rglob("*") if path.is_file())
    )
    marked = (NAMED, "tests/spark", "tests/unit/test_two.py")
    assert accept.marked_tests(tmp_path, "slow") == marked


def test_a_helper_that_another_one_uses_counts_too(tmp_path: Path) -> None:
    texts = {
        NAMED: "from support.broker import world",
        "tests/support/broker/world.py": "from support.chaos import plan",
        "tests/support/chaos/plan.py": "from support.broker import world",
        "tests/support/chaos/judge.py": "from support.chaos import plan",
    }
    sources = write(tmp_path, texts)
    named = accept.pytest_step("named", "one test", 1.0, NAMED)
    unused = Path("tests/support/chaos/judge.py")
    assert named.sources(tmp_path, sources) == [each for each in sources if each != unused]


def write(root: Path, texts: dict[str, str]) -> list[Path]:
    """Files of a checkout; their names, relative to it."""
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return sorted(map(Path, texts))


def test_what_another_run_has_passed_meanwhile_is_kept(root: Path) -> None:
    other = [step("other", "")]
    accept.run_all(other, root)
    results = root / "logs" / "accept.json"
    results.rename(root / "of_other.json")
    ends = "import os; os.rename('of_other.json', 'logs/accept.json')"
    assert accept.run_all([step("this", ends)], root) == 0
    assert set(json.loads(results.read_text())) == {"this", "other"}


def test_another_command_or_environment_makes_it_due(root: Path) -> None:
    found = {
        accept.fingerprint(root, accept.Step("a", "", ("x", argument), 1.0, env))
        for argument in ("1", "2")
        for env in ({}, {"FASTPROD_SCALE": "100"})
    }
    assert len(found) == 4


def test_a_failed_step_is_said_and_the_others_run(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [step("failing", "print('why'); raise SystemExit(3)"), step("counting", COUNTING)]
    assert accept.run_all(chosen, root) == 1
    said = capsys.readouterr().out
    assert "why" in said
    assert "failing              FAILED" in said
    assert "exit code 3" in said
    assert (root / "logs" / "accept-failing.log").read_text() == "why\n"
    assert (root / "runs").read_text() == "x"
    assert json.loads((root / "logs" / "accept.json").read_text())["failing"]["passed"] is False


def test_a_failed_step_is_due_again(root: Path) -> None:
    failing = COUNTING + "; raise SystemExit(1)"
    accept.run_all([step("failing", failing)], root)
    accept.run_all([step("failing", failing)], root)
    assert (root / "runs").read_text() == "xx"


def test_a_step_that_takes_too_long_is_ended(root: Path) -> None:
    slow = step("slow", "import time; time.sleep(60)", limit_s=0.2)
    assert accept.run(slow, root, root / "logs" / "slow.log") == "not done after 0 s"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_it_ends_the_step_that_runs(root: Path, number: int) -> None:
    hangs = (
        "import os, pathlib, time\n"
        "pathlib.Path('pid').write_text(str(os.getpid()))\n"
        "time.sleep(60)\n"
    )
    code = (
        "import sys, signal, accept, checkout, pathlib\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "checkout.ROOT = pathlib.Path.cwd()\n"
        "checkout.files = lambda root: []\n"
        f"step = accept.Step('hangs', 'hangs', (sys.executable, '-c', {hangs!r}), 60.0)\n"
        "accept.steps = lambda: [step]\n"
        "accept.heed_signals()\n"
        "accept.main([])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(checkout.ROOT / "ci")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            while not (root / "pid").exists() or not (root / "pid").read_text():
                assert child.poll() is None
                time.sleep(0.01)
            child.send_signal(number)
            assert child.wait(20.0) != 0
        finally:
            child.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(int((root / "pid").read_text()), 0)


def test_a_step_whose_program_is_missing_fails(root: Path) -> None:
    missing = accept.Step("peers", "rivals", ("bench/no-such-program",), 1.0)
    assert accept.run_all([missing], root) == 1


def test_every_step_has_a_name_of_its_own_and_its_files_exist() -> None:
    every = accept.steps()
    assert len({each.name for each in every}) == len(every)
    for each in every:
        paths = [part for part in each.command if part.startswith(FOLDERS)]
        assert paths
        assert all((checkout.ROOT / path).exists() for path in paths), each.name


def test_the_list_names_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert accept.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [each.name for each in accept.steps()]
    with pytest.raises(SystemExit):
        accept.main(["--only", "no-such-step"])
