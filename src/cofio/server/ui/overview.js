/**
 * Overview page: number of memories over time, what was learned and recalled today, and health. One request returns
 * all figures; they follow live changes.
 *
 * The address holds the period: #/30, #/90, #/365; #/30/new shows new memories per day.
 */

import { get, path } from "./api.js";
import { compact, compactCount, exact, number, overTime, sum } from "./charts.js";
import { truncate, fill, find, make, newId, userText, time, srOnly } from "./dom.js";
import { caller, enter, trouble } from "./app-shell.js";
import { listen } from "./events.js";
import { MANY as CATEGORIES } from "./memory-labels.js";
import { says } from "./knowledge-labels.js";

const SPANS = [30, 90, 365];
const WEEKLY = 365; // from this number of days on, a column is a week
const PAUSE = 1_000; // minimum milliseconds between two refreshes
const SLOWEST = 30_000;
const SOON = 2_000; // interval while the model's state is unknown
const MINUTE = 60_000; // longest time without a refresh, as "just now" and "today" go stale
const CHANGES = 5; // changes shown
const OF_ONE = 2; // of these, per changeset
const AT_ONCE = 3; // changesets requested at a time
const LETTERS = 300; // characters of a text in the list

const view = { days: 30, isNew: false };
let overview = null; // the figures shown
let latest = 0; // the last requested figures: replies for earlier ones are dropped
let boxes = null;
let parts = []; // aborted when the page is left
let soon = 0; // timer of the next refresh, while the model's state is unknown

enter({ show, empty });

async function show() {
  empty();
  boxes = board();
  window.onhashchange = arrive;
  read();
  drawSpans();
  follow();
  await refreshFigures(); // show the frame before data arrives
  await refreshChanges();
}

function empty() {
  latest++;
  clearTimeout(soon);
  for (const part of parts.splice(0)) part();
  for (const name of ["trouble", "first", "figures", "board", "live", "span"]) fill(find(name));
  [overview, boxes] = [null, null];
  for (const map of [shownIds, done]) map.clear();
  shownFigures.clear();
}

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Apply the address; unknown parts are ignored. */
function read() {
  const [, days, mode = ""] = location.hash.split("/");
  if (!SPANS.includes(Number(days))) return false;
  Object.assign(view, { days: Number(days), isNew: mode === "new" });
  return true;
}

const address = (days, isNew) => `#/${days}${isNew ? "/new" : ""}`;

async function arrive() {
  const before = view.days;
  if (!read()) return;
  drawSpans();
  drawGrowth();
  if (view.days !== before) await refreshFigures();
}

function drawSpans() {
  choices(find("span"), SPANS.map((days) => [address(days, view.isNew), `${days} days`, days === view.days]));
  choices(boxes.which, [[address(view.days, false), "In all", !view.isNew],
    [address(view.days, true), view.days < WEEKLY ? "New each day" : "New each week", view.isNew]]);
}

/** Return links, marking the current one. */
function choices(nav, links) {
  const focused = [...nav.children].indexOf(document.activeElement);
  fill(nav, ...links.map(([href, text, isHere]) => make("a", { href, "aria-current": isHere ? "true" : null }, text)));
  nav.children[focused]?.focus();
}

// ── following ──────────────────────────────────────────────────────────────────────────────────────────────────────

function follow() {
  const figures = paced(refreshFigures);
  const changes = paced(refreshChanges);
  const look = (changed) => {
    figures();
    if (changed.has("memories")) changes();
  };
  const missed = new Set();
  const onChange = (changed) => {
    if (!document.hidden) return look(changed);
    for (const part of changed) missed.add(part);
  };
  const back = () => {
    if (document.hidden) return;
    look(missed);
    missed.clear();
  };
  document.addEventListener("visibilitychange", back);
  const clock = setInterval(() => onChange(new Set(["memories"])), MINUTE);
  parts.push(listen(onChange, drawLive), () => clearInterval(clock),
    () => document.removeEventListener("visibilitychange", back));
}

