"""Layer: what may lie between a channel and its socket."""

from typing_extensions import disjoint_base

@disjoint_base
class Layer:
    """TLS or the way through a proxy, as the engine takes it: a TlsContext or a ProxyPlan.

    Immutable; any thread. Connections keep what they need of it, so it may go before them.
    """
