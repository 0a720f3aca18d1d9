"""Run one module of this checkout's benchmark with the fastprod of another checkout.

    python bench/cliffs/inside.py CHECKOUT MODULE [ARGUMENT ...]

Started by its path, with nothing of either checkout imported: CHECKOUT's `fastprod` is imported
first, so that what MODULE does is the same for both and what it measures is not.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main(argv: list[str]) -> None:
    checkout, module, *arguments = argv
    own = Path(__file__).resolve().parents[2]
    sys.path[0] = checkout
    import fastprod  # noqa: PLC0415

    found = Path(fastprod.__file__).resolve().parents[1]
    if found != Path(checkout).resolve():
        raise SystemExit(f"fastprod of {checkout} was wanted, this is that of {found}")
    sys.path[0:1] = [str(own), str(own / "ci"), str(own / "tests")]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
