/**
 * A list of any length: only the rows in sight are in the page. One stop for the tab key, as a listbox is; the arrows
 * go through it, and the focus stays where it is whatever is drawn anew.
 *
 * What it lists, a source tells: `total`, `at(place)`, `want(first, last)` and `range(first, last)`.
 */

import { fill, make, newId } from "./dom.js";

const AROUND = 6; // rows that are drawn above and below those in sight
const TALLEST = 15_000_000; // pixels: no browser draws much taller elements; what is longer scrolls faster
const NOTHING = { total: 0, at: () => null, want: () => {}, range: async () => [] };

/**
 * @param {HTMLElement} box the listbox
 * @param {object} told `draw(item, place)` gives what a row holds, `says(item)` a text that tells whether that is still
 *   the same; `open(item)` and `leave()` are done on behalf of whoever asks; `ticked(items)` hears what is ticked, of
 *   which there can be `most`; `failed(error)` hears of trouble
 */
export function listing(box, told) {
  const name = newId("row");
  const room = make("div", { class: "room", role: "presentation" });
  const drawn = new Map(); // rows, by their place
  const ticks = new Map(); // what is ticked, by its id
  let source = NOTHING;
  let tall = 80;
  let active = -1; // the row that the keys are at
  let from = -1; // where a range begins
  let current = 0; // the id of what is open
  let kept = 0; // how far it is scrolled
  let maySeveral = false;

  fill(box, room);
  box.addEventListener("scroll", () => {
    kept = box.scrollTop;
    redraw();
  });
  box.addEventListener("keydown", pressed);
  box.addEventListener("click", clicked);
  box.addEventListener("mousedown", (event) => event.shiftKey && event.preventDefault()); // it ticks, and marks no text
  box.addEventListener("focus", () => active < 0 && source.total && moveTo(inSight(), false));
  new ResizeObserver(() => {
    if (box.clientHeight && box.scrollTop !== kept) box.scrollTop = kept; // it was out of sight
    redraw();
  }).observe(box);

  // ── what is in sight ─────────────────────────────────────────────────────────────────────────────────────────────

  const height = () => Math.min(source.total * tall, TALLEST);
  const stretch = () => (source.total * tall <= TALLEST ? 1
    : (source.total * tall - box.clientHeight) / (TALLEST - box.clientHeight));
  const above = () => box.scrollTop * stretch(); // how much of the list is
  const inSight = () => Math.min(source.total - 1, Math.ceil(above() / tall));
  const perPage = () => Math.max(1, Math.floor(box.clientHeight / tall) - 1);

  /** Draw what has come into sight, and what says something else than it did. */
  function redraw() {
    if (!box.clientHeight) return;
    room.style.blockSize = `${height()}px`;
    const first = Math.max(0, Math.floor(above() / tall) - AROUND);
    const last = Math.min(source.total, Math.ceil((above() + box.clientHeight) / tall) + AROUND) - 1;
    for (const [place, row] of drawn) {
      if (place >= first && place <= last && row.says === said(place)) continue;
      row.remove();
      drawn.delete(place);
    }
    const shift = box.scrollTop - above();
    let next = null;
    for (let place = last; place >= first; place--) { // from below, so that they stand in their order
      const row = drawn.get(place) ?? room.insertBefore(made(place), next);
      row.style.transform = `translateY(${place * tall + shift}px)`;
      drawn.set(place, row);
      next = row;
    }
    point();
    source.want(first, last);
  }

  const said = (place) => `${source.total} ${told.says(source.at(place))}`;

  function made(place) {
    const item = source.at(place);
    const about = { role: "option", id: `${name}-${place}`, "aria-setsize": source.total, "aria-posinset": place + 1 };
    const row = make("div", { ...about, class: item ? "line" : "line blank" }, ...told.draw(item, place));
    row.dataset.place = place;
    row.says = said(place);
    mark(row, item, place);
    return row;
  }

  function mark(row, item, place) {
    const isOpen = item !== null && item.id === current;
    const isChosen = maySeveral ? ticks.has(item?.id) : isOpen;
    row.setAttribute("aria-selected", String(isChosen));
    row.classList.toggle("ticked", maySeveral && isChosen);
    row.classList.toggle("active", place === active);
    if (isOpen) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }

  function markAll() {
    for (const [place, row] of drawn) mark(row, source.at(place), place);
    point();
  }

  /** Say which row the keys are at, while it is in the page. */
  function point() {
    const row = drawn.get(active);
    if (row) box.setAttribute("aria-activedescendant", row.id);
    else box.removeAttribute("aria-activedescendant");
  }

  function scrollTo(top) {
    box.scrollTop = top / stretch();
    kept = box.scrollTop;
    redraw();
  }

  function reveal(place) {
    const [top, bottom] = [place * tall, (place + 1) * tall];
    if (top < above()) scrollTo(top);
    else if (bottom > above() + box.clientHeight) scrollTo(bottom - box.clientHeight);
  }

  // ── going through it ─────────────────────────────────────────────────────────────────────────────────────────────

  function moveTo(place, isSeen = true) {
    active = Math.max(0, Math.min(source.total - 1, place));
    if (isSeen) reveal(active);
    markAll();
  }

  const STEPS = { ArrowDown: () => 1, ArrowUp: () => -1, PageDown: perPage, PageUp: () => -perPage(),
    Home: () => -source.total, End: () => source.total };

  function pressed(event) {
    if (!source.total || event.altKey) return;
    const { key, shiftKey } = event;
    const isCommand = event.ctrlKey || event.metaKey;
    if (Object.hasOwn(STEPS, key)) walk(STEPS[key](), shiftKey && maySeveral);
    else if (key === "Enter" && source.at(active)) told.open(source.at(active));
    else if (key === " " && maySeveral) tickAt(active, shiftKey);
    else if (key === "a" && isCommand && maySeveral) tickRange(0, source.total - 1);
    else if (key === "Escape") (ticks.size ? clear : told.leave)();
    else return;
    event.preventDefault();
  }

  function walk(steps, isRange) {
    if (isRange && from < 0) from = Math.max(0, active);
    moveTo(active + steps);
    if (isRange) tickRange(from, active);
    else from = -1;
  }

  function clicked(event) {
    const place = Number(event.target.closest(".line")?.dataset.place ?? -1);
    const item = source.at(place);
    if (!item) return;
    moveTo(place, false);
    const isTick = event.target.closest(".tick") || event.ctrlKey || event.metaKey || event.shiftKey;
    if (maySeveral && isTick) tickAt(place, event.shiftKey);
    else told.open(item);
  }

  // ── ticking several ──────────────────────────────────────────────────────────────────────────────────────────────

  function tickAt(place, isRange) {
    const item = source.at(place);
    if (!item) return;
    if (isRange && from >= 0) return tickRange(from, place);
    from = place;
    if (!ticks.delete(item.id)) ticks.set(item.id, item);
    changed();
  }

  /** Tick all from one place to another, as many as may be. */
  async function tickRange(one, other) {
    const [first, last] = one < other ? [one, other] : [other, one];
    try {
      const items = await source.range(first, Math.min(last, first + told.most - 1));
      for (const each of items) if (ticks.size < told.most) ticks.set(each.id, each);
      changed();
    } catch (error) {
      told.failed(error);
    }
  }

  function clear() {
    ticks.clear();
    from = -1;
    changed();
  }

  function changed() {
    markAll();
    told.ticked([...ticks.values()]);
  }

  // ── what the page does with it ───────────────────────────────────────────────────────────────────────────────────

  return {
    clear,
    redraw,
    /** List something else, from its beginning. */
    show(other, rowHeight) {
      [source, tall, active, from] = [other, rowHeight, -1, -1];
      box.style.setProperty("--row", `${tall}px`);
      ticks.clear();
      box.scrollTop = kept = 0;
      redraw();
      told.ticked([]);
    },
    /** Let `change` replace what is listed; whatever is in sight stays where it is. */
    async keep(change) {
      const first = inSight();
      const [was, wasActive] = [source.at(first)?.id, source.at(active)?.id];
      source = (await change()) ?? source;
      const now = place(source, was, first);
      if (wasActive !== undefined) active = Math.min(source.total - 1, place(source, wasActive, active));
      redraw();
      markAll();
      if (now !== first) scrollTo(above() + (now - first) * tall);
    },
    /** Whether several may be ticked. */
    several(truth) {
      maySeveral = truth;
      if (truth) box.setAttribute("aria-multiselectable", "true");
      else box.removeAttribute("aria-multiselectable");
    },
    /** Show which one is open; 0 is none. */
    mark(id) {
      current = id;
      markAll();
    },
    toTop: () => scrollTo(0),
    isAtTop: () => above() < tall,
    focus: () => box.focus({ preventScroll: true }),
  };
}

const NEAR = 200; // places in which something that has moved is looked for

/** Where something is by now that was at a place; there, if it is nowhere near. */
function place(source, id, was) {
  for (let off = 0; off <= NEAR; off++) {
    for (const each of [was - off, was + off]) if (source.at(each)?.id === id && id !== undefined) return each;
  }
  return was;
}
