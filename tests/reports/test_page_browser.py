"""The page in a real browser: what it draws, what keys do, and that it loads nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Tab, browser_or_skip, open_tab
from tests.reports.runs import ended, hostile_digest, long_run, rendered

TURNS = 1000
MAX_PAGE_BYTES = 8_000_000

VISIBLE = "[...document.querySelectorAll('main > details:not([hidden])')]"
FOCUS = "document.activeElement.closest('main > details')?.id"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One tab for the file: a browser takes a second to start."""
    browser_or_skip()
    with open_tab(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def short(tab: Tab, tmp_path: Path) -> Tab:
    """The page of a run of four turns and a nudge."""
    page = tmp_path / "short.html"
    page.write_text(rendered("html", ended(), patch="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"))
    tab.troubles.clear()
    tab.requests.clear()
    tab.open(page)
    tab.value("localStorage.clear()")
    return tab


def test_the_page_works_under_its_own_policy_and_loads_nothing(short: Tab) -> None:
    """Style and script run, nothing is refused, and the page itself is the only request."""
    assert short.troubles == []
    assert len(short.requests) == 1
    assert short.value("getComputedStyle(document.querySelector('.facts')).display") == "grid"
    assert short.value("document.getElementById('bar').hidden") is False
    assert short.value("document.getElementById('found').textContent") == "4 turns"


def test_every_plot_is_drawn(short: Tab) -> None:
    """Timeline, cost, tokens and context have paths with an area on the screen."""
    boxes = (
        "[...document.querySelectorAll('figure')].map(f => [f.querySelector('b').textContent, "
        "Math.max(...[...f.querySelectorAll('path')].map(p => { const b = p.getBBox(); "
        "return b.width * b.height }))])"
    )
    drawn = dict(short.value(boxes))
    assert list(drawn) == ["timeline", "cost", "tokens per call", "context"]
    assert min(drawn.values()) > 1000


def test_a_point_of_a_plot_leads_to_its_turn(short: Tab) -> None:
    """A click on the middle of the cost plot opens the turn that is drawn there."""
    box = short.value(
        "(() => { const b = document.querySelector('.cost svg').getBoundingClientRect(); "
        "return [b.left, b.top, b.width, b.height] })()"
    )
    at = {"x": box[0] + box[2] * 0.6, "y": box[1] + box[3] / 2}
    short.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
    assert short.value("document.getElementById('tip').textContent").startswith("turn 3: $0.0053")
    for kind in ("mousePressed", "mouseReleased"):
        short.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
    assert short.value("document.getElementById('t3').open") is True
    assert short.value(FOCUS) == "t3"


def test_keys_move_open_filter_and_search(short: Tab) -> None:
    """Everything can be done from the keyboard."""
    short.press("j", "j")
    assert short.value(FOCUS) == "t1"
    short.press("o")
    assert short.value("document.getElementById('t1').open") is True
    short.press("n")
    assert short.value(FOCUS) == "t2"  # the next one with a call that was denied
    short.press("G", "k")
    assert short.value(FOCUS) == "t4"
    short.press("e")
    assert short.value(f"{VISIBLE}.every(item => item.open)") is True
    short.press("c")
    assert short.value(f"{VISIBLE}.some(item => item.open)") is False
    short.press("f", "f")
    assert short.value(f"{VISIBLE}.map(item => item.id)") == ["t2"]
    assert short.value("document.getElementById('found').textContent") == "1 of 4 turns"
    short.press("Escape", "/")
    assert short.value("document.activeElement.id") == "search"
    for letter in "import":
        short.press(letter)
    time.sleep(0.3)
    assert short.value(f"{VISIBLE}.map(item => item.id)") == ["t1"]
    short.press("Escape")
    assert short.value(f"{VISIBLE}.length") == 7
    short.press("?")
    assert short.value("document.getElementById('help').open") is True


def test_the_page_is_light_or_dark_as_the_reader_likes(short: Tab) -> None:
    """The system decides, the key `t` overrules it, and both are readable."""
    back = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    for scheme, colour, other in (("light", light, dark), ("dark", dark, light)):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        short.call("Emulation.setEmulatedMedia", features=features)
        short.value("delete document.documentElement.dataset.theme")
        assert short.value(back) == colour
        short.press("t")
        assert short.value(back) == other
        assert short.value(_CONTRAST) > 4.4
    short.value("localStorage.clear()")


_CONTRAST = """
(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map((n) => n / 255)
      .map((n) => n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = light(getComputedStyle(document.body).backgroundColor);
  const inks = ['body', '.dim', '.ending', '.note.nudge summary', '.denied'];
  return Math.min(...inks.map((name) => {
    const ink = light(getComputedStyle(document.querySelector(name)).color);
    return (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
  }));
})()
"""
"""The least contrast of what is written to what is behind it; people need 4.5 for small text."""


def test_hostile_text_runs_nothing(tab: Tab, tmp_path: Path) -> None:
    """Every field of the run holds an attack: none of them gets as far as the page's policy."""
    page = tmp_path / "hostile.html"
    page.write_text(rendered("html", hostile_digest()))
    tab.troubles.clear()
    tab.requests.clear()
    tab.open(page)
    tab.press("e")
    assert tab.value("document.title") == "tidy: error_task_blocked"
    assert (tab.troubles, len(tab.requests)) == ([], 1)
    assert tab.value("document.querySelectorAll('main img, main script, main style').length") == 0


def test_a_thousand_turns_stay_usable(tab: Tab, tmp_path: Path) -> None:
    """Made in seconds, of bounded size, and every key answers at once."""
    run = ended(events=long_run(TURNS))
    began = time.perf_counter()
    text = rendered("html", run)
    made_s = time.perf_counter() - began
    assert len(text.encode()) < MAX_PAGE_BYTES
    assert made_s < 20  # about 0.3 s; a machine may be busy
    page = tmp_path / "long.html"
    page.write_text(text)
    tab.troubles.clear()
    tab.open(page)
    assert tab.value(f"{VISIBLE}.length") == TURNS + 1
    tab.press("/")
    for letter in "module_777":
        tab.press(letter)
    time.sleep(0.5)
    assert tab.value(f"{VISIBLE}.map(item => item.id)") == ["t778"]
    tab.press("Escape", "G")
    assert tab.value(FOCUS) == f"t{TURNS}"
    assert tab.troubles == []


def test_the_page_fits_a_narrow_screen(short: Tab) -> None:
    """Nothing sticks out to the side."""
    short.call(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=800,
        deviceScaleFactor=1,
        mobile=False,
    )
    short.press("e")
    wide = short.value("document.documentElement.scrollWidth")
    short.call("Emulation.clearDeviceMetricsOverride")
    assert wide <= 390
