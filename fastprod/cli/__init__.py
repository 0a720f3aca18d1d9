"""The command line, `fastprod`; it needs the extra `cli`."""

from fastprod.cli.entry import main as main
