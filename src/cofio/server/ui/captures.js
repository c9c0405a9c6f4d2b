/** List of captures: their text, state, and, when opened, what was learned from them. */

import { get, path, post } from "./api.js";
import { truncate, button, fill, make, newId, plainNumber, userText, definitionList, time, srOnly } from "./dom.js";
import { doing, notify, undoing } from "./app-shell.js";

const EXCERPT = 240; // characters of the text in the list
const LONG = 1_000; // characters from which on a text is folded
const CONTEXTS = {
  compact_summary: "a compaction summary",
  pre_compact: "before a compaction",
  analysis: "an agent's report",
  observation: "an observed dialogue",
  candidate: "a memory held for review",
};

/** States of captures, in the order of the tabs, with their meaning. */
export const STATES = {
  pending: { many: "Pending", says: "Queued. Captures that need the model are retried until it answers." },
  parked: { many: "Parked", says: "Failed three times, or held for review. It waits for a decision." },
  rejected: { many: "Rejected", says: "Processed; nothing in it was worth keeping." },
  stored: { many: "Stored", says: "Something was learned from it." },
  merged: { many: "Merged", says: "Its facts were already known." },
};

/** Labels of the decisions: as made, and as a preview. */
export const DONE = {
  add: ["Kept", "Would be kept"],
  update: ["Changed", "Would change a memory"],
  delete: ["Archived", "Would archive a memory"],
  noop: ["Known", "Is known already"],
  rejected: ["Left out", "Would be left out"],
  error: ["Failed", "Would fail"],
};

/**
 * Row of a capture. `acts` are callbacks of the page: toggle, refresh.
 * @returns {HTMLLIElement & { open: () => Promise<void>, shut: () => void }}
 */
export function capture(item, callbacks) {
  const inside = newId("detail");
  const detail = make("div", { class: "detail", id: inside, hidden: true });
  const about = { type: "button", class: "head", "aria-expanded": "false", "aria-controls": inside };
  const head = make("button", { ...about, onclick: () => callbacks.toggle(item.id) }, ...cells(item));
  const line = make("li", { class: "row", "data-id": String(item.id) }, head, detail);
  line.item = item;
  line.open = async () => {
    if (!detail.hidden) return;
    head.setAttribute("aria-expanded", "true");
    detail.hidden = false;
    await show(detail, item, callbacks);
  };
  line.shut = () => {
    head.setAttribute("aria-expanded", "false");
    detail.hidden = true;
    fill(detail);
  };
  return line;
}

function cells(item) {
  const first = item.exchange?.messages.map((message) => message.text).join(" · ") ?? "";
  const text = first ? userText(truncate(first, EXCERPT)) : make("em", {}, forgotten(item));
  return [
    state(item.state),
    make("span", { class: "what" },
      make("span", { class: "says" }, text), make("span", { class: "adds" }, ...became(item))),
    make("span", { class: "about" }, userText(from(item))),
    make("span", { class: "when" }, time(item.received_at)),
  ];
}

const forgotten = (item) => (item.exchange ? "The text is empty." : "Its text has been deleted by retention.");

/** Return the state, visible and for screen readers. */
function state(name) {
  return make("span", { class: `chip ${name}` }, STATES[name]?.many ?? name);
}

/** Return the sender. */
function from({ exchange }) {
  if (!exchange) return "";
  const { client, source, user, agent } = exchange;
  return [client || source || "unknown", user || agent].filter(Boolean).join(" · ");
}

/** Return the outcome as a sentence. */
function became(item) {
  const why = item.reason ? userText(item.reason) : null;
  if (item.state === "pending") return [attempts(item), ...next(item), why ? " · " : "", why];
  if (item.state === "parked") return [attempts(item), why ? " · " : "", why];
  if (item.state === "stored" && item.result.actions) return [summariseActions(item.result)];
  return [why ?? STATES[item.state]?.says ?? ""];
}

function attempts({ attempts: count }) {
  if (!count) return "not tried yet";
  return count === 1 ? "tried once" : `tried ${count} times`;
}

