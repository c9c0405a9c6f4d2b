/**
 * Domain knowledge page: tables, their rows, and evaluation. A client of the HTTP API.
 *
 * The address holds the state: #/thresholds, or #/thresholds/aapl.volume.above for an open row.
 */

import { decoded, get, path, post } from "./api.js";
import { fires, onNow, reads, seasonsOn } from "./knowledge-queries.js";
import { button, fill, find, make, menu, newId, plainNumber, debounce } from "./dom.js";
import { judge, keep } from "./forms.js";
import { caller, showError, doing, enter, notify, trouble, undoing } from "./app-shell.js";
import { item } from "./rows.js";
import { CLAIMS, TABLES, fold, mentions, says, shortened, sources } from "./knowledge-labels.js";

const PAGE = 200; // rows per request
const MANY = 1_000; // used when most rows are filtered out
const SHOWN = 100; // rows drawn at a time
const MOST = 20_000; // rows searched for a text

const view = { table: "thresholds", row: "", text: "", source: "", least: 0, shown: SHOWN };
let latest = 0; // the last requested list: replies for earlier ones are dropped
let on = []; // active seasonal patterns
let season = null; // their box

const callbacks = {
  toggle: (table, row) => go(table, view.row === row.id ? "" : row.id),
  keep: (table, row) => keep(table, row, saveRow),
  judge: (values) => judge(values, judged),
  leave: () => {
    history.replaceState(null, "", `#/${view.table}`);
    view.row = "";
  },
  refresh,
  focus: () => (find("rows").querySelector(".head") ?? find("main")).focus(),
};

enter({ show, empty });

async function show() {
  season = onNow();
  fill(find("asking"), fires(callbacks), season, reads(callbacks));
  window.onhashchange = arrive;
  read();
  drawTools();
  await refresh();
}

function empty() {
  latest++;
  Object.assign(view, { text: "", source: "", least: 0 });
  for (const name of ["acts", "asking", "rows", "tables", "status", "tools", "what"]) fill(find(name));
}

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

function go(table, row = "") {
  location.hash = row ? `#/${table}/${encodeURIComponent(row)}` : `#/${table}`;
}

/** Apply the address; unknown parts are ignored. */
function read() {
  const [, table, row = ""] = location.hash.split("/");
  if (!Object.hasOwn(TABLES, table ?? "")) return false;
  Object.assign(view, { table, row: decoded(row) });
  return true;
}

async function arrive() {
  const before = view.table;
  if (!read()) return;
  if (view.table === before) return unfold();
  view.shown = SHOWN;
  fill(find("rows")); // filters of the other table
  drawTools();
  await refresh();
}

// ── the tables, and what narrows them ──────────────────────────────────────────────────────────────────────────────

function drawTabs(counts) {
  find("tools").hidden = counts[view.table] === 0; // no filters
  const count = (name) => make("span", { class: "count" }, String(counts[name] ?? ""));
  menu(find("tables"), Object.entries(TABLES).map(([name, { many }]) =>
    [`#/${name}`, name === view.table, many, count(name)]));
}

function drawTools() {
  const isClaims = view.table !== "feedback";
  fill(find("what"), TABLES[view.table].what);
  const again = debounce(() => refreshRows());
  const narrow = (name, label, about) => {
    const id = newId(name);
    const input = make("input", { id, type: "search", autocomplete: "off", ...about });
    input.value = view[name];
    input.addEventListener("input", () => {
      view[name] = input.value;
      view.shown = SHOWN;
      again();
    });
    return make("div", { class: `field ${name}` }, make("label", { for: id }, label), input);
  };
  const judging = isClaims ? button("Judge an anomaly", () => judge({}, judged)) : null;
  fill(find("acts"), caller.mayWrite ? [judging, adding()] : null);
  fill(find("tools"), make("form", { class: "narrow", role: "search", onsubmit: (event) => event.preventDefault() },
    narrow("text", "Find", { placeholder: "Any words" }),
    isClaims ? narrow("source", "Source", { placeholder: "All" }) : null,
    isClaims ? leastConfidence(again) : null));
}

/** Return the button that adds to the table. */
function adding() {
  if (view.table === "feedback") return button("Judge an anomaly", () => judge({}, judged), "primary");
  return button(`Keep a ${TABLES[view.table].one}`, () => keep(view.table, null, saveRow), "primary");
}

function leastConfidence(again) {
  const id = newId("least");
  const number = make("output", { for: id }, view.least.toFixed(2));
  const input = make("input", { id, type: "range", min: 0, max: 1, step: 0.05 });
  input.value = view.least;
  input.addEventListener("input", () => {
    view.least = Number(input.value);
    view.shown = SHOWN;
    fill(number, view.least.toFixed(2));
    again();
  });
  return make("div", { class: "field least" }, make("label", { for: id }, "Least confidence "), number, input);
}

// ── the rows ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Reload everything: after a change, or for another table. */
async function refresh() {
  const request = ++latest;
  await Promise.all([refreshTabs(request), refreshSeasons()]);
  if (request === latest) await refreshRows();
}

async function refreshTabs(request) {
  try {
    const counts = await get("knowledge");
    if (request === latest) drawTabs(counts);
  } catch (error) {
    if (request !== latest) return;
    drawTabs({});
    showError(error);
  }
}

async function refreshSeasons() {
  try {
    on = await seasonsOn();
    season.draw(on);
  } catch (error) {
    season.fail(error);
  }
}