/** Return a function that runs `run` at once, and again later if requested meanwhile; at most 10 % of the time. */
function paced(run) {
  let isBusy = false;
  let isWanted = false;
  return async () => {
    isWanted = true;
    if (isBusy) return;
    isBusy = true;
    while (isWanted) {
      isWanted = false;
      const began = performance.now();
      await run();
      const pause = Math.min(SLOWEST, Math.max(PAUSE, 10 * (performance.now() - began)));
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    isBusy = false;
  };
}

function drawLive(isLive) {
  const text = isLive ? "Live" : "Not live";
  const about = isLive ? "Changes appear automatically." : "The service does not answer. Retrying.";
  fill(find("live"), make("span", { class: isLive ? "dot" : "dot off", "aria-hidden": "true" }),
    make("span", { title: about }, text), isLive ? srOnly(".") : make("span", { class: "dim" }, about));
}

async function refreshFigures() {
  if (!boxes) return; // the page was left
  const request = ++latest;
  try {
    const reply = await get("overview", { days: view.days });
    if (request !== latest) return;
    overview = reply;
    fill(find("trouble"));
    draw();
  } catch (error) {
    if (request === latest) failed(error);
  }
}

/** Show an error. If figures are shown and the service is away, they stay, and the live sign tells. */
function failed(error) {
  if (overview && !error.status) return;
  fill(find("trouble"), trouble(error));
}

async function refreshChanges() {
  const request = boxes;
  if (!request) return;
  try {
    const rows = await gathered();
    if (request === boxes) drawChanges(rows);
  } catch (error) {
    if (request === boxes && error.status) fill(boxes.changes, trouble(error));
  }
}

// ── the whole ──────────────────────────────────────────────────────────────────────────────────────────────────────

function draw() {
  const isEmpty = overview.live + overview.archived === 0;
  fill(find("first"), isEmpty ? emptyState() : null);
  for (const name of ["figures", "span"]) find(name).hidden = isEmpty;
  for (const box of [boxes.growth, boxes.news]) box.hidden = isEmpty;
  boxes.tokens.hidden = !overview.injected || isEmpty;
  boxes.inbox.hidden = !overview.inbox || (isEmpty && overview.inbox.captured === 0);
  find("board").hidden = false;
  drawFigures();
  drawGrowth();
  drawTokens();
  drawLedger();
  drawHealth();
  clearTimeout(soon);
  if (overview.extraction.enabled && !overview.extraction.status) soon = setTimeout(refreshFigures, SOON);
}

/** Create every box of the board, still empty. */
function board() {
  const modeSwitch = make("nav", { class: "switch", "aria-label": "What is counted" });
  const growthChart = overTime("Memories over time, by category");
  const tokenChart = overTime("Tokens per prompt, by day");
  const inside = () => make("div", { class: "inside" });
  const [sums, health] = [inside(), inside()];
  const mean = make("p", { class: "dim" });
  const changes = make("ul", { class: "changes" });
  const sections = {
    growth: box("growth", "Memories over time", modeSwitch, growthChart),
    news: box("news", "Newest changes", null, changes),
    tokens: box("tokens", "Tokens per prompt", mean, tokenChart),
    inbox: box("inbox", "Where captures are", null, sums),
    health: box("health", "Health", null, health),
  };
  find("board").hidden = true;
  fill(find("board"), ...Object.values(sections));
  return { ...sections, which: modeSwitch, over: growthChart, given: tokenChart, mean, sums, state: health, changes };
}

function box(name, title, beside, inside) {
  const id = newId(name);
  const head = make("div", { class: "boxhead" }, make("h2", { id }, title), beside);
  return make("section", { class: `box ${name}`, "aria-labelledby": id }, head, inside);
}

/** Show the first steps for an empty store. */
function emptyState() {
  if (!caller.mayWrite) {
    return make("div", { class: "empty" }, make("p", { class: "lead" }, "No memories for this key yet"),
      make("p", {}, "Memories that this key may see appear here as they are stored."));
  }
  const step = (command, text) => make("li", {}, make("code", {}, command), make("span", {}, text));
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "Nothing is remembered yet"),
    make("p", {}, "Connect your agents, and cofio learns from your conversations. Or add a memory yourself."),
    make("ol", { class: "steps" },
      step("cofio install", "installs its hooks into the agents on this machine"),
      step('cofio add "We deploy on Fridays, after lunch"', "stores a sentence")),
    make("p", { class: "dim" }, "It appears here at once."));
}

// ── figures ────────────────────────────────────────────────────────────────────────────────────────────────────────

const DONE = { add: "added", update: "updated", edit: "edited", delete: "archived", restore: "restored",
  purge: "erased", revert: "undone" };
const shownFigures = new Map(); // labels of the decisions

