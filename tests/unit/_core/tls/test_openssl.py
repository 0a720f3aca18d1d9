"""OpenSSL is found where Python has it, without importing Python's own `ssl`."""

from __future__ import annotations

import ssl

from fastprod._core.tls.openssl import describe
from support.processes.child_python import run_python


def test_it_is_the_one_that_python_uses() -> None:
    assert describe().startswith(f"{ssl.OPENSSL_VERSION} in ")


def test_pythons_ssl_stays_out() -> None:
    child = run_python(
        "import sys\n"
        "import fastprod\n"
        "from fastprod._core.tls.openssl import describe\n"
        "describe()\n"
        "print(sorted({'ssl', '_ssl'} & set(sys.modules)))\n"
    )
    assert child.output.strip() == "[]"
