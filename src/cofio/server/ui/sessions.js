/**
 * Sessions page: agent sessions with their turns, compaction summaries, recalls, memories learned and changes.
 *
 * The address: #/ID?of=CLIENT&owner=NAME for an open session, #/?project=PROJECT&client=NAME for filters.
 */

import { decoded, get } from "./api.js";
import {
  truncate,
  button,
  formatCount,
  fill,
  find,
  make,
  newId,
  userText,
  debounce,
  definitionList,
  time,
  srOnly,
} from "./dom.js";
import { caller, doing, enter, trouble, undoing } from "./app-shell.js";
import { listen } from "./events.js";

const PAGE = 50; // sessions per request
const MOST = 1_000; // maximum number per request
const LONG = 600; // characters of a folded text
const SHORT = 12; // characters of an id in the list

const view = { open: null, project: "", client: "" };
let limit = PAGE;
let lines = [];
let latest = 0; // the last requested list: replies for earlier ones are dropped
let leave = () => {}; // stops listening

enter({ show, empty });

async function show() {
  leave();
  window.onhashchange = arrive;
  read();
  fill(find("narrow"), filters());
  const onChange = debounce(refresh, 300);
  leave = listen((changed) => (changed.has("inbox") || changed.has("memories")) && onChange());
  await refresh();
}

function empty() {
  latest++;
  leave();
  [lines, limit] = [[], PAGE];
  for (const name of ["narrow", "sessions", "status"]) fill(find(name));
}

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

function read() {
  const [name = "", query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  view.open = name
    ? { session: decoded(name), client: parameters.get("of") ?? "", owner: parameters.get("owner") }
    : null;
  for (const name of ["project", "client"]) view[name] = parameters.get(name) ?? "";
}

function address(open) {
  const set = Object.entries({ of: open?.client ?? "", project: view.project, client: view.client })
    .filter(([, value]) => value);
  const owner = open && ownerOf(open); // "" means without an owner
  const query = new URLSearchParams(owner === null ? set : [...set, ["owner", owner]]).toString();
  return `#/${open ? encodeURIComponent(open.session) : ""}${query ? `?${query}` : ""}`;
}

const ownerOf = (about) => about.owner ?? (about.user || about.agent || "");

async function arrive() {
  const before = JSON.stringify([view.project, view.client]);
  read();
  if (JSON.stringify([view.project, view.client]) === before) return unfold();
  fill(find("narrow"), filters());
  await refresh();
}

function filters() {
  const narrowed = debounce(() => {
    history.replaceState(null, "", address(null));
    view.open = null;
    refresh();
  });
  const field = (name, label, placeholder) => {
    const id = newId(name);
    const take = (event) => {
      view[name] = event.target.value.trim();
      narrowed();
    };
    return make("div", { class: "field" }, make("label", { for: id }, label),
      make("input", { id, type: "search", autocomplete: "off", placeholder, value: view[name], oninput: take }));
  };
  return make("form", { class: "narrow", role: "search", onsubmit: (event) => event.preventDefault() },
    field("project", "Project", "All: a path or a name"), field("client", "Client", "All, such as codex"));
}

// ── the list ───────────────────────────────────────────────────────────────────────────────────────────────────────

async function refresh() {
  const request = ++latest;
  try {
    const narrow = Object.fromEntries(
      ["project", "client"].filter((name) => view[name]).map((name) => [name, view[name]]),
    );
    const { sessions } = await get("sessions", { limit: limit, ...narrow });
    if (request !== latest) return;
    lines = sessions.map((session) => existingLine(session) ?? line(session));
    arrange(sessions.length);
    await unfold();
  } catch (error) {
    if (request === latest) fill(find("sessions"), trouble(error));
  }
}

/** Return the row of an unchanged session: it stays, open or not. */
const existingLine = (about) => lines.find((line) => JSON.stringify(line.about) === JSON.stringify(about));

function arrange(count) {
  const focused = document.activeElement?.closest("#sessions .row");
  const more = doing(async () => {
    limit = Math.min(limit + PAGE, MOST);
    await refresh();
  });
  const further = count === limit && limit < MOST ? button("Show more", more, "further") : null;
  fill(find("sessions"), lines.length ? make("ul", { class: "rows" }, ...lines) : nothing(),
    make("div", { class: "after" }, further));
  fill(find("status"), formatCount(count, "session"));
  if (focused?.isConnected) focused.querySelector(".head").focus();
}

function nothing() {
  if (view.project || view.client) return make("div", { class: "empty" }, make("p", {}, "No session matches."));
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "No session is recorded yet"),
    make("p", {}, "The hooks of your agents record them, turn by turn."),
    make("p", { class: "dim" }, "To set the hooks up: ", make("code", {}, "cofio install")));
}

