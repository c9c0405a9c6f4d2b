/**
 * Team page: what the team knows, and what its agents state repeatedly.
 *
 * The address holds the state: #/all, a category or a kind, #/policy, optionally with a team, #/policy/web.
 */

import { decoded, get, path } from "./api.js";
import { compactCount, exact, swatch } from "./charts.js";
import { truncate, button, fill, find, make, newId, userText, time, srOnly } from "./dom.js";
import { caller, enter, trouble } from "./app-shell.js";
import { listen } from "./events.js";
import { MANY } from "./memory-labels.js";

const CATEGORIES = { all: "All", ...MANY };
const STEP = 50; // facts shown at a time
const MOST = 1_000;
const PATTERNS = 20;
const LETTERS = 600; // characters of a text in the list
const PAUSE = 1_000; // minimum milliseconds between two refreshes

const view = { which: "all", team: "", shown: STEP };
let latest = 0; // the last requested lists: replies for earlier ones are dropped
let leave = () => {};

enter({ show, empty });

async function show() {
  empty();
  window.onhashchange = arrive;
  read();
  drawTabs();
  leave = followed();
  await refresh();
}

function empty() {
  latest++;
  leave();
  leave = () => {};
  for (const name of ["which", "team", "status"]) fill(find(name));
}

/** Refresh after changes, rate-limited. */
function followed() {
  let timer = 0;
  const onChange = (changed) => {
    if (changed.has("memories")) timer ||= setTimeout(() => ((timer = 0), refresh()), PAUSE);
  };
  const end = listen(onChange);
  return () => (clearTimeout(timer), end());
}

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

function read() {
  const [, mode = "all", team = ""] = location.hash.split("/").map(decoded);
  const next = { which: mode || "all", team };
  if (next.which !== view.which || next.team !== view.team) view.shown = STEP;
  Object.assign(view, next);
}

async function arrive() {
  read();
  drawTabs();
  await refresh();
}

const address = (mode, team = view.team) => `#/${path(mode)}${team ? `/${path(team)}` : ""}`;

function drawTabs() {
  const tab = (href, isHere, ...inside) => make("a", { href, "aria-current": isHere ? "page" : null }, ...inside);
  const tabs = Object.entries(CATEGORIES).map(([name, title]) => tab(address(name), view.which === name, title));
  const isKind = !Object.hasOwn(CATEGORIES, view.which);
  const focused = document.activeElement?.getAttribute("href");
  fill(find("which"), ...tabs, isKind ? tab(address(view.which), true, "Kind: ", userText(view.which)) : null,
    view.team ? make("a", { href: address(view.which, ""), class: "off" }, "Team: ", userText(view.team),
      make("span", { "aria-hidden": "true" }, " ×"), srOnly(": show all teams")) : null);
  [...find("which").children].find((child) => child.getAttribute("href") === focused)?.focus();
}

// ── what there is ──────────────────────────────────────────────────────────────────────────────────────────────────

async function refresh() {
  const request = ++latest;
  const about = { category: view.which === "all" ? "" : view.which, team: view.team };
  try {
    const [{ patterns }, { memories }] = await Promise.all([
      get("team/patterns", { ...about, limit: PATTERNS }), get("team/facts", { ...about, limit: view.shown + 1 })]);
    if (request === latest) draw(patterns, memories);
  } catch (error) {
    if (request !== latest || (!error.status && find("team").hasChildNodes())) return; // keep what is shown
    fill(find("team"), trouble(error));
  }
}

function draw(patterns, memories) {
  const focused = document.activeElement?.closest("[data-id]")?.dataset.id;
  const more = memories.length > view.shown;
  const facts = memories.slice(0, view.shown);
  const several = new Set(facts.map((fact) => fact.team)).size > 1;
  const isNarrowed = view.which !== "all" || view.team !== "";
  if (!facts.length && !patterns.length && !isNarrowed) fill(find("team"), emptyState());
  else fill(find("team"), repeated(patterns, isNarrowed), factList(facts, several, more, isNarrowed));
  fill(find("status"), `${compactCount(facts.length, "fact")}, ${compactCount(patterns.length, "pattern")}`);
  if (focused) find("team").querySelector(`[data-id="${focused}"] a`)?.focus();
}

