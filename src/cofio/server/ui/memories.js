/**
 * Memories page: a virtual list of all memories or of search hits, and the open memory.
 *
 * The address holds the state: #/42 for an open memory; #/42?q=deploy&kind=policy within search hits.
 */

import { post } from "./api.js";
import { truncate, button, formatCount, fill, find, make, debounce } from "./dom.js";
import { caller, showError, doing, enter, notify, trouble, undoing } from "./app-shell.js";
import { listing } from "./virtual-list.js";
import { hits, newest } from "./list-source.js";
import { listen } from "./events.js";
import { pane } from "./memory-detail.js";
import { drawEpisodes } from "./episodes.js";
import { episodeScope, fromAddress, narrowing, scope } from "./memory-filters.js";
import { add, addTag, afterwards, dropDrafts, setCategory } from "./memory-forms.js";
import { cells, says } from "./memory-row.js";

const HITS = 100; // hits requested
const LEAST = 0.05; // minimum score shown
const TICKED = 1_000; // maximum number of memories changed at once
const ROW = 5.6; // row height in rem
const HIT = 7.1;
const MOVED = 400; // milliseconds between two checks for changes

const view = { id: 0, text: "", filters: fromAddress(new URLSearchParams()) };
let list = null;
let detail = null;
let narrow = null;
let source = null; // the listed source
let isWeak = false; // whether no hit of the last search matches well
let isFailed = false; // whether the last refresh failed
let ticked = [];
let latest = 0; // the last requested list: replies for earlier ones are dropped
let stop = () => {}; // stops listening

const callbacks = { open: (id) => go(id), close, refresh, focus: () => list.focus() };

enter({ show, empty });

async function show() {
  stop();
  const row = { draw: (item) => cells(item, caller.mayWrite), says: (item) => says(item, caller.mayWrite) };
  const listCallbacks = { open: opened, leave: close, ticked: drawTicked, failed: showError, most: TICKED };
  list ??= listing(find("list"), { ...row, ...listCallbacks });
  list.several(caller.mayWrite);
  fill(find("keys"), keys());
  detail = pane(find("detail"), callbacks);
  read();
  narrow = narrowing(find("narrow"), view, narrowed);
  fill(find("acts"), caller.mayWrite ? button("Add a memory", adding, "primary") : null);
  window.onhashchange = arrive;
  find("detail").onkeydown = (event) => { // returning false would block all other keys
    if (event.key === "Escape" && !event.defaultPrevented) close();
  };
  stop = listen((changed) => changed.has("memories") && look());
  showOpen();
  await relist();
}

function empty() {
  latest++;
  stop();
  [source, isFailed] = [null, false];
  dropDrafts();
  list?.show(hits([]), ROW);
  detail?.empty();
  for (const name of ["narrow", "acts", "count", "bulk", "news", "nothing", "status", "episodes"]) fill(find(name));
}

const keys = () => (caller.mayWrite
  ? "Arrows move, Enter opens, Space ticks, Shift with an arrow ticks several." : "Arrows move, Enter opens.");

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the address of a memory in the current list. */
function address(id) {
  const set = Object.entries({ q: view.text.trim(), ...view.filters }).filter(([, value]) => value);
  const query = new URLSearchParams(set).toString();
  return `#/${id || ""}${query ? `?${query}` : ""}`;
}

function go(id) {
  if (location.hash === address(id)) return arrive();
  location.hash = address(id);
}

