"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is no fault of the code: time limits belong to benchmarks, not to properties.
settings.register_profile(
    "symscale", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("symscale")