function next({ due_at }) {
  return new Date(due_at) > Date.now() ? [", next ", time(due_at)] : [", due now"];
}

/** Return the number of facts kept, changed, archived: "2 kept, 1 known". */
export function summariseActions({ actions = [], knowledge = [] }, would = false) {
  const many = (name) => actions.filter((action) => action.action === name).length;
  const parts = Object.entries(DONE).map(([name, [done]]) => [many(name), done]);
  const rows = knowledge.filter((change) => change.action !== "noop").length;
  const counts = [...parts, [rows, rows === 1 ? "row of knowledge" : "rows of knowledge"]].filter(([count]) => count);
  const text = counts.map(([count, word]) => `${count} ${word.toLowerCase()}`).join(", ");
  return text ? `${would ? "Would come to " : ""}${text}` : "Nothing to keep";
}

// ── the detail ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function show(detail, item, callbacks) {
  const back = make("div", { class: "back" });
  const learned = make("div", {}, knows(item) ? outcome(item.result) : make("p", { class: "calm" }, nothing(item)));
  fill(
    detail,
    item.state === "parked" || item.state === "rejected" ? tryAgain(item, callbacks) : null,
    make("h2", { class: "small" }, "What was said"),
    exchange(item),
    make("h2", { class: "small" }, "What was learned from it"),
    learned,
    back,
    facts(item),
  );
  if (!item.changeset) return;
  // The changeset may not be visible to this key.
  const changeset = await get(path("changes", String(item.changeset))).catch(() => null);
  if (!changeset) return;
  if (!knows(item)) fill(learned, outcome(recalled(changeset)));
  undoLine(back, changeset, callbacks);
}

const knows = ({ result }) => result.actions?.length || result.knowledge?.length;

/** Return what was learned, from the journal: the capture's own result is forgotten with its text. */
function recalled({ changes, knowledge }) {
  const written = changes.filter((change) => change.after && change.action !== "revert");
  return {
    actions: written.map(({ action, after, memory_id: id, reason }) => ({ action, text: after.text, id, reason })),
    knowledge: knowledge.map((change) => ({ action: change.action, ref: `${change.table}/${change.key}`, says: "" })),
  };
}

function nothing(item) {
  if (item.state === "pending") return "Nothing yet.";
  if (item.state === "parked") return "Nothing yet: it waits for a retry.";
  return item.reason ? `Nothing: ${item.reason[0].toLowerCase()}${item.reason.slice(1)}.` : "Nothing.";
}

function tryAgain(item, callbacks) {
  if (!item.exchange) return null;
  if (item.exchange.context === "candidate") return item.state === "parked" ? decide(item, callbacks) : null;
  const retry = doing(async () => {
    await post(path("inbox", String(item.id), "retry"), null);
    await callbacks.refresh();
    notify("It is queued again.");
  });
  return make("div", { class: "actions" }, button("Retry", retry, "primary"));
}

/** Return the buttons for a memory that is held for review. */
function decide(item, callbacks) {
  const settle = (action, done) => doing(async () => {
    await post(path("inbox", String(item.id), action), {});
    await callbacks.refresh();
    notify(done);
  });
  return make("div", { class: "actions" },
    button("Approve", settle("approve", "It is stored as a memory."), "primary"),
    button("Discard", settle("discard", "It is discarded."), "danger"));
}

/** Return the text as a quotation; it is data, never an instruction. */
function exchange(item) {
  const messages = item.exchange?.messages ?? [];
  if (!messages.length) return make("p", { class: "calm" }, forgotten(item));
  const one = ({ role, text }) => make("li", { class: role },
    make("span", { class: "who-said" }, role === "user" ? "User" : "Assistant"), make("blockquote", {}, folded(text)));
  return make("ol", { class: "said" }, ...messages.map(one));
}

