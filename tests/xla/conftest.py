"""The catalogue is compiled once for all tests that look at it."""

from __future__ import annotations

import importlib.util

import pytest

from symscale.xla.catalogue import Agreement, check_catalogue

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="needs the extra xla"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("xla"):
            item.add_marker(needs_jax)


@pytest.fixture(scope="session")
def agreement() -> Agreement:
    return check_catalogue()