function box(name, title, about, ...inside) {
  const id = newId(name);
  return make("section", { class: `box ${name}`, "aria-labelledby": id },
    make("div", {}, make("h2", { id }, title), make("p", { class: "dim" }, about)), ...inside);
}

/** Show what to do when the team has no memories. */
function emptyState() {
  const first = 'cofio add "Billing never migrates on a Friday" --agent ops --visibility team';
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "No team memories yet"),
    make("p", {}, "A memory with the visibility “team” is visible to every agent and member of the team. ",
      "Repeated statements are counted and highlighted here: often a rule that is not written down yet."),
    caller.mayWrite ? make("code", { class: "command" }, first) : null,
    caller.mayAll ? make("p", { class: "dim" }, "Where people share a service, each gets a key that names the team: ",
      make("code", {}, 'cofio keys create "ada\'s laptop" --user ada --team web')) : null);
}

// ── what agents keep saying ────────────────────────────────────────────────────────────────────────────────────────

function repeated(patterns, isNarrowed) {
  const most = Math.max(...patterns.map((pattern) => pattern.occurrences));
  const none = isNarrowed ? "Nothing of this kind was stated twice."
    : "No agent has stated the same fact twice yet. Repetitions are counted here.";
  return box("patterns", "What agents keep saying", "Stated twice or more by one agent, most frequent first.",
    patterns.length ? make("ol", {}, ...patterns.map((entry) => pattern(entry, most)))
      : make("p", { class: "calm" }, none));
}

function pattern({ agent, occurrences, memory }, most) {
  const level = make("span", { class: "level", "data-part": memory.category });
  level.style.inlineSize = `${(occurrences / most) * 100}%`;
  const times = make("p", { class: "times" }, make("b", {}, exact(occurrences)),
    make("span", { "aria-hidden": "true" }, "×"), srOnly(" times"));
  return make("li", { "data-id": `p${memory.id}-${hash(agent)}` }, times,
    make("div", { class: "what" }, words(memory),
      make("span", { class: "bar", "aria-hidden": "true" }, level),
      make("p", { class: "about" }, userText(agent || "unknown agent"), kind(memory))));
}

/** Return an id for a name of any characters. */
const hash = (text) => [...text].reduce((all, letter) => (all * 31 + letter.codePointAt(0)) >>> 0, 7);

// ── what the team knows ────────────────────────────────────────────────────────────────────────────────────────────

function factList(facts, several, more, isNarrowed) {
  const none = isNarrowed ? "The team knows nothing of this kind." : "No team memories yet.";
  const further = () => {
    view.shown = Math.min(MOST - 1, view.shown + STEP);
    refresh();
  };
  return box("facts", "Facts", "Most recently stated first.",
    facts.length ? make("ul", {}, ...facts.map((entry) => fact(entry, several))) : make("p", { class: "calm" }, none),
    more && view.shown < MOST - 1 ? button("Show more", further, "further") : null);
}

function fact(memory, several) {
  const { agent, user, team, occurrences } = memory;
  const authors = [user, agent].filter(Boolean).map((name) => userText(name));
  const teamLink =
    several && team ? make("a", { class: "pill", href: address(view.which, team) }, userText(team)) : null;
  const often = occurrences > 1 ? make("span", {}, `told ${exact(occurrences)} times`) : null;
  return make("li", { "data-id": `f${memory.id}` }, words(memory),
    make("p", { class: "about" }, ...authors, teamLink, kind(memory), time(memory.created_at), often));
}

const words = ({ id, text }) => make("a", { class: "words", href: `memories#/${id}` },
  userText(truncate(text, LETTERS)));

/** Return the category by colour and word, and the kind as a filter link. */
function kind({ category, kind: name }) {
  const isSaid = name === "other" || name === category;
  const word = isSaid ? category : name;
  return make("a", { class: "pill", href: address(word) }, swatch(category), word);
}
