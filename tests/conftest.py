"""Fixtures that the whole suite shares: a small catalog of fictional providers, built by the real code."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from paraagent.catalog.build import BuildConfig, build
from paraagent.catalog.store import Catalog

if TYPE_CHECKING:
    from paraagent.search.search import SearchIndex

settings.register_profile("steady", deadline=None, derandomize=True)  # the same cases on any machine, at any speed
settings.load_profile("steady")

DATA = Path(__file__).parent / "data"


def pytest_runtest_setup() -> None:
    """Let no test's numbers depend on which others ran before it."""
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """157 tools of 10 fictional providers."""
    documents = tuple(str(path) for path in sorted(DATA.glob("*.json")))
    config = BuildConfig(path=tmp_path_factory.mktemp("catalog") / "catalog.sqlite", add=documents, packages=False)
    with build(config) as built:
        yield built


@pytest.fixture(scope="session")
def index(catalog: Catalog) -> SearchIndex:
    """Search over all tools of the fixture catalog."""
    from paraagent.search.search import SearchIndex

    return SearchIndex.build_in_memory(list(catalog))
