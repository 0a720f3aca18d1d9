"""What Python sees of `selector`; the selector itself is native (see selector.pxd)."""

def pack_address(address: tuple[str, int] | tuple[str, int, int, int] | str) -> bytes:
    """The `struct sockaddr` that selector_connect takes.

    `address` is an IPv4 (ip, port), an IPv6 (ip, port, flow info, scope) as getaddrinfo gives
    them, or the path of a Unix socket. The ip is numeric: nothing is resolved, nothing blocks.
    Raises OSError when the ip does not parse, ValueError when the path is too long. Any thread.
    """
