"""A desk for every test, cold or warm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.e2e.desk import Desk, Wire
from tests.e2e.warm import WarmDesk, warm_host


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    """A folder, a workspace in it, and a scripted model; for tests marked `warm`, on the host."""
    if request.node.get_closest_marker("warm") is None:
        return Desk(folder=tmp_path)
    return WarmDesk(folder=tmp_path, socket=request.getfixturevalue("host"))


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a host that forks for every run, see `tests.e2e.warm`."""
    with warm_host(tmp_path_factory.mktemp("warm") / "host") as socket:
        yield socket


@pytest.fixture
def warm_desk(host: Path, tmp_path: Path) -> Callable[[Wire], WarmDesk]:
    """A new desk for a model on this wire, as often as it is called."""
    numbers = count()
    return lambda wire: WarmDesk(folder=tmp_path / str(next(numbers)), wire=wire, socket=host)
