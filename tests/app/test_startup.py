"""The start-up ends in time and is heard of, whatever the disk does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.adapters import trees, workspace
from runner.core.events import RunnerHeartbeat
from runner.engine import loop
from tests.app.scene import DONE, Scene

COPIED = {"workspace": {"path": "work", "isolation": "copy"}}


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying takes for ever, unless it is stopped."""

    def copy(source: Path, target: Path, *, is_stopped: Callable[[], bool], **_: object) -> None:
        target.mkdir()
        limit = time.monotonic() + 30
        while not is_stopped() and time.monotonic() < limit:
            time.sleep(0.01)
        raise OSError("stopped")

    monkeypatch.setattr(workspace, "copy_tree", copy)


@pytest.mark.usefixtures("slow_disk")
def test_a_start_up_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 78 names the phase; heartbeats named it before; nothing of the copy stays."""
    monkeypatch.setattr(loop, "HEARTBEAT_S", 0.2)
    scene = Scene(folder=tmp_path, replies=[DONE], keys={**COPIED, "limits": {"start": "1s"}})
    ended = scene.run()
    assert (ended.exit_code, ended.result["error_type"]) == (78, "preflight")
    assert "start-up took longer" in ended.result["errors"][0]
    assert "in this phase: workspace" in ended.result["errors"][0]
    beats = [r.event for r in scene.sink.records if isinstance(r.event, RunnerHeartbeat)]
    assert {beat.phase for beat in beats} == {"workspace"}
    assert not list(scene.session.glob("workspace*/"))
    assert scene.of("assistant.turn_start") == []


@pytest.mark.usefixtures("slow_disk")
def test_the_timeout_of_the_run_wins_if_it_is_sooner(tmp_path: Path) -> None:
    """It is the run's time that is up, exit 9, not the start-up's."""
    keys = {**COPIED, "timeout": "1s", "limits": {"start": "5s"}}
    ended = Scene(folder=tmp_path, replies=[DONE], keys=keys).run()
    assert (ended.exit_code, ended.result["subtype"]) == (9, "error_timeout")


def test_checks_that_used_the_time_up_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after them is not begun."""
    from runner.adapters import preflight

    real = preflight.run_checks

    def slow(*arguments: object, **options: object) -> object:
        time.sleep(1.05)
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(preflight, "run_checks", slow)
    scene = Scene(folder=tmp_path, replies=[DONE], keys={"limits": {"start": "1s"}})
    ended = scene.run()
    assert ended.exit_code == 78
    assert "in this phase: checks" in ended.result["errors"][0]


def test_a_copy_that_is_stopped_ends_at_the_next_file(tmp_path: Path) -> None:
    """It says so as an error, and copies no more."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    with pytest.raises(OSError, match="stopped"):
        trees.copy_tree(tmp_path / "a", tmp_path / "b", is_stopped=lambda: True)
    assert list((tmp_path / "b").iterdir()) == []
