"""Which definitions are kept back, what a search finds, and what it leaves in a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.core.deferral import MOST_LOADED, USUAL_WINDOW, found, is_kept_back, kept_back, shown
from runner.core.events import SessionResume, ToolSearchActivated
from runner.core.fold import apply, fold
from runner.core.messages import ToolSpec
from runner.core.permissions import offered
from runner.core.state import State
from runner.core.thread import DENSITY, Thread, load_tools
from runner.core.weight import tools_bound
from tests.fakes import MemoryJournal, call, reply
from tests.logs import Log, task


def tool(name: str, description: str = "") -> ToolSpec:
    return ToolSpec(name=name, description=description, input_schema={"type": "object"})


def weighing(tokens: int) -> ToolSpec:
    """A server's tool whose definition is this heavy."""
    bare = tool("mcp__docs__find")
    missing = int(tokens / DENSITY) - tools_bound([bare])
    return replace(bare, description="x" * missing)


READ = tool("Read", "Reads a file.")
FIND = tool("mcp__docs__find", "Looks for pages.")
OPEN = tool("mcp__docs__open_page", "Shows one page.")
SEND = tool("mcp__mail__send", "Sends a letter, a page or more.")
ALL = (READ, FIND, OPEN, SEND)
BACK = (FIND.name, OPEN.name, SEND.name)


def searching(*loaded: str, deferred: tuple[str, ...] = BACK) -> State:
    """A run that keeps tools back, and in which these were loaded one after the other."""
    state = Log().state
    assert state.preflight is not None
    state = replace(state, preflight=replace(state.preflight, deferred=deferred))
    journal = MemoryJournal()
    facts = [ToolSearchActivated(strategy="select", tool_names=(name,)) for name in loaded]
    return fold((journal.append(fact) for fact in facts), state)


