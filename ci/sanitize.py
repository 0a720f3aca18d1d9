"""Runs the engine's tests under AddressSanitizer and UndefinedBehaviorSanitizer, or another one.

    ci/sanitize                     the tests of TESTS
    ci/sanitize tests/threads -k x  pytest arguments instead
    ci/sanitize --threads ...       the same with ThreadSanitizer and THREAD_TESTS

A copy of the checkout is built with FASTPROD_BUILD=asan, or tsan, in a folder outside of it, which
stays, so that the next run builds what has changed only. The sanitizers write what they find into
files, so that no report of a child process is missed; any report fails the run. Leaks are not
looked for: the interpreter itself leaves memory behind. What ThreadSanitizer leaves alone is in
ci/tsan.txt; it sees the interpreter's lock, which is made of mutexes, and so no race where it is
held.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import checkout

# Not tests/faults/test_fork.py: the sanitizer's allocator does not survive a fork while another
# thread allocates, its lock stays taken in the child.
TESTS = (
    "tests/unit/_core",
    "tests/property",
    "tests/fuzz",
    "tests/threads",
    "tests/faults/test_close.py",
    "tests/faults/test_exit.py",
    "tests/faults/test_signals.py",
    "tests/broker_faults/test_fuzz.py",
    "tests/unit/broker/log",
    "tests/unit/broker/server/apis",
    "tests/unit/broker/network/test_processor_hostile.py",
    "tests/broker_faults/test_hostile.py",
)
# Without a fork of many threads, and without librdkafka in the process: it uses threads that this
# sanitizer does not know, and crashes. Nor what measures memory: the sanitizer's own counts, too.
THREAD_TESTS = (
    "tests/threads",
    "--ignore=tests/threads/test_transaction_stress.py",
    "tests/faults",
    *(
        f"--ignore=tests/faults/test_{name}.py"
        for name in (
            "bulk_arrays",
            "columns",
            "exit",
            "fork",
            "late_transaction_requests",
            "sasl_tokens",
            "signals",
        )
    ),
    *("-k", "not fork and not child and not memory_is_gone"),
)
BUILD_TIMEOUT_S = 1_800
RUN_TIMEOUT_S = 3_600
OPTIONS = {
    # The pool's tests ask for more memory than there is, and want to be told so.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:log_path={reports}/address",
    "UBSAN_OPTIONS": "print_stacktrace=1:log_path={reports}/undefined",
    # Of a thread-local variable whose place is 16 bytes behind a page's beginning, gcc's takes what
    # stands before it for its size, as an old glibc had that there, and ends the process.
    "TSAN_OPTIONS": (
        "exitcode=0:intercept_tls_get_addr=0:suppressions={tree}/ci/tsan.txt"
        ":log_path={reports}/thread"
    ),
    # Python's own allocator would hide what happens in small blocks.
    "PYTHONMALLOC": "malloc",
}
MARKS = {"asan": "__asan_init", "tsan": "__tsan_init"}
NAMES = {"asan": "sanitize", "tsan": "sanitize-threads"}


def tree_folder(name: str = "sanitize") -> Path:
    """Where the copy is kept: under FASTPROD_CACHE, else under ~/.cache/fastprod."""
    root = os.environ.get("FASTPROD_CACHE") or "~/.cache/fastprod"
    return Path(root).expanduser() / name


def copy_tree(source: Path, target: Path) -> None:
    """Make `target` a copy of the checkout; what is the same already stays, with its time."""
    wanted = {path.relative_to(source) for path in checkout.files(source)}
    for name in sorted(wanted):
        there = target / name
        here = source / name
        if not there.exists() or there.read_bytes() != here.read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, there)
            there.touch()  # newer than what was built of the one before
    for folder in ("fastprod", "tests", "ci"):
        for path in list((target / folder).rglob("*")):
            if path.suffix in checkout.SOURCE_SUFFIXES and path.relative_to(target) not in wanted:
                path.unlink()


def build(tree: Path, mode: str = "asan") -> None:
    """Build the copy in place, as FASTPROD_BUILD says it.

    Raises:
        SystemExit: it failed; with the log's tail.
    """
    log = tree / "build.log"
    environment = {**os.environ, "FASTPROD_BUILD": mode, "FASTPROD_TESTING": "1"}
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--parallel", "2"],
            cwd=tree,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:])
        sys.exit(f"ci/sanitize: the build failed:\n{tail}")


def runtime_library(mode: str) -> str:
    """The sanitizer's shared library, which must be in the process before anything else."""
    name = f"lib{mode}.so"
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        sys.exit(f"ci/sanitize: gcc has no {name} here: install its package (lib{mode})")
    return str(Path(found).resolve())


def sanitized(tree: Path, reports: Path, mode: str = "asan") -> dict[str, str]:
    """The environment in which the tests run."""
    options = {name: text.format(reports=reports, tree=tree) for name, text in OPTIONS.items()}
    library = {"LD_PRELOAD": runtime_library(mode)}
    path = os.pathsep.join((str(tree), str(tree / "ci")))
    return {**os.environ, **options, **library, "PYTHONPATH": path}


def run_tests(tree: Path, reports: Path, arguments: Sequence[str], mode: str = "asan") -> int:
    """Run pytest; its exit code. Real Kafka is left out: a JVM does not live with the library."""
    # ThreadSanitizer's map of the memory wants addresses that are not moved at random.
    prefix = ("setarch", "-R") if mode == "tsan" else ()
    return subprocess.run(
        [
            *(*prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "sanitize_profile", "-m", "not kafka and not long", *arguments),
        ],
        cwd=tree,
        env=sanitized(tree, reports, mode),
        timeout=RUN_TIMEOUT_S,
        check=False,
    ).returncode


def is_instrumented(tree: Path, mode: str = "asan") -> bool:
    """Do the modules carry the sanitizers? If not, that nothing is found would mean nothing."""
    modules = sorted((tree / "fastprod" / "_core").rglob("*.so"))
    mark = MARKS[mode].encode()
    return bool(modules) and all(mark in path.read_bytes() for path in modules)


def main(arguments: Sequence[str]) -> int:
    """Copy, build, run, look at the reports; 0 when there is none and all tests pass."""
    mode = "asan"
    if arguments[:1] == ["--threads"]:
        arguments, mode = arguments[1:], "tsan"
    name, tests = NAMES[mode], THREAD_TESTS if mode == "tsan" else TESTS
    tree = tree_folder(name)
    reports = tree / "reports"
    began_s = time.monotonic()
    copy_tree(checkout.ROOT, tree)
    build(tree, mode)
    if not is_instrumented(tree, mode):
        sys.exit("ci/sanitize: the build has no sanitizer in it")
    print(f"ci/sanitize: built in {time.monotonic() - began_s:.0f} s", flush=True)
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    code = run_tests(tree, reports, arguments or tests, mode)
    found = sorted(reports.iterdir())
    for path in found:
        print(f"--- {path.name}\n{path.read_text(errors='replace')}", file=sys.stderr)
    print(f"ci/sanitize: {len(found)} report(s), pytest ended with {code}")
    return 1 if found else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
