"""Every test of this folder is under the leak guard."""

from __future__ import annotations

from support.processes.leak_guard import nothing_is_left

__all__ = ["nothing_is_left"]