function line(about) {
  const inside = newId("session");
  const detail = make("div", { class: "detail", id: inside, hidden: true });
  const isOpen = () => !detail.hidden;
  const toggle = () => (location.hash = address(isOpen() ? null : about));
  const head = make("button",
    { type: "button", class: "head", "aria-expanded": "false", "aria-controls": inside, onclick: toggle },
    make("span", { class: "says" }, userText(about.project || "no project"), " ",
      make("span", { class: "dim mono" }, truncate(about.session, SHORT))),
    make("span", { class: "about" }, userText([about.client, about.user || about.agent].filter(Boolean).join(" · "))),
    make("span", { class: "counts" }, formatCount(about.turns, "turn")),
    make("span", { class: "when" }, time(about.last_at)));
  const row = make("li", { class: "row" }, head, detail);
  const set = (open) => {
    head.setAttribute("aria-expanded", String(open));
    detail.hidden = !open;
  };
  row.about = about;
  row.open = async () => {
    if (isOpen()) return;
    set(true);
    await draw(detail, about);
  };
  row.shut = () => {
    set(false);
    fill(detail);
  };
  return row;
}

// ── the session that is opened ─────────────────────────────────────────────────────────────────────────────────────

const isMeant = ({ about }) =>
  view.open && about.session.startsWith(view.open.session) && (!view.open.client || about.client === view.open.client)
  && (view.open.owner === null || ownerOf(about) === view.open.owner);

async function unfold() {
  const exact = lines.find((line) => isMeant(line) && line.about.session === view.open.session);
  const meant = exact ?? lines.find(isMeant) ?? (view.open ? await fetched() : null);
  for (const line of lines) if (line !== meant) line.shut();
  await meant?.open();
}

/** Return the session named in the address, shown above the list if the list does not contain it. */
async function fetched() {
  const { session, client, owner } = view.open;
  const request = latest;
  try {
    const details = await get("session", {
      session,
      ...(client ? { client } : {}),
      ...(owner === null ? {} : { owner }),
    });
    if (request !== latest) return null;
    const names = ["client", "session", "user", "agent", "project", "first_at", "last_at", "turns", "summaries"];
    lines = [line(Object.fromEntries(names.map((name) => [name, details[name]]))), ...lines];
    arrange(lines.length);
    return lines[0];
  } catch (error) {
    if (request === latest) fill(find("sessions"), trouble(error));
    return null;
  }
}

async function draw(detail, about) {
  fill(detail, make("p", { class: "dim" }, "Looking it up …"));
  try {
    const details = await get("session", { session: about.session, client: about.client, owner: ownerOf(about) });
    const again = { refresh: () => draw(detail, about) };
    const turns = details.turn_list.toReversed();
    fill(detail, facts(details),
      ...part("Compaction summaries", details.summary_list, "turns", summary),
      ...part("Learned", details.learned, "kept", (item) => memory(item, again)),
      ...part("Changed", details.changed, "kept", (item) => memory(item, again)),
      ...part("Recalled", details.recalled, "kept", (item) => memory(item, again)),
      ...part("Turns, newest first", turns, "turns", turn));
  } catch (error) {
    fill(detail, trouble(error));
  }
}

function facts(details) {
  const begun =
    new Date(details.first_at).getTime() === new Date(details.last_at).getTime() ? null : time(details.first_at);
  return definitionList({
    "Session": userText(details.session, { class: "mono" }),
    "Project": details.project ? userText(details.project, { class: "mono" }) : null,
    "Whose": details.user || details.agent ? userText([details.user, details.agent].filter(Boolean).join(" · ")) : null,
    "First turn": begun,
    "Last turn": time(details.last_at),
  }, { class: "facts" });
}

function part(title, items, kind, draws) {
  return items.length ? [make("h2", { class: "small" }, title), make("ul", { class: kind }, ...items.map(draws))] : [];
}

function turn({ at, prompt, answer }) {
  return make("li", {}, make("p", { class: "dim" }, time(at)),
    prompt ? make("blockquote", { class: "prompt" }, srOnly("User: "), unabridged(prompt)) : null,
    answer ? make("blockquote", {}, srOnly("Assistant: "), unabridged(answer)) : null);
}

const summary = ({ at, text }) =>
  make("li", {}, make("p", { class: "dim" }, time(at)), make("blockquote", {}, unabridged(text)));

/** Return a text, folded if long. */
function unabridged(text) {
  if (text.length <= LONG) return userText(text, { class: "whole" });
  const place = make("div", {});
  fill(place, userText(truncate(text, LONG), { class: "whole" }), " ",
    button("Show all", () => fill(place, userText(text, { class: "whole" })), "link"));
  return place;
}

function memory({ id, text, action, changeset, undone }, again) {
  const word = { add: "", update: "changed", delete: "archived" }[action] ?? action;
  const undo = changeset && !undone && caller.mayWrite
    ? make("button", { type: "button", class: "link", onclick: undoing(changeset, again) },
      "Undo", srOnly(` changeset ${changeset}`))
    : null;
  return make("li", {}, userText(text), make("p", { class: "dim" },
    make("a", { href: `memories#/${id}` }, `memory ${id}`), word ? ` · ${word}` : "",
    undone ? [" · ", make("span", { class: "tag" }, "undone")] : "", undo ? [" · ", undo] : ""));
}
