"""Feeds every parser of both sides with damaged input, guided by coverage, under the sanitizers.

    ci/fuzz                            ten million inputs, all targets alike
    ci/fuzz --inputs 200000            fewer
    ci/fuzz --only lz4 --only records  these targets
    ci/fuzz --keep                     afterwards, the corpus of the checkout is what was found

The mutations are libFuzzer's (the package atheris, which is installed the first time), the coverage
is that of the native code, by ci/fuzz_coverage.c, and of the Python code of the targets that have
no other. A copy of the checkout is built with FASTPROD_BUILD=fuzz. Inputs that were made are
counted in a file beside it, by target: who is interrupted goes on where it was. FASTPROD_SCALE
is a percentage of the inputs.

Whatever ends a target is a defect: a report of a sanitizer, an error that is not documented, more
than ten seconds, more than 2 GB. The input is in the folder that is named then; it becomes a line
of tests/fuzz/corpus, which `make test` replays.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import checkout
import sanitize

INPUTS = 10_000_000
ATHERIS = "atheris==3.0.0"
ROUND_INPUTS = 250_000
ROUND_TIMEOUT_S = 3_600
KEPT_INPUTS = 40
KEPT_BYTES = 600
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


class Work:
    """The folder beside the copy: counts, corpora that grow, inputs that failed, logs."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.folder = tree.with_name("fuzz-work")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._counts = self.folder / "inputs.json"

    def counts(self) -> dict[str, int]:
        """Inputs made so far, by target."""
        return json.loads(self._counts.read_text()) if self._counts.exists() else {}

    def add(self, target: str, inputs: int) -> int:
        """Count; the sum of the target."""
        counts = self.counts()
        counts[target] = counts.get(target, 0) + inputs
        fresh = self._counts.with_suffix(".new")
        fresh.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
        fresh.replace(self._counts)
        return counts[target]

    def corpus(self, target: str) -> Path:
        return _made(self.folder / "corpus" / target)

    def failures(self, target: str) -> Path:
        return _made(self.folder / "failures" / target)

    def log(self, target: str) -> Path:
        return _made(self.folder / "logs") / f"{target}.log"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def install_atheris() -> None:
    """Into the venv, if it is not there."""
    if subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True).returncode:
        print(f"ci/fuzz: installs {ATHERIS}", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", ATHERIS]
        subprocess.run(pip, check=True)


def build_coverage(tree: Path) -> Path:
    """The library that is preloaded."""
    made = tree / "build" / "fuzz_coverage.so"
    source = tree / "ci" / "fuzz_coverage.c"
    command = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return made


def environment(tree: Path, coverage: Path) -> dict[str, str]:
    """Of the process of a target."""
    found = sanitize.sanitized(tree, tree / "reports")
    found["LD_PRELOAD"] = os.pathsep.join((str(coverage), found["LD_PRELOAD"]))
    found["PYTHONPATH"] = os.pathsep.join((found["PYTHONPATH"], str(tree / "tests")))
    options = ("detect_leaks=0", "allocator_may_return_null=1", "verify_asan_link_order=0")
    found["ASAN_OPTIONS"] = ":".join(options)
    found["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    found["FASTPROD_FUZZ_COVERAGE"] = str(coverage)
    return found


def run_round(
    work: Work, target: str, kind: str, inputs: int, variables: Mapping[str, str]
) -> int | None:
    """Make so many inputs for one target; how many there were, None: one of them failed."""
    command = [
        *(sys.executable, str(work.tree / "ci" / "fuzz_target.py"), target, kind),
        *(f"-runs={inputs}", "-timeout=10", "-rss_limit_mb=2048"),
        *("-print_final_stats=1", f"-artifact_prefix={work.failures(target)}/"),
        str(work.corpus(target)),
    ]
    with (
        work.log(target).open("a") as log,
        tempfile.TemporaryDirectory(prefix="fastprod-fuzz-") as temporary,
    ):
        log.write(f"\n=== {time.strftime('%Y-%m-%d %H:%M:%S')} {inputs:,} inputs\n")
        log.flush()
        began = log.tell()
        done = subprocess.run(
            command,
            # It ends without a last word, and would leave its files behind.
            env={**variables, "TMPDIR": temporary},
            cwd=work.tree,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=ROUND_TIMEOUT_S,
            check=False,
        )
    with work.log(target).open("rb") as log:
        log.seek(began)
        said = log.read().decode(errors="replace")
    found = _EXECUTED.search(said)
    if done.returncode != 0 or found is None:
        print(f"--- {target}\n{said[-6_000:]}", file=sys.stderr)
        return None
    return int(found[1])


def fuzz(
    work: Work, targets: Mapping[str, str], inputs: int, variables: Mapping[str, str]
) -> list[str]:
    """Bring each target to its share of the inputs, in rounds; those that failed."""
    share = max(1, inputs // len(targets))
    failed: list[str] = []
    while True:
        counts = work.counts()
        left = {each: share - counts.get(each, 0) for each in targets if each not in failed}
        left = {each: count for each, count in left.items() if count > 0}
        if not left:
            return failed
        for target, count in left.items():
            began_s = time.monotonic()
            made = run_round(work, target, targets[target], min(count, ROUND_INPUTS), variables)
            if made is None:
                failed.append(target)
                continue
            rate = made / max(time.monotonic() - began_s, 0.001)
            total = work.add(target, made)
            print(f"{target:<18} {total:>10,} of {share:,} inputs, {rate:,.0f}/s", flush=True)


def keep_corpus(work: Work, targets: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """Write the smallest inputs that take the most ways into the checkout."""
    sys.path.insert(0, str(checkout.ROOT / "tests"))
    from support.fuzz.all_targets import write_corpus  # noqa: PLC0415

    for target, kind in targets.items():
        merged = work.folder / "merged" / target
        shutil.rmtree(merged, ignore_errors=True)
        _made(merged)
        subprocess.run(
            [
                *(
                    sys.executable,
                    str(work.tree / "ci" / "fuzz_target.py"),
                    target,
                    kind,
                    "-merge=1",
                ),
                *(str(merged), str(work.corpus(target))),
            ],
            env=dict(variables),
            cwd=work.tree,
            capture_output=True,
            timeout=ROUND_TIMEOUT_S,
            check=True,
        )
        found = sorted((path.read_bytes() for path in merged.iterdir()), key=len)
        kept = [each for each in found if len(each) <= KEPT_BYTES]
        step = max(1, len(kept) // KEPT_INPUTS)
        write_corpus(target, kept[::step][:KEPT_INPUTS])


def targets_of(tree: Path, variables: Mapping[str, str], only: list[str]) -> dict[str, str]:
    """The kinds of all targets by name, or of those that were asked for."""
    listed = subprocess.run(
        [sys.executable, str(tree / "ci" / "fuzz_target.py"), "--list"],
        env=dict(variables),
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    known = dict(line.split() for line in listed)
    unknown = sorted(set(only) - set(known))
    if unknown:
        sys.exit(f"ci/fuzz: no target {', '.join(unknown)}; there are {', '.join(known)}")
    return {name: kind for name, kind in known.items() if not only or name in only}


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ci/fuzz", description=__doc__)
    scale = float(os.environ.get("FASTPROD_SCALE", 100))
    parser.add_argument("--inputs", type=int, default=round(INPUTS * scale / 100), metavar="N")
    parser.add_argument("--only", action="append", default=[], metavar="TARGET")
    parser.add_argument("--keep", action="store_true", help="put what was found into the checkout")
    parser.add_argument("--anew", action="store_true", help="forget what was done so far")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Copy, build, feed; 0 when no input failed."""
    given = _arguments(argv)
    tree = sanitize.tree_folder("fuzz")
    install_atheris()
    sanitize.copy_tree(checkout.ROOT, tree)
    sanitize.build(tree, "fuzz")
    if not sanitize.is_instrumented(tree):
        sys.exit("ci/fuzz: the build has no sanitizer in it")
    work = Work(tree)
    if given.anew:
        shutil.rmtree(work.folder)
        work = Work(tree)
    variables = environment(tree, build_coverage(tree))
    targets = targets_of(tree, variables, given.only)
    failed = fuzz(work, targets, given.inputs, variables)
    if given.keep:
        keep_corpus(
            work, {name: kind for name, kind in targets.items() if name not in failed}, variables
        )
    total = sum(work.counts().get(each, 0) for each in targets)
    print(f"ci/fuzz: {total:,} inputs for {len(targets)} targets, {len(failed)} failed")
    for target in failed:
        print(f"  {target}: {work.failures(target)}, {work.log(target)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
