/**
 * Inbox page: captures, their state, and what was learned from them.
 *
 * The address holds the state: #/parked, #/12 for an open capture, #/try for a conversation to paste.
 */

import { get, path, post } from "./api.js";
import { STATES, capture } from "./captures.js";
import { button, fill, find, make, menu, plainNumber, debounce } from "./dom.js";
import { caller, showError, doing, enter, notify, trouble } from "./app-shell.js";
import { listen } from "./events.js";
import { trying } from "./ingest-preview.js";

const PAGE = 50; // captures per request
const MOST = 1_000; // maximum number per request
const WHAT = "Captured conversations and what was learned from them. Nothing is lost.";
const TRYING = "Paste a conversation, and see what would be learned from it before any of it is stored.";
const TABS = { all: { many: "All", says: "All captures, newest first." }, ...STATES };

const view = { tab: "all", item: 0, trying: false };
let lines = []; // captures shown
let following = null; // start of the next page
let latest = 0; // the last requested list: replies for earlier ones are dropped
let leave = () => {}; // stops listening

const callbacks = {
  toggle: (id) => (location.hash = view.item === id ? `#/${view.tab}` : `#/${id}`),
  refresh,
  again: async () => {
    lines.find((line) => line.item.id === view.item)?.shut();
    await refresh();
  },
};

enter({ show, empty });

async function show() {
  leave();
  if (!caller.mayWrite) return fill(find("captures"), notForYou());
  fill(find("acts"), make("a", { class: "button primary", href: "#/try" }, "Try a conversation"));
  fill(find("trying"), trying(refresh));
  window.onhashchange = arrive;
  const onChange = debounce(refresh, 150);
  leave = listen((changed) => changed.has("inbox") && onChange());
  read();
  await draw();
}

function empty() {
  latest++;
  leave();
  [lines, following] = [[], null];
  for (const name of ["states", "captures", "trying", "acts", "status"]) fill(find(name));
}

function notForYou() {
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "The inbox is for keys that may write"),
    make("p", {}, "It shows conversations word for word. Your key may only read memories."),
    make("p", { class: "dim" }, "An admin makes another: ", make("code", {}, "cofio keys create NAME --role write")));
}

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Apply the address; unknown parts are ignored. */
function read() {
  const [, name = ""] = location.hash.split("/");
  view.trying = name === "try";
  view.item = /^[0-9]{1,15}$/.test(name) ? Number(name) : 0;
  if (Object.hasOwn(TABS, name || "all")) view.tab = name || "all";
}

async function arrive() {
  const before = view.tab;
  read();
  if (view.tab === before && lines.length && !view.trying) {
    place();
    return unfold();
  }
  await draw();
}

function place() {
  find("acts").hidden = view.trying;
  fill(find("what"), view.trying ? TRYING : WHAT);
  find("captures").hidden = view.trying;
  find("trying").hidden = !view.trying;
  for (const child of find("states").children) {
    if (!view.trying && child.getAttribute("href") === `#/${view.tab}`) child.setAttribute("aria-current", "page");
    else child.removeAttribute("aria-current");
  }
}

async function draw() {
  const other = find("captures").dataset.tab !== view.tab;
  if (other) {
    lines = [];
    fill(find("captures"), make("p", { class: "calm" }, "Looking …"));
    find("captures").dataset.tab = view.tab;
  }
  place();
  if (view.trying) find("trying").querySelector("textarea")?.focus();
  await refresh();
}

// ── the tabs ───────────────────────────────────────────────────────────────────────────────────────────────────────

async function refreshTabs(request) {
  const status = caller.mayAll ? await get("inbox/status").catch(() => null) : null;
  if (request !== latest) return;
  const counts = status && { ...status, all: status.captured, pending: status.pending - status.parked };
  const count = (name) => (counts ? make("span", { class: "count" }, plainNumber(counts[name])) : null);
  menu(find("states"), Object.entries(TABS).map(([name, { many }]) => [`#/${name}`, false, many, count(name)]));
  place();
}

// ── the list ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Reload the shown captures. Unchanged ones stay in place, open or not. */
async function refresh() {
  const request = ++latest;
  const tabs = refreshTabs(request);
  try {
    const { items, next } = await page({ limit: Math.min(Math.max(PAGE, lines.length), MOST) });
    if (request !== latest) return;
    const further = lines.filter((line) => items.length && line.item.id < items.at(-1).id);
    if (further.length && next) lines = [...reuseLines(items), ...further]; // over the limit of one request
    else [lines, following] = [reuseLines(items), next];
    arrange();
    await Promise.all([tabs, unfold()]);
  } catch (error) {
    if (request === latest) fill(find("captures"), trouble(error));
  }
}