function drawFigures() {
  const usage = today();
  figure("Memories", overview.live, overview.archived ? `${compact(overview.archived)} archived` : "all of them live");
  if (overview.done_today === null) return figuresOfArrivals();
  const counts = overview.done_today;
  const parts = Object.keys(DONE)
    .filter((name) => counts[name])
    .map((name) => `${compact(counts[name])} ${DONE[name]}`);
  figure("Learned today", (counts.add ?? 0) + (counts.update ?? 0), parts.join(" · ") || "nothing yet");
  figure(
    "Recalled today",
    usage.memories,
    usage.prompts
      ? `for ${compact(usage.answered)} of ${compactCount(usage.prompts, "prompt")}`
      : occasions(usage) || "no prompt yet",
  );
  figure("Tokens per prompt", perPrompt(usage), usage.tokens
    ? `${compactCount(usage.tokens, "token")} in all today` : "none today");
}

/** Return the figures for a viewer who may not see all changes: the number of new memories. */
function figuresOfArrivals() {
  const arrivalsSince = (since) => overview.arrived.filter((arrival) => arrival.day >= since);
  const count = (list) => list.reduce((all, arrival) => all + arrival.count, 0);
  const words = (list) => byCategory(list).map(([name, many]) => compactCount(many, name));
  const [of, recent] = [arrivalsSince(overview.days.at(-1)), arrivalsSince(overview.days[0])];
  figure("New today", count(of), words(of).join(" · ") || "nothing yet");
  figure(`New in ${overview.days.length} days`, count(recent), words(recent).join(" · ") || "nothing yet", "lately");
}

const byCategory = (list) =>
  Object.keys(CATEGORIES)
    .map((name) => [
      name,
      list.filter((arrival) => arrival.category === name).reduce((all, arrival) => all + arrival.count, 0),
    ])
    .filter(([, count]) => count);

/** Show a figure in its place; a changed one is highlighted for a moment. */
function figure(title, value, note, name = title) {
  const before = shownFigures.get(name);
  if (before?.title === title && before.value === value && before.note === note) return;
  const place = before?.place ?? find("figures").appendChild(make("div", { class: "tile" }));
  const isFresh = before?.title === title && before.value !== value;
  fill(place, make("dt", {}, title), make("dd", { class: isFresh ? "value fresh" : "value" }, number(value)),
    make("dd", { class: "beside" }, note));
  shownFigures.set(name, { title, value, note, place });
}

const NONE = { prompts: 0, answered: 0, starts: 0, memories: 0, tokens: 0 };
const today = () => overview.injected?.find((entry) => entry.day === overview.days.at(-1)) ?? NONE;

/** Return the mean: a session start counts as a prompt, as its tokens are counted too. */
const perPrompt = ({ tokens, prompts, starts }) => (tokens ? Math.round(tokens / (prompts + starts)) : 0);

/** Return what the tokens were injected into: "54 prompts and 9 starts". */
const occasions = ({ prompts, starts }) =>
  [prompts && compactCount(prompts, "prompt"), starts && compactCount(starts, "session start")]
    .filter(Boolean)
    .join(" and ");

// ── over time ──────────────────────────────────────────────────────────────────────────────────────────────────────

const SHORT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const LONG = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const WEEKDAY = new Intl.DateTimeFormat("en-GB", { weekday: "long", timeZone: "UTC" });

/** Return the columns of a chart, each with the indexes of its days. */
function columns(days) {
  const long = days.length >= WEEKLY ? 7 : 1;
  const result = [];
  for (let last = days.length - 1; last >= 0; last -= long) {
    const first = Math.max(0, last - long + 1);
    result.unshift({ first, last, ...columnLabels(days[last], last === days.length - 1, long > 1) });
  }
  return result;
}

function columnLabels(day, isToday, isWeek) {
  const date = new Date(`${day}T00:00:00Z`);
  const title = `${isWeek ? "Week to " : ""}${WEEKDAY.format(date)}, ${LONG.format(date)}`;
  return { label: isToday ? "today" : SHORT.format(date), title };
}

function drawGrowth() {
  if (!overview) return;
  const shownColumns = columns(overview.days);
  const series = Object.entries(CATEGORIES).map(([name, title]) => {
    const daily = arrivals(name);
    const sums = running(daily.counts, daily.before);
    const own = ({ first, last }) => daily.counts.slice(first, last + 1).reduce((all, count) => all + count, 0);
    return { name, title, values: shownColumns.map((column) => (view.isNew ? own(column) : sums[column.last])) };
  });
  boxes.over.draw({ kind: view.isNew ? "bars" : "areas", columns: shownColumns.map(bare), series });
}

