/**
 * Virtual list: only the rows in sight are in the page. It has one tab stop, as a listbox; the arrow keys move in it,
 * and the focus survives a redraw.
 *
 * Its source has `total`, `at(place)`, `want(first, last)` and `range(first, last)`.
 */

import { fill, make, newId } from "./dom.js";

const AROUND = 6; // rows drawn above and below those in sight
const TALLEST = 15_000_000; // pixels: browsers cannot draw much taller elements; longer lists scroll faster
const NOTHING = { total: 0, at: () => null, want: () => {}, range: async () => [] };

/**
 * @param {HTMLElement} box the listbox
 * @param {object} options `draw(item, place)` returns a row, `says(item)` a text to detect changes; `open(item)`
 *   and `leave()` are callbacks; `ticked(items)` gets the selected items, at most `most`; `failed(error)` gets errors
 */
export function listing(box, options) {
  const name = newId("row");
  const room = make("div", { class: "room", role: "presentation" });
  const rows = new Map(); // rows by their index
  const ticks = new Map(); // selected items by id
  let source = NOTHING;
  let tall = 80;
  let active = -1; // row of the keyboard cursor
  let from = -1; // start of a range selection
  let current = 0; // id of the open item
  let scrollPosition = 0; // scroll position
  let maySeveral = false;

  fill(box, room);
  box.addEventListener("scroll", () => {
    scrollPosition = box.scrollTop;
    redraw();
  });
  box.addEventListener("keydown", pressed);
  box.addEventListener("click", clicked);
  box.addEventListener("mousedown", (event) => event.shiftKey && event.preventDefault()); // selects rows, not text
  box.addEventListener("focus", () => active < 0 && source.total && moveTo(inSight(), false));
  new ResizeObserver(() => {
    if (box.clientHeight && box.scrollTop !== scrollPosition) box.scrollTop = scrollPosition; // it was out of sight
    redraw();
  }).observe(box);

  // ── what is in sight ─────────────────────────────────────────────────────────────────────────────────────────────

  const height = () => Math.min(source.total * tall, TALLEST);
  const stretch = () => (source.total * tall <= TALLEST ? 1
    : (source.total * tall - box.clientHeight) / (TALLEST - box.clientHeight));
  const above = () => box.scrollTop * stretch(); // scaling of the scroll position
  const inSight = () => Math.min(source.total - 1, Math.ceil(above() / tall));
  const perPage = () => Math.max(1, Math.floor(box.clientHeight / tall) - 1);

  /** Draw rows that came into sight or have changed. */
  function redraw() {
    if (!box.clientHeight) return;
    room.style.blockSize = `${height()}px`;
    const first = Math.max(0, Math.floor(above() / tall) - AROUND);
    const last = Math.min(source.total, Math.ceil((above() + box.clientHeight) / tall) + AROUND) - 1;
    for (const [place, row] of rows) {
      if (place >= first && place <= last && row.says === rowText(place)) continue;
      row.remove();
      rows.delete(place);
    }
    const shift = box.scrollTop - above();
    let next = null;
    for (let place = last; place >= first; place--) { // from below, so that they are in order
      const row = rows.get(place) ?? room.insertBefore(createRow(place), next);
      row.style.transform = `translateY(${place * tall + shift}px)`;
      rows.set(place, row);
      next = row;
    }
    point();
    source.want(first, last);
  }

  const rowText = (place) => `${source.total} ${options.says(source.at(place))}`;

  function createRow(place) {
    const item = source.at(place);
    const about = { role: "option", id: `${name}-${place}`, "aria-setsize": source.total, "aria-posinset": place + 1 };
    const row = make("div", { ...about, class: item ? "line" : "line blank" }, ...options.draw(item, place));
    row.dataset.place = place;
    row.says = rowText(place);
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
    for (const [place, row] of rows) mark(row, source.at(place), place);
    point();
  }

  /** Mark the row of the keyboard cursor, if it is in the page. */
  function point() {
    const row = rows.get(active);
    if (row) box.setAttribute("aria-activedescendant", row.id);
    else box.removeAttribute("aria-activedescendant");
  }

  function scrollTo(top) {
    box.scrollTop = top / stretch();
    scrollPosition = box.scrollTop;
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
    else if (key === "Enter" && source.at(active)) options.open(source.at(active));
    else if (key === " " && maySeveral) tickAt(active, shiftKey);
    else if (key === "a" && isCommand && maySeveral) tickRange(0, source.total - 1);
    else if (key === "Escape") (ticks.size ? clear : options.leave)();
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
    else options.open(item);
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

  /** Select a range, up to the limit. */
  async function tickRange(one, other) {
    const [first, last] = one < other ? [one, other] : [other, one];
    try {
      const items = await source.range(first, Math.min(last, first + options.most - 1));
      for (const item of items) if (ticks.size < options.most) ticks.set(item.id, item);
      changed();
    } catch (error) {
      options.failed(error);
    }
  }

  function clear() {
    ticks.clear();
    from = -1;
    changed();
  }

  function changed() {
    markAll();
    options.ticked([...ticks.values()]);
  }

  // ── what the page does with it ───────────────────────────────────────────────────────────────────────────────────

  return {
    clear,
    redraw,
    /** List another source, from its beginning. */
    show(other, rowHeight) {
      [source, tall, active, from] = [other, rowHeight, -1, -1];
      box.style.setProperty("--row", `${tall}px`);
      ticks.clear();
      box.scrollTop = scrollPosition = 0;
      redraw();
      options.ticked([]);
    },
    /** Let `change` replace the source; what is in sight stays in place. */
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
    /** Set whether several items may be selected. */
    several(truth) {
      maySeveral = truth;
      if (truth) box.setAttribute("aria-multiselectable", "true");
      else box.removeAttribute("aria-multiselectable");
    },
    /** Show which item is open; 0 for none. */
    mark(id) {
      current = id;
      markAll();
    },
    toTop: () => scrollTo(0),
    isAtTop: () => above() < tall,
    focus: () => box.focus({ preventScroll: true }),
  };
}

const NEAR = 200; // positions searched for a moved item

/** Return the current position of an item; the old one if it is not nearby. */
function place(source, id, was) {
  for (let off = 0; off <= NEAR; off++) {
    for (const index of [was - off, was + off]) if (source.at(index)?.id === id && id !== undefined) return index;
  }
  return was;
}
