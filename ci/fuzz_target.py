"""Feeds one target with what libFuzzer makes: ci/fuzz_target.py TARGET KIND [its options] FOLDER.

KIND is native or python, and says whose coverage counts. With --list it tells names and kinds.

Started by ci/fuzz.py, with the sanitizers and the coverage library preloaded.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from contextlib import nullcontext
from pathlib import Path

_INSTRUMENTED = [
    "fastprod.broker.api_table",
    "fastprod.broker.coordinator",
    "fastprod.broker.log.producer_snapshot",
    "fastprod.broker.network.tls",
    "fastprod.client.sasl",
    "fastprod.client.transactions.group_offsets",
    "fastprod.load",
    "fastprod.protocol",
    "fastprod.security",
    "fastprod.settings",
]
_STARTED = 0
NATIVE, PYTHON = "native", "python"


def start_coverage() -> None:
    """Native code counts from now on.  Raises SystemExit: it cannot."""
    library = ctypes.CDLL(os.environ["FASTPROD_FUZZ_COVERAGE"])
    core = importlib.import_module("atheris.core_with_libfuzzer").__file__ or ""
    failure = library.fuzz_coverage_start(core.encode())
    if failure != _STARTED:
        sys.exit(f"fuzz_target: the native code is not covered ({failure})")


def main(argv: list[str]) -> None:
    """Never returns where a target is named."""
    atheris = importlib.import_module("atheris")  # installed by ci/fuzz.py alone
    is_python = argv[2:3] == [PYTHON]
    with atheris.instrument_imports(include=_INSTRUMENTED) if is_python else nullcontext():
        from support.fuzz.all_targets import all_targets, read_corpus  # noqa: PLC0415
    targets = all_targets()
    if argv[1] == "--list":
        for each in targets.values():
            print(each.name, NATIVE if each.is_native else PYTHON)
        return
    target = targets[argv[1]]
    folder = Path(argv[-1])
    if not any(folder.iterdir()):
        for number, data in enumerate([*target.seeds, *read_corpus(target.name)]):
            (folder / f"seed-{number}").write_bytes(data)

    def take(data: bytes) -> None:
        target(data)

    start_coverage()
    options = [*argv[3:-1], f"-max_len={target.most_bytes}", argv[-1]]
    atheris.Setup([argv[0], *options], take, enable_python_coverage=is_python)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