/** Return the number of memories of a category on each day, and before the period. */
function arrivals(category) {
  const place = new Map(overview.days.map((day, number) => [day, number]));
  const counts = overview.days.map(() => 0);
  let before = 0;
  for (const arrival of overview.arrived.filter((every) => every.category === category)) {
    if (arrival.day < overview.days[0]) before += arrival.count;
    else counts[place.get(arrival.day) ?? counts.length - 1] += arrival.count; // dated tomorrow by another clock
  }
  return { counts, before };
}

const running = (counts, before) => counts.map((count) => (before += count));
const bare = ({ label, title }) => ({ label, title });

function drawTokens() {
  if (!overview.injected) return;
  const byDay = new Map(overview.injected.map((entry) => [entry.day, entry]));
  const shownColumns = columns(overview.days).map((column) => {
    const days = overview.days.slice(column.first, column.last + 1).map((day) => byDay.get(day) ?? NONE);
    return { ...bare(column), ...sumOf(days) };
  });
  const withNote = (column) => ({ ...bare(column),
    note: occasions(column) ? `${compactCount(column.tokens, "token")} for ${occasions(column)}` : "no prompt" });
  boxes.given.draw({ kind: "bars", columns: shownColumns.map(withNote),
    series: [{ name: "tokens", title: "Tokens per prompt", values: shownColumns.map(perPrompt) }] });
  const now = today();
  fill(boxes.mean, occasions(now) ? `${exact(perPrompt(now))} on average today` : "no prompt today yet");
}

const sumOf = (days) => Object.fromEntries(["tokens", "prompts", "starts"].map((name) =>
  [name, days.reduce((all, day) => all + day[name], 0)]));

// ── inbox status ───────────────────────────────────────────────────────────────────────────────────────────────────────

const PARTS = ["stored", "merged", "rejected", "pending"];

function drawLedger() {
  const { inbox } = overview;
  if (!inbox) return;
  if (inbox.captured === 0) {
    return fill(boxes.sums, make("p", { class: "calm" },
      "No captures yet. Everything that agents send is counted here, and nothing is lost."));
  }
  const together = PARTS.reduce((all, name) => all + inbox[name], 0);
  const off = inbox.captured - together;
  const wrong = off > 0 ? `${compactCount(off, "capture")} cannot be accounted for.`
    : `${compactCount(-off, "capture")} too many are accounted for.`;
  const verdict = off ? state("bad", wrong) : state("good", "Consistent: every capture is accounted for.");
  fill(boxes.sums, sum({ name: "captured", title: "captured", value: inbox.captured },
    PARTS.map((name) => ({ name, title: name, value: inbox[name] }))), verdict, waiting(inbox));
}

/** Return how many captures wait, and for how long. */
function waiting({ pending, parked, oldest }) {
  if (!pending) return null;
  const oldestNote = oldest ? [", the oldest from ", time(oldest)] : "";
  const stuck = parked ? ` ${exact(parked)} ${parked === 1 ? "is" : "are"} parked and need attention.` : "";
  return make(
    "p",
    { class: "dim" },
    `${exact(pending)} ${pending === 1 ? "waits" : "wait"}`,
    oldestNote,
    ".",
    stuck,
    " ",
    make("a", { href: "inbox" }, "To the inbox"),
  );
}

// ── health ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const MARKS = { good: ["✓", "well"], bad: ["!", "trouble"], off: ["–", "off"] };

/** Return a health line: a mark, a word and a sentence. */
function state(kind, ...text) {
  const [mark, word] = MARKS[kind];
  return make("p", { class: `state ${kind}` }, make("span", { class: "mark", "aria-hidden": "true" }, mark),
    make("span", {}, srOnly(`${word}: `), ...text));
}

function drawHealth() {
  const row = (title, ...inside) => make("div", {}, make("dt", {}, title), make("dd", {}, ...inside));
  fill(boxes.state, make("dl", { class: "states" },
    row("Model", modelState(overview.extraction)),
    overview.store ? row("Store", storeState(overview.store)) : null,
    overview.store ? row("Search", searchState(overview.store)) : null,
    row("Service", state("good", `cofio ${overview.version}, up ${lasted(overview.uptime_seconds)}`))));
}

function modelState({ enabled, provider, model, status, problem }) {
  if (!enabled)
    return state("off", "None is set: the judgement model in the package reads what is said. That is enough to learn.");
  const name = userText([provider, model].filter(Boolean).join(" · "));
  if (status === "healthy") return state("good", name, " answers.");
  if (!status) return state("off", name, " is asked how it is.");
  return state(
    "bad",
    name,
    " does not answer",
    problem ? [": ", userText(problem)] : "",
    ". Captures wait until it does.",
  );
}

