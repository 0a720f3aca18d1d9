"""What Python sees of `selector`; the selector itself is native (see selector.pxd)."""

def poll_backend(force_poll: bool = False) -> str:
    """What a selector waits with here: "epoll" or "poll".

    Args:
        force_poll: take poll, as FASTPROD_POLL=poll does.

    Raises:
        OSError: there is no descriptor left for one.
    """