const page = ({ limit, after = "" }) => get("inbox", { state: view.tab === "all" ? "" : view.tab, limit, after });

function reuseLines(items) {
  const lineById = new Map(lines.map((line) => [line.item.id, line]));
  return items.map((item) => {
    const line = lineById.get(item.id);
    return line && JSON.stringify(line.item) === JSON.stringify(item) ? line : capture(item, callbacks);
  });
}

/** Insert rows without touching existing ones, so that reading and typing are not interrupted. */
function arrange() {
  const focused = document.activeElement?.closest("#captures .row")?.dataset.id;
  const list = find("captures").querySelector(".rows") ?? make("ul", { class: "rows" });
  for (const child of [...list.children]) if (!lines.includes(child)) child.remove();
  lines.forEach((line, at) => {
    if (list.children[at] !== line) list.insertBefore(line, list.children[at] ?? null);
  });
  if (!list.parentNode) {
    fill(find("captures"), make("p", { class: "dim state" }), list, make("div", { class: "after" }));
  }
  fill(find("captures").querySelector(".state"), TABS[view.tab].says);
  fill(find("captures").querySelector(".after"), ...after());
  fill(find("status"), lines.length === 1 ? "1 capture" : `${lines.length}${following ? " of more" : ""} captures`);
  if (focused && !document.activeElement.closest(".row")) {
    lines.find((line) => line.dataset.id === focused)?.querySelector(".head").focus();
  }
}

/** Draw the footer: a button for more, and actions on all. */
function after() {
  if (!lines.length) return [emptyState()];
  const more = doing(async () => {
    const request = latest;
    const { items, next } = await page({ limit: PAGE, after: following });
    if (request !== latest) return;
    const added = reuseLines(items);
    [lines, following] = [[...lines.filter((line) => !added.includes(line)), ...added], next];
    arrange();
    added[0]?.querySelector(".head").focus();
  });
  const again = ["parked", "rejected"].includes(view.tab) ? lines.filter(isRetryable).length : 0;
  const word = again === 1 ? "Retry it" : `Retry all ${again} shown`;
  return [
    following ? button("Show more", more, "further") : null,
    again ? button(word, doing(retryAll), "further") : null,
  ];
}

const isRetryable = ({ item }) => item.exchange && item.exchange.context !== "candidate";

async function retryAll() {
  const ids = lines.filter(isRetryable).map((line) => line.item.id);
  const refused = [];
  for (const id of ids) {
    await post(path("inbox", String(id), "retry"), null).catch((error) => refused.push(error));
  }
  await refresh();
  if (refused.length) return showError(refused[0]);
  notify(ids.length === 1 ? "It is queued again." : `${ids.length} captures are queued again.`);
}

function emptyState() {
  if (view.tab === "all") {
    return make("div", { class: "empty" },
      make("p", { class: "lead" }, "No captures yet"),
      make("p", {}, "Agents send conversations through their hooks, and facts worth keeping become memories."),
      make("a", { class: "button", href: "#/try" }, "Try a conversation"),
      make("p", { class: "dim" }, "To connect your agents: ", make("code", {}, "cofio install")));
  }
  const word = TABS[view.tab].many.toLowerCase();
  return make("div", { class: "empty" }, make("p", {}, `Nothing is ${word}.`));
}

// ── the one that is opened ─────────────────────────────────────────────────────────────────────────────────────────

async function unfold() {
  for (const line of lines) if (line.item.id !== view.item) line.shut();
  if (!view.item) return;
  const line = lines.find((line) => line.item.id === view.item) ?? await fetched();
  await line?.open();
}

/** Return the capture named in the address, shown above the list if the list does not contain it. */
async function fetched() {
  const [id, request] = [view.item, latest];
  const isLate = () => view.item !== id || request !== latest;
  try {
    const line = capture(await get(path("inbox", String(id))), callbacks);
    if (isLate()) return null;
    lines = [line, ...lines];
    arrange();
    return line;
  } catch (error) {
    if (isLate()) return null;
    showError(error);
    history.replaceState(null, "", `#/${view.tab}`);
    view.item = 0;
    return null;
  }
}
