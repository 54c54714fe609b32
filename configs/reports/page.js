"use strict";
(() => {
  const one = (id) => document.getElementById(id);
  const items = [...document.querySelectorAll("main > details")];
  const turns = items.filter((item) => item.classList.contains("turn"));
  const texts = new Map();
  const textOf = (item) => {
    if (!texts.has(item)) texts.set(item, item.textContent.toLowerCase());
    return texts.get(item);
  };

  // -- theme: the reader's choice beats the system's
  const root = document.documentElement;
  const remembered = () => {
    try { return localStorage.getItem("theme"); } catch { return null; }
  };
  const setTheme = (name) => {
    root.dataset.theme = name;
    try { localStorage.setItem("theme", name); } catch { /* a file may have no storage */ }
  };
  if (remembered()) root.dataset.theme = remembered();
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const flipTheme = () => setTheme(isDark() ? "light" : "dark");

  // -- filters
  const search = one("search"), tool = one("tool"), found = one("found");
  const buttons = [...document.querySelectorAll("#filters button")];
  let show = "";
  const fits = (item, words) => {
    const marks = item.dataset.marks.split(" ");
    if (show && !marks.includes(show)) return false;
    if (tool.value && ![...item.querySelectorAll(".call")].some((c) => c.dataset.tool === tool.value)) return false;
    return words.every((word) => textOf(item).includes(word));
  };
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of items) {
      const fit = fits(item, words);
      item.hidden = !fit;
      if (fit && item.classList.contains("turn")) shown += 1;
    }
    const all = shown === turns.length;
    const noun = turns.length === 1 ? "turn" : "turns";
    found.textContent = all ? `${turns.length} ${noun}` : `${shown} of ${turns.length} ${noun}`;
  };
  const setShow = (name) => {
    show = name;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.show === name));
    apply();
  };
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 120); });
  tool.addEventListener("change", apply);
  for (const button of buttons) button.addEventListener("click", () => setShow(button.dataset.show));
  const clear = () => { search.value = ""; tool.value = ""; setShow(""); };

  // -- moving about
  const openAll = (open) => { for (const item of items) if (!item.hidden) item.open = open; };
  const here = () => document.activeElement && document.activeElement.closest("main > details");
  const goTo = (item) => {
    if (!item) return;
    const summary = item.querySelector("summary");
    summary.focus({ preventScroll: true });
    summary.scrollIntoView({ block: "nearest" });
  };
  const step = (by, wanted = () => true) => {
    const visible = items.filter((item) => !item.hidden);
    let at = visible.indexOf(here());
    if (at < 0) at = by > 0 ? -1 : visible.length;
    for (at += by; at >= 0 && at < visible.length; at += by) {
      if (wanted(visible[at])) return goTo(visible[at]);
    }
  };
  const isTurn = (item) => item.classList.contains("turn");
  const wentWrong = (item) => isTurn(item) && /failed|denied|stopped|not-run|open/.test(item.dataset.marks);
  const flip = () => { const item = here(); if (item) item.open = !item.open; };

  // -- plots: the turn under the pointer
  const tip = one("tip");
  const figures = [...document.querySelectorAll("figure")];
  const startsOf = new Map(figures.map((f) => [f, f.dataset.starts.split(",").map(Number)]));
  const turnAt = (figure, event) => {
    const box = figure.querySelector("svg").getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * 1000;
    const starts = startsOf.get(figure);
    let low = 0, high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= x) low = middle; else high = middle - 1;
    }
    return low;
  };
  const point = (number) => {
    for (const figure of figures) {
      const x = startsOf.get(figure)[number] ?? -9;
      const line = figure.querySelector(".cursor");
      line.setAttribute("x1", x); line.setAttribute("x2", x);
    }
  };
  for (const figure of figures) {
    const svg = figure.querySelector("svg");
    svg.addEventListener("pointermove", (event) => {
      const number = turnAt(figure, event);
      point(number);
      tip.textContent = turns[number].dataset.tip;
      tip.hidden = false;
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = `${left}px`;
      tip.style.top = `${event.clientY + 16}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; point(-1); });
    svg.addEventListener("click", (event) => {
      const turn = turns[turnAt(figure, event)];
      if (turn.hidden) clear();
      turn.open = true;
      goTo(turn);
    });
  }

  // -- keys
  const help = one("help");
  const keys = {
    j: () => step(1), k: () => step(-1),
    n: () => step(1, wentWrong), p: () => step(-1, wentWrong),
    o: flip,
    g: () => goTo(items.find((item) => !item.hidden)),
    G: () => goTo(items.filter((item) => !item.hidden).at(-1)),
    e: () => openAll(true), c: () => openAll(false),
    f: () => setShow(buttons[(buttons.findIndex((b) => b.dataset.show === show) + 1) % buttons.length].dataset.show),
    t: flipTheme,
    "/": () => search.focus(),
    "?": () => help.showModal(),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape") { clear(); if (typing) event.target.blur(); return; }
    if (typing || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });

  one("theme").addEventListener("click", flipTheme);
  one("keys").addEventListener("click", () => help.showModal());
  one("expand").addEventListener("click", () => openAll(true));
  one("collapse").addEventListener("click", () => openAll(false));
  for (const id of ["theme", "keys", "bar"]) one(id).hidden = false;
  const named = location.hash && one(location.hash.slice(1));
  if (named && items.includes(named)) { named.open = true; goTo(named); }
  apply();
})();