@pytest.mark.parametrize(
    ("setting", "exempt", "names"),
    [
        ("on", (), BACK),
        ("on", ("docs",), (SEND.name,)),
        ("on", ("doc", "docs__find"), BACK),
        ("on", ("docs", "mail"), ()),
        ("off", (), ()),
        ("auto", (), ()),
        ("auto:0", (), BACK),
        ("auto:0", ("mail",), (FIND.name, OPEN.name)),
        ("auto:0", ("docs", "mail"), ()),
    ],
)
def test_only_tools_of_servers_are_kept_back(
    setting: str, exempt: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """Built-in ones never, nor those of a server that is exempt; in the order they come in."""
    assert kept_back(setting, ALL, exempt, 200_000) == names


@pytest.mark.parametrize(
    ("setting", "tokens", "window"),
    [
        ("auto", 100, 1_000),
        ("auto:5", 100, 2_000),
        ("auto:25", 100, 400),
        ("auto", USUAL_WINDOW // 10, None),
    ],
)
def test_auto_keeps_back_what_is_above_its_share_of_the_window(
    setting: str, tokens: int, window: int | None
) -> None:
    """Exactly the share is still shown, one byte more is not; other tools do not count."""
    heavy = replace(READ, description="x" * 1_000_000)
    just = weighing(tokens)
    more = replace(just, description=f"{just.description}x")
    assert kept_back(setting, (heavy, just), (), window) == ()
    assert kept_back(setting, (heavy, more), (), window) == (more.name,)


@pytest.mark.parametrize(
    ("loaded", "names"),
    [
        ((), ("Read",)),
        ((SEND.name, FIND.name), ("Read", SEND.name, FIND.name)),
        ((SEND.name, FIND.name, SEND.name), ("Read", SEND.name, FIND.name)),
        (("mcp__docs__gone", OPEN.name), ("Read", OPEN.name)),
    ],
)
def test_what_is_loaded_stands_last_in_the_order_it_was_loaded(
    loaded: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """Once each; what is not offered any more is left out."""
    by_name = {one.name: one for one in ALL}
    assert shown(searching(*loaded), ALL) == tuple(by_name[name] for name in names)


def test_a_tool_that_is_not_kept_back_keeps_its_place() -> None:
    """Between others, also when a search names it."""
    state = searching(FIND.name, deferred=(OPEN.name,))
    assert shown(state, ALL) == (READ, FIND, SEND)


def test_a_run_that_keeps_nothing_back_shows_what_is_offered() -> None:
    """The very same, also before anything is known of the run."""
    for state in (State(), Log().state):
        assert shown(state, ALL) is ALL
        assert not is_kept_back(state, FIND.name)


def test_a_tool_is_kept_back_until_it_is_loaded() -> None:
    """Each by itself."""
    state = searching(FIND.name)
    assert {one.name: is_kept_back(state, one.name) for one in ALL} == {
        "Read": False,
        FIND.name: False,
        OPEN.name: True,
        SEND.name: True,
    }


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (f"select:{SEND.name}, {FIND.name},{SEND.name}", (SEND.name, FIND.name)),
        ("select:mcp__docs__nothing,Read ", ("Read",)),
        ("select:", ()),
        ("find", (FIND.name,)),
        ("FIND", (FIND.name,)),
        (SEND.name, (SEND.name,)),
        ("page", (OPEN.name, FIND.name, SEND.name)),
        ("docs", (FIND.name, OPEN.name)),
        ("pen letter", (OPEN.name, SEND.name)),
        ("page +letter", (SEND.name,)),
        ("+docs +page shows", (OPEN.name, FIND.name)),
        ("+nothing page", ()),
        ("nothing", ()),
        ("", ()),
    ],
)
def test_a_search_names_tools_or_looks_for_words(query: str, names: tuple[str, ...]) -> None:
    """The best first: a part of the name, then letters in it, then the description; then by name.
    A word with `+` has to be there."""
    assert found(query, ALL) == names


@pytest.mark.parametrize("query", ["page", f"select:{','.join(f'page_{n}' for n in range(9))}"])
def test_a_search_finds_no_more_than_it_loads(query: str) -> None:
    """The first ones, whatever it asks for."""
    many = [tool(f"page_{n}") for n in range(9)]
    assert found(query, many) == tuple(f"page_{n}" for n in range(MOST_LOADED))
    assert found(query, many, 2) == ("page_0", "page_1")


def test_loading_adds_each_tool_once() -> None:
    """What was loaded before stays in front."""
    before = Thread(loaded=("b",))
    assert load_tools(before, ("a", "b", "c")) == Thread(loaded=("b", "a", "c"))


def test_the_log_remembers_what_was_loaded_and_forgets_what_a_request_weighed() -> None:
    """The next request has more in it than the measured one; nothing else changes."""
    log = Log().reply(reply("", call("ToolSearch")))
    before = log.state.main
    assert before.measured_tokens == 100
    log.add(ToolSearchActivated(strategy="select", tool_names=(FIND.name,)))
    assert log.state.main == replace(
        before, loaded=(FIND.name,), measured_tokens=None, measured_messages=0, measured_weight=0
    )


def test_what_was_loaded_stays_when_the_session_goes_on() -> None:
    """A resume carries the list over."""
    state = searching(SEND.name, FIND.name)
    resumed = SessionResume(
        session_id="session-1",
        resume_time="2026-01-02T03:04:05.000Z",
        event_count=6,
        selected_model="fake/model",
        carries=True,
        note="Go on.",
    )
    state = apply(state, MemoryJournal().append(resumed))
    assert state.main.loaded == (SEND.name, FIND.name)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ("Read", "Bash", FIND.name, SEND.name)),
        ({"tools": ("Read",)}, ("Read", FIND.name, SEND.name)),
        ({"tools": ()}, (FIND.name, SEND.name)),
        ({"disallowed_tools": (FIND.name,)}, ("Read", "Bash", SEND.name)),
        ({"tools": ("Bash",), "disallowed_tools": ("mcp__docs",)}, ("Bash", SEND.name)),
    ],
)
def test_tools_of_servers_are_offered_beside_the_wanted_built_in_ones(
    changes: dict[str, object], names: tuple[str, ...]
) -> None:
    """`tools` is about built-in tools only; a bare denial removes those of servers too."""
    everything = ("Read", "Bash", FIND.name, SEND.name)
    assert offered(task(**changes), everything) == names
