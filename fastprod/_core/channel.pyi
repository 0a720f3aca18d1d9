"""What Python sees of `channel`; the channel itself is native (see channel.pxd)."""

from typing import Final

CLOSE_REASONS: Final[tuple[str, ...]]
"""Names of the reasons a channel ended, indexed by CloseReason (contract G.7.8)."""
