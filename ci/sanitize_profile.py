"""A pytest plugin for ci/sanitize: hypothesis does not mind that everything is ten times slower."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("sanitize", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("sanitize")
