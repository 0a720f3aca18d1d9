"""The addresses of a host, within a time limit."""

from __future__ import annotations

import threading

from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.client.connections.addresses import Address, resolve


def resolve_in_time(host: str, port: int, timeout_s: float) -> list[Address]:
    """The addresses of a host, in the order in which the client would try them.

    Raises:
        ConnectionTrouble: the name is unknown, or the resolver does not answer in time.
    """
    found: list[list[Address] | OSError] = []

    def ask() -> None:
        try:
            found.append(resolve(host, port))
        except OSError as error:
            found.append(error)

    # getaddrinfo has no time limit; a thread that is left waiting in it does no harm.
    thread = threading.Thread(target=ask, name="fastprod-resolver", daemon=True)
    thread.start()
    thread.join(timeout_s)
    answer = found[0] if found else None
    if answer is None:
        raise ConnectionTrouble(
            "dns", f"DNS gave no answer about the host {host!r} within {timeout_s:g} s"
        )
    if isinstance(answer, OSError):
        raise ConnectionTrouble(
            "dns", f"DNS does not know the host {host!r} ({answer.strerror or answer})"
        ) from answer
    return answer