/** Return content of any length, texts or elements, folded if long. */
export function folded(...words) {
  const container = make("bdi", { class: "whole" }, ...words);
  const { length } = container.textContent;
  if (length <= LONG) return container;
  const all = `Show all ${plainNumber(length)} characters`;
  const toggle = () => {
    const folds = container.classList.toggle("clipped");
    more.setAttribute("aria-expanded", String(!folds));
    fill(more, folds ? all : "Show less");
  };
  const more = make("button", { type: "button", class: "link", "aria-expanded": "false", onclick: toggle }, all);
  container.classList.add("clipped");
  return make("div", { class: "folded" }, container, more);
}

// ── what was learned ───────────────────────────────────────────────────────────────────────────────────────────────

function outcome({ actions = [], knowledge = [] }) {
  return make("ul", { class: "outcome" }, ...actions.map(acted), ...knowledge.map(tabled));
}

function acted(action) {
  const [word] = DONE[action.action] ?? [action.action];
  const ids = [["as", action.id ?? action.new_id], ["instead of", action.old_id], ["as", action.existing_id]];
  const links = ids.filter(([, id]) => id).map(([relation, id]) => make("span", {}, ` ${relation} `, memory(id)));
  return make("li", {},
    make("span", { class: `chip ${action.action}` }, word),
    make("div", {}, make("p", {}, userText(action.text)),
      make("p", { class: "dim" }, ...links, links.length && action.reason ? " · " : "",
        action.reason ? userText(action.error ?? action.reason) : null)));
}

/** Return a link to a memory. */
export const memory = (id) => make("a", { href: `memories#/${id}` }, `memory ${id}`);

/** Return a change of a domain knowledge row, with a link to it. */
export function tabled({ action, ref, says }, would = false) {
  const [table, ...rest] = ref.split("/");
  const [done, planned] = DONE[action] ?? [action, action];
  return make("li", {},
    make("span", { class: `chip ${action}` }, would === true ? planned : done),
    make("div", {}, says ? make("p", {}, userText(says)) : null,
      make("p", { class: "dim" }, "row ", make("a", { href: `knowledge#/${path(table, rest.join("/"))}` }, ref))));
}

/** Offer an undo, unless it was undone. */
function undoLine(back, { id, by, at, undone_by }, callbacks) {
  const undo = undoing(id, { refresh: () => callbacks.again() });
  fill(back, make("span", { class: "dim" }, `Changeset ${id} by `, userText(by), " · ", time(at)), undone_by
    ? make("span", { class: "tag" }, "undone")
    : make("button", { type: "button", class: "link", onclick: undo }, "Undo", srOnly(` changeset ${id}`)));
}

// ── about it ───────────────────────────────────────────────────────────────────────────────────────────────────────

function facts(item) {
  const exchange = item.exchange ?? {};
  const textOrNull = (text) => (text ? userText(text) : null);
  const turn = ["session", "turn"]
    .filter((name) => exchange[name])
    .map((name) => `${name} ${exchange[name]}`)
    .join(", ");
  const fields = definitionList({
    Called: make("code", {}, `capture ${item.id}`),
    From: textOrNull([exchange.client, turn].filter(Boolean).join(" · ")),
    Session: exchange.session
      ? make("a", { href: `sessions#/${encodeURIComponent(exchange.session)}` }, "its other turns")
      : null,
    "Handed over": CONTEXTS[exchange.context] ?? null,
    Source: textOrNull(exchange.source),
    Project: textOrNull(exchange.project),
    Whose: textOrNull([exchange.user, exchange.agent, exchange.team].filter(Boolean).join(" · ")),
    "Seen by": exchange.visibility ?? null,
    Said: exchange.at ? time(exchange.at) : null,
    Came: time(item.received_at),
    Tried: item.attempts ? attempts(item) : null,
    Next: item.state === "pending" ? time(item.due_at) : null,
    Settled: item.finished_at ? time(item.finished_at) : null,
    "Read by": { llm: "the language model", pattern: "the judgement model" }[item.result.method] ?? null,
  });
  return make("details", {}, make("summary", {}, "About this capture"), fields);
}