const STORES = { sqlite: "SQLite", postgresql: "PostgreSQL" };

function storeState({ name, bytes }) {
  return state("good", `${STORES[name] ?? name}, ${sized(bytes)}.`);
}

function searchState({ embedder, waiting }) {
  if (waiting) {
    const wait = `${compactCount(waiting, "memory", "memories")} ${waiting === 1 ? "waits" : "wait"} for a vector`;
    return state("bad", `${wait}, and can be found by words alone.`);
  }
  if (!embedder) return state("off", "Nothing has a vector yet.");
  return state("good", "By meaning and by words, with ", userText(embedder, { class: "name" }), ".");
}

/** Return a size in readable units. */
function sized(bytes) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(bytes, 1)) / 3)));
  return `${exact(bytes / 1000 ** step)} ${units[step]}`;
}

function lasted(seconds) {
  for (const [one, long] of [["day", 86_400], ["hour", 3_600], ["minute", 60]]) {
    if (seconds >= long) return `for ${compactCount(Math.floor(seconds / long), one)}`;
  }
  return "since a moment ago";
}

// ── the newest changes ─────────────────────────────────────────────────────────────────────────────────────────────

const DID = { add: "Learned", update: "Updated", edit: "Edited", delete: "Archived", restore: "Restored",
  noop: "Stated again", purge: "Erased", revert: "Undone" };
const QUIET = ["delete", "noop", "purge"];
const done = new Map(); // loaded changesets by id
const shownIds = new Set(); // ids shown before

/** Load the newest changes to show. Each changeset is requested once, as it does not change. */
async function gathered() {
  const { changesets } = await get("changes", { limit: CHANGES });
  const rows = [];
  for (let next = 0; next < changesets.length && rows.length < CHANGES; next += AT_ONCE) {
    const some = changesets.slice(next, next + AT_ONCE).map(({ id }) => id);
    await Promise.all(some.map(async (id) => done.has(id) || done.set(id, changesOf(await get(path("changes", id))))));
    rows.push(...some.flatMap((id) => done.get(id)));
  }
  for (const id of done.keys()) if (!changesets.some((changeset) => changeset.id === id)) done.delete(id);
  return rows.slice(0, CHANGES);
}

function drawChanges(rows) {
  const isFirst = shownIds.size === 0;
  const focused = document.activeElement?.closest(".changes li")?.dataset.id;
  const lines = rows.map((row) => {
    const isFresh = !isFirst && !shownIds.has(row.id);
    shownIds.add(row.id);
    return line(row, isFresh);
  });
  fill(boxes.changes, ...lines);
  if (!lines.length) fill(boxes.changes, make("li", { class: "calm" }, "Nothing has changed yet."));
  lines.find((line) => line.dataset.id === focused)?.querySelector("a")?.focus();
}

/** Return the visible changes of a changeset, last first, and how many more there are. */
function changesOf({ changes, knowledge, by, at }) {
  const memories = changes.map((change) => ({ id: `m${change.id}`, did: change.action, by, at,
    text: (change.after ?? change.before)?.text ?? "",
    href: change.action === "purge" ? "" : `memories#/${change.memory_id}` }));
  const rows = knowledge.map((change) => ({ id: `k${change.id}`, did: change.action, by, at,
    text: describeRow(change), href: `knowledge#/${change.table}/${encodeURIComponent(change.key)}` }));
  const all = [...rows, ...memories].reverse();
  const [visible, more] = [all.slice(0, OF_ONE), all.length - OF_ONE];
  if (more > 0) visible.at(-1).more = more;
  return visible;
}

function describeRow({ table, before, after }) {
  const row = after ?? before;
  return row ? says(table, row) : "";
}

function line({ id, did, by, at, text, href, more }, isFresh) {
  const words = [make("span", { class: QUIET.includes(did) ? "did quiet" : "did" }, DID[did] ?? did), " ",
    text ? userText(truncate(text, LETTERS), { class: "words" })
      : make("span", { class: "dim" }, "what is no longer there")];
  const about = [userText(by), " · ", time(at), more ? ` · and ${compact(more)} more` : ""];
  return make("li", { "data-id": id, class: isFresh ? "fresh" : null },
    href ? make("a", { href }, ...words) : make("span", {}, ...words),
    make("span", { class: "dim about" }, ...about));
}
