"""Consumer groups by the classic protocol (B-E2)."""