/** Apply the address; return whether the list changes. */
function read() {
  const [route, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  const before = address(0);
  const id = Number(route);
  Object.assign(view, { id: Number.isSafeInteger(id) && id > 0 ? id : 0, text: parameters.get("q") ?? "",
    filters: fromAddress(parameters) });
  return address(0) !== before;
}

async function arrive() {
  const before = view.id;
  const isOther = read();
  narrow.draw();
  if (view.id !== before || !view.id) showOpen(before !== 0);
  if (isOther) await relist();
}

/** Write the filters to the address, without a history entry per letter. */
async function narrowed() {
  history.replaceState(null, "", address(view.id));
  await relist();
}

// ── the memory that is open ────────────────────────────────────────────────────────────────────────────────────────

const isNarrow = () => matchMedia("(max-width: 61.99rem)").matches;

function opened(item) {
  go(item.id);
}

function close() {
  if (view.id) go(0);
}

function showOpen(wasOpen = false) {
  find("panes").classList.toggle("reading", view.id > 0);
  document.body.classList.toggle("reading", view.id > 0);
  list.mark(view.id);
  if (!view.id) {
    detail.empty(placeholder());
    if (wasOpen) list.focus();
    return;
  }
  detail.show(view.id, loadedMemory(view.id));
  fill(find("status"), `Memory ${view.id} is open.`);
  if (isNarrow()) (find("detail").querySelector("h2") ?? find("detail").querySelector("button"))?.focus();
}

/** Return what the list holds of a memory. */
function loadedMemory(id) {
  for (let place = 0; source && place < source.total; place++) {
    const item = source.at(place);
    if (item?.id === id) return item;
    if (!item && place > HITS * 100) break;
  }
  return null;
}

function placeholder() {
  const key = (name) => make("kbd", {}, name);
  return make("div", { class: "placeholder" },
    make("p", { class: "lead" }, "Open a memory to read it whole"),
    make("p", {}, "Its origin, earlier versions and every change are shown here."),
    make("p", { class: "dim" }, key("↑"), key("↓"), " move, ", key("Enter"), " opens",
      caller.mayWrite ? [", ", key("Space"), " ticks, ", key("Shift"), " ticks several"] : null));
}

// ── the list ───────────────────────────────────────────────────────────────────────────────────────────────────────

const rem = () => Number.parseFloat(getComputedStyle(document.documentElement).fontSize);

/** Show the current list from its beginning. */
async function relist() {
  const request = ++latest;
  const words = view.filters.episodes ? view.text.trim() : "";
  drawEpisodes(find("episodes"), words, episodeScope(view.filters), () => request === latest);
  find("list").setAttribute("aria-busy", "true");
  try {
    const results = await fetchList();
    if (request !== latest) return;
    [source, isFailed] = [results, false];
    find("list").hidden = source.total === 0;
    fill(find("news"));
    list.show(source, (view.text.trim() ? HIT : ROW) * rem());
    list.mark(view.id);
    detail.explain(loadedMemory(view.id));
    drawCount();
  } catch (error) {
    if (request !== latest) return;
    [source, isFailed] = [null, true];
    find("list").hidden = true;
    fill(find("count"));
    fill(find("nothing"), trouble(error));
  } finally {
    if (request === latest) find("list").removeAttribute("aria-busy");
  }
}

/** Return the list source for the address. */
async function fetchList() {
  const query = view.text.trim();
  if (!query) return newest(scope(view.filters, true), { arrived, failed: showError });
  const body = { query, k: HITS, min_score: LEAST, explain: true, log: false, ...scope(view.filters, false) };
  const { results, poor_match: badly } = await post("search", body);
  isWeak = badly;
  narrow.seen(results);
  return hits(results);
}

function arrived(memories) {
  narrow.seen(memories);
  if (source) drawCount();
  list.redraw();
}

function drawCount() {
  const isSearch = view.text.trim() !== "";
  const isNarrowed = Object.values(view.filters).some(Boolean);
  const most = isSearch && source.total === HITS ? "The best " : "";
  const badly = isSearch && isWeak ? "No good match:  " : "";
  const text = isSearch ? `${badly}${most}${formatCount(source.total, "hit", "hits")}, best first`
    : `${formatCount(source.total, "memory", "memories")}, newest first`;
  if (find("count").textContent !== text) fill(find("count"), text);
  find("list").hidden = source.total === 0;
  fill(find("nothing"), source.total ? null : emptyState(isSearch, isNarrowed));
}

/** Show what to do when the list is empty. */
function emptyState(isSearch, isNarrowed) {
  if (isSearch || isNarrowed) {
    const clear = () => {
      Object.assign(view, { text: "", filters: fromAddress(new URLSearchParams()) });
      narrow.draw();
      narrowed();
      narrow.focus();
    };
    return make("div", { class: "empty" },
      make("p", {}, isSearch ? "No memory matches." : "No memory matches the filters."),
      button("Show all", clear));
  }
  if (!caller.mayAll) {
    return make("div", { class: "empty" }, make("p", { class: "lead" }, "Nothing is remembered yet for this key"),
      make("p", {}, "It sees its holder's own memories, their team's, and global ones."),
      caller.mayWrite ? button("Add a memory", adding, "primary") : null);
  }
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "Nothing is remembered yet"),
    make("p", {}, "Memories that your agents learn appear here at once. Or add one yourself."),
    caller.mayWrite ? button("Add a memory", adding, "primary") : null,
    make("p", { class: "dim" }, "Or on the command line: ", make("code", {}, 'cofio add "We deploy on Fridays"')));
}

