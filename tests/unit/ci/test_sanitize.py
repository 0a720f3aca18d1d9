"""ci/sanitize.py: the copy follows the checkout, and one report is enough to fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import checkout
import sanitize

OVERFLOW = """
#include <stdlib.h>
int main(int count, char **names) {
    char *four = malloc(4);
    four[count + 3] = names[0][0];
    return four[count + 3];
}
"""

RACE = """
#include <pthread.h>
#include <unistd.h>
static long total;
static void *NAME(void *unused) {
    for (int i = 0; i < 3; i++) {
        total++;
        usleep(1000);
    }
    return unused;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, NAME, NULL);
    NAME(NULL);
    pthread_join(other, NULL);
    return 0;
}
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A checkout with two files, and where its copy goes."""
    source = tmp_path / "source"
    (source / "fastprod").mkdir(parents=True)
    (source / "fastprod" / "a.py").write_text("A = 1\n")
    (source / "fastprod" / "b.pyx").write_text("B = 1\n")
    return source, tmp_path / "copy"


def test_the_copy_has_what_the_checkout_has(folders: tuple[Path, Path]) -> None:
    source, copy = folders
    sanitize.copy_tree(source, copy)
    assert (copy / "fastprod" / "a.py").read_text() == "A = 1\n"
    (source / "fastprod" / "a.py").write_text("A = 2\n")
    (source / "fastprod" / "b.pyx").unlink()
    (copy / "fastprod" / "b.so").write_text("built")
    sanitize.copy_tree(source, copy)
    assert (copy / "fastprod" / "a.py").read_text() == "A = 2\n"
    assert not (copy / "fastprod" / "b.pyx").exists()
    assert (copy / "fastprod" / "b.so").exists()


def test_what_is_the_same_keeps_its_time_so_that_it_is_not_built_again(
    folders: tuple[Path, Path],
) -> None:
    source, copy = folders
    sanitize.copy_tree(source, copy)
    before = (copy / "fastprod" / "b.pyx").stat().st_mtime_ns
    (source / "fastprod" / "b.pyx").touch()
    sanitize.copy_tree(source, copy)
    assert (copy / "fastprod" / "b.pyx").stat().st_mtime_ns == before


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The copy's folder, where nothing needs to be copied and built."""
    monkeypatch.setenv("FASTPROD_CACHE", str(tmp_path))
    tree = sanitize.tree_folder()
    for folder in (tree, sanitize.tree_folder("sanitize-threads")):
        (folder / "ci").mkdir(parents=True)
        shutil.copy(checkout.ROOT / "ci" / "tsan.txt", folder / "ci")
    monkeypatch.setattr(sanitize, "copy_tree", lambda source, target: None)
    monkeypatch.setattr(sanitize, "build", lambda tree, mode: None)
    monkeypatch.setattr(sanitize, "is_instrumented", lambda tree, mode: True)
    return tree


def test_an_error_that_only_a_child_process_meets_fails_the_run(
    stage: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A real overflow, by one byte, in a program whose exit code nobody looks at."""
    source, program = stage / "overflow.c", stage / "overflow"
    source.write_text(OVERFLOW)
    subprocess.run(
        ["gcc", "-g", "-fsanitize=address,undefined", "-o", str(program), str(source)], check=True
    )

    def run_tests(tree: Path, reports: Path, arguments: object, mode: str) -> int:
        environment = sanitize.sanitized(tree, reports, mode)
        subprocess.run([str(program)], env=environment, check=False)
        return 0

    monkeypatch.setattr(sanitize, "run_tests", run_tests)
    assert sanitize.main([]) == 1
    assert "heap-buffer-overflow" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "reports"), [("count", 1), ("__pyx_f_x_node_figures", 0)], ids=["told", "left alone"]
)
def test_two_threads_that_count_without_a_lock_fail_the_run(
    stage: Path, monkeypatch: pytest.MonkeyPatch, name: str, reports: int
) -> None:
    """But for those in ci/tsan.txt."""
    source, program = stage / "race.c", stage / "race"
    source.write_text(RACE.replace("NAME", name))
    subprocess.run(
        ["gcc", "-g", "-pthread", "-fsanitize=thread", "-o", str(program), str(source)], check=True
    )

    def run_tests(tree: Path, reports: Path, arguments: object, mode: str) -> int:
        environment = sanitize.sanitized(tree, reports, mode)
        subprocess.run(["setarch", "-R", str(program)], env=environment, check=True)
        return 0

    monkeypatch.setattr(sanitize, "run_tests", run_tests)
    assert sanitize.main(["--threads"]) == reports


def test_without_a_report_the_tests_decide(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in (0, 2):
        monkeypatch.setattr(sanitize, "run_tests", lambda *arguments, code=code: code)
        assert sanitize.main([]) == code


def test_a_build_without_sanitizers_is_not_believed(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    core = stage / "fastprod" / "_core"
    core.mkdir(parents=True)
    assert not sanitize.is_instrumented(stage)
    module = next((checkout.ROOT / "fastprod" / "_core").rglob("murmur2.*.so"))
    shutil.copy(module, core)
    assert not sanitize.is_instrumented(stage)
    (core / "other.so").write_bytes(b"..__asan_init..")
    assert not sanitize.is_instrumented(stage)
    (core / module.name).unlink()
    assert sanitize.is_instrumented(stage)


def test_every_test_that_is_named_exists() -> None:
    assert all((checkout.ROOT / name).exists() for name in sanitize.TESTS)
    named = [name.removeprefix("--ignore=") for name in sanitize.THREAD_TESTS if "/" in name]
    assert len(named) > 2
    assert all((checkout.ROOT / name).exists() for name in named)
