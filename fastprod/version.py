"""The version, in one place for code; pyproject.toml has the same (a test compares them)."""

VERSION = "0.1.0"