// ── what moves meanwhile ───────────────────────────────────────────────────────────────────────────────────────────

const look = debounce(() => follow().catch(showError), MOVED);

/** Refresh after changes, without moving what the user looks at. */
async function follow() {
  if (isFailed) return Promise.all([relist(), detail.refresh()]);
  if (!source) return; // it is listed soon, or the page was left
  await Promise.all([isSearching() ? compare() : reload(list.isAtTop()), detail.refresh()]);
}

const isSearching = () => view.text.trim() !== "";

/** Refresh the listed memories; add new ones if `isTop`, else show a notice about them. */
async function reload(isTop) {
  const request = latest;
  let fresh = 0;
  await list.keep(async () => {
    if (request === latest && source?.reload) fresh = await source.reload(!isTop);
  });
  if (request !== latest) return;
  list.mark(view.id);
  drawCount();
  const show = () => {
    list.focus();
    relist();
  };
  const word = `${fresh < HITS ? "" : "More than "}${formatCount(fresh, "new memory", "new memories")}: show`;
  fill(find("news"), fresh ? button(word, show, "pill") : null);
}

/** Repeat the search; update the rows if the hits are the same, else show a notice. */
async function compare() {
  const request = latest;
  const results = await fetchList();
  if (request !== latest) return;
  const ids = (list) => Array.from({ length: list.total }, (_, place) => list.at(place)?.id).join();
  const isSame = ids(results) === ids(source);
  if (isSame) await list.keep(() => (source = results));
  fill(find("news"), isSame ? null : button("Memories have changed: search again", relist, "pill"));
}

/** Reload everything after a change made here, keeping the position. */
async function refresh() {
  if (isFailed) return Promise.all([relist(), detail.refresh()]);
  const request = latest;
  const results = isSearching() ? await fetchList() : null;
  if (request !== latest) return;
  if (results) {
    await list.keep(() => (source = results));
    list.mark(view.id);
    drawCount();
  } else {
    await reload(true);
  }
  await detail.refresh();
}

// ── several at once ────────────────────────────────────────────────────────────────────────────────────────────────

function drawTicked(items) {
  ticked = items;
  const bulk = find("bulk");
  bulk.hidden = items.length === 0;
  find("count").classList.toggle("sr", items.length > 0);
  if (!items.length) return fill(bulk);
  const act = (text, task) => button(text, doing(task));
  const tags = [...new Set(items.flatMap((item) => item.tags))];
  const focused = bulk.contains(document.activeElement) ? document.activeElement.textContent : "";
  fill(bulk, make("strong", {}, `${items.length.toLocaleString("en")} ticked`),
    items.some((item) => !item.archived_at) ? act("Archive", () => change("archive", {})) : null,
    items.some((item) => item.archived_at) ? act("Restore", () => change("restore", {})) : null,
    items.some((item) => !item.pinned) ? act("Pin", () => change("pin", {})) : null,
    items.some((item) => item.pinned) ? act("Unpin", () => change("unpin", {})) : null,
    act("Category …", () => setCategory(items, change)), act("Tag …", () => addTag(items, tags, change)),
    button("Clear", untick, "link"));
  [...bulk.querySelectorAll("button")].find((element) => element.textContent === focused)?.focus();
  fill(find("status"), `${items.length} ticked`);
}

function untick() {
  list.clear();
  list.focus();
}

const CHANGED = { archive: "Archived", restore: "Restored", pin: "Pinned", unpin: "Unpinned", edit: "Changed",
  tag: "Tagged" };

async function change(action, options) {
  const changeset = await post("memories/bulk", { ids: ticked.map((memory) => memory.id), action, ...options });
  list.clear();
  await refresh();
  afterwards(list.focus);
  notify(
    `${CHANGED[action]}: ${formatCount(changeset.changes.length, "memory", "memories")}.`,
    undoing(changeset.id, callbacks),
  );
}

// ── adding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function adding() {
  const { project, tags } = view.filters;
  add({ project, tags }, async ({ id, action, changeset, memory }) => {
    await refresh();
    go(id);
    const text = truncate(memory.text, 90);
    if (action === "noop") notify(`Already known: ${text}`, undoing(changeset, callbacks));
    else notify(`Added: ${text}`, undoing(changeset, callbacks));
  });
}
