"""The command line: `fastprod produce`, `perf`, `doctor`, `demo`."""

from fastprod.cli.command import main as main