async function refreshRows() {
  const request = ++latest;
  try {
    const listing = await gathered();
    if (request === latest) await draw(listing);
  } catch (error) {
    if (request === latest) fill(find("rows"), trouble(error));
  }
}

/** Return the matching rows to show, whether there are more, and whether all were searched. */
async function gathered() {
  const { table, shown } = view;
  const limit = view.text || view.source ? MANY : PAGE;
  const min_confidence = table === "feedback" ? "" : view.least || "";
  const rows = [];
  let looked = 0;
  let after = "";
  do {
    const reply = await get(path("knowledge", table), { limit, after, min_confidence });
    rows.push(...reply.rows.filter(fits));
    looked += reply.rows.length;
    after = reply.next;
  } while (after && rows.length <= shown && looked < MOST);
  return { rows: rows.slice(0, shown), more: rows.length > shown, whole: !after || rows.length > shown, looked };
}

function fits(row) {
  const { table, text, source } = view;
  if (text.trim() && !mentions(table, row, text)) return false;
  return table === "feedback" || !source.trim() || sources(row).some((name) => fold(name).includes(fold(source)));
}

async function draw({ rows, more, whole: isComplete, looked }) {
  const active = new Set(on.map((season) => season.seasonal.id));
  const list = rows.map((row) => item(view.table, row, view.table === "seasonal" && active.has(row.id), callbacks));
  const focused = document.activeElement?.closest(".row")?.dataset.id;
  const further = () => {
    view.shown += SHOWN;
    refreshRows();
  };
  fill(find("rows"),
    rows.length ? heads() : emptyState(),
    make("ul", { class: `rows ${view.table}` }, ...list),
    more ? button("Show more", further, "further") : null,
    isComplete ? null : make("p", { class: "dim" },
      `The first ${plainNumber(looked)} rows were searched. Filter by confidence to search further.`),
    view.table === "feedback" && caller.mayWrite && rows.some((row) => !row.processed) ? pending() : null);
  fill(find("status"), rows.length === 1 ? "1 row" : `${rows.length}${more ? " of more" : ""} rows`);
  if (focused) list.find((line) => line.dataset.id === focused)?.querySelector(".head").focus();
  await unfold();
}

function heads() {
  const words = view.table === "feedback" ? ["Anomaly", "Counts", "About", "Updated"]
    : ["What is known", "Confidence", "Verdicts", "Source", "Updated"];
  const cells = words.map((word) => make("span", {}, word));
  return make("div", { class: `heads ${view.table}`, "aria-hidden": "true" }, ...cells);
}

/** Show what to do when the table is empty. */
function emptyState() {
  const { many, first, command } = TABLES[view.table];
  if (view.text || view.source || view.least) {
    const clear = () => {
      Object.assign(view, { text: "", source: "", least: 0 });
      drawTools();
      refreshRows();
      find("tools").querySelector("input").focus();
    };
    return make("div", { class: "empty" }, make("p", {}, `None of the ${many.toLowerCase()} fits.`),
      button("Show all", clear));
  }
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, `No ${many.toLowerCase()} yet`), make("p", {}, first),
    caller.mayWrite ? adding() : null,
    make("p", { class: "dim" }, "Or on the command line: ", make("code", {}, command)));
}

function pending() {
  const run = doing(async () => {
    const { changeset } = await post("knowledge/feedback/process");
    await refresh();
    notify("All verdicts are applied.", changeset && undoing(changeset.id, callbacks));
  });
  return make("div", { class: "pending" }, make("p", {}, "Some verdicts are not applied to their claims yet."),
    button("Apply them", run));
}

/** Open the row named in the address, and close the others. */
async function unfold() {
  const lines = [...find("rows").querySelectorAll(".row")];
  for (const line of lines) if (line.dataset.id !== view.row) line.shut();
  if (!view.row) return;
  const line = lines.find((line) => line.dataset.id === view.row) ?? await fetched();
  await line?.open();
}

/** Return the row named in the address, shown above the list if the list does not contain it. */
async function fetched() {
  try {
    const row = await get(path("knowledge", view.table, view.row));
    const line = item(view.table, row, false, callbacks);
    find("rows").querySelector(".rows").prepend(line);
    return line;
  } catch (error) {
    if (error.status !== 404) showError(error);
    callbacks.leave(); // deleted
    return null;
  }
}

// ── after a change ─────────────────────────────────────────────────────────────────────────────────────────────────

async function saveRow(change) {
  if (change.table !== view.table) {
    go(change.table);
    read();
    drawTools();
  }
  await refresh();
  if (change.action === "noop") return notify("An identical row exists.");
  const word = change.action === "add" ? "Kept" : "Changed";
  notify(`${word}: ${shortened(says(change.table, change.after))}.`, undoing(change.changeset, callbacks));
}

async function judged(changeset) {
  await refresh();
  const changes = changeset.knowledge.filter((change) => CLAIMS.includes(change.table) && change.action !== "noop");
  const text = changes.slice(0, 3).map(({ table, before, after }) =>
    `${shortened(says(table, after))}: ${before.confidence.toFixed(2)} → ${after.confidence.toFixed(2)}`);
  const summary = `${text.join("; ")}${changes.length > 3 ? " …" : ""}` || "No confidence changed.";
  notify(`Judged. ${summary}`, changeset.id ? undoing(changeset.id, callbacks) : null);
}
