/** Rows of a domain knowledge table; each opens to its details, history and actions. */

import { get, path, remove } from "./api.js";
import { button, fill, make, newId, plainNumber, userText, definitionList, time, srOnly } from "./dom.js";
import { caller, doing, notify, trouble, undoing } from "./app-shell.js";
import { VERDICTS, adds, says, shortened, source } from "./knowledge-labels.js";

const HIDDEN = ["id", "created_at", "updated_at"]; // fields shown elsewhere in the row
const UNSAID = ["put", "delete", "purge"]; // reasons set by default
const MOST_LOADED = 20; // changes whose whole changeset is loaded
const DONE = { add: "Kept", update: "Changed", delete: "Forgotten", revert: "Undone", purge: "Erased" };

/**
 * Row of the list. `acts` are callbacks of the page: toggle, keep, judge, leave, refresh, focus.
 * @returns {HTMLLIElement & { open: () => Promise<void>, shut: () => void }}
 */
export function item(table, row, isOn, callbacks) {
  const inside = newId("detail");
  const detail = make("div", { class: "detail", id: inside, hidden: true });
  const about = { type: "button", class: "head", "aria-expanded": "false", "aria-controls": inside };
  const head = make("button", { ...about, onclick: () => callbacks.toggle(table, row) }, ...cells(table, row, isOn));
  const line = make("li", { class: "row", "data-id": row.id }, head, detail);
  line.open = async () => {
    head.setAttribute("aria-expanded", "true");
    detail.hidden = false;
    await show(detail, table, row, callbacks);
  };
  line.shut = () => {
    head.setAttribute("aria-expanded", "false");
    detail.hidden = true;
    fill(detail);
  };
  return line;
}

function cells(table, row, isOn) {
  const more = adds(table, row);
  const text = make("span", { class: "what" },
    make("span", { class: "says" }, userText(says(table, row)), isOn ? make("span", { class: "tag" }, "on now") : null),
    more ? make("span", { class: "adds" }, userText(more)) : null);
  const about = make("span", { class: "about" }, userText(source(table, row)));
  const when = make("span", { class: "when" }, time(row.updated_at));
  if (table !== "feedback") return [text, belief(row.confidence), verdicts(row), about, when];
  const counts = make("span", { class: "counts" }, row.processed ? "counts" : "waits");
  return [text, counts, about, when];
}

/** Return the confidence: a bar, and the number. */
export function belief(confidence) {
  const bar = make("span", { class: "level" });
  bar.style.inlineSize = `${Math.round(confidence * 100)}%`;
  const number = make("span", { class: "number" }, srOnly("confidence "), confidence.toFixed(2));
  return make("span", { class: "belief" }, make("span", { class: "bar", "aria-hidden": "true" }, bar), number);
}

function verdicts(row) {
  const visible = make("span", { "aria-hidden": "true" }, `+${row.confirmed} −${row.refuted}`);
  return make("span", { class: "verdicts" }, visible, srOnly(`${row.confirmed} for, ${row.refuted} against`));
}

// ── the detail ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function show(detail, table, row, callbacks) {
  const past = make("div", { class: "past" }, make("p", { class: "dim" }, "Looking it up …"));
  fill(detail, facts(table, row), caller.mayWrite ? actions(table, row, callbacks) : null,
    make("h2", { class: "small" }, "History"), past);
  try {
    await history(past, table, row.id, callbacks);
  } catch (error) {
    fill(past, trouble(error));
  }
}

function facts(table, row) {
  return definitionList({
    "Called": make("code", {}, `${table}/${row.id}`),
    "Says": says(table, row).length > 80 ? userText(says(table, row), { class: "long" }) : null,
    "Given": row.prior === undefined ? null : `${row.prior.toFixed(2)}, before any verdict`,
    "Judges": row.about?.length ? row.about.map((reference) => make("code", { class: "ref" }, reference)) : null,
    "Note": row.note ? userText(row.note, { class: "long" }) : null,
    "Lasts": row.period === "cron" ? `${row.lasts} minutes` : null,
    "In words": row.memory ? `memory ${row.memory}` : null,
    "Seen by": row.visibility === "private" ? (row.user || row.agent)
      : [row.visibility, row.team].filter(Boolean).join(" "),
    "Told in": row.place ? userText(row.place) : null,
    "First kept": time(row.created_at),
  });
}

function actions(table, row, callbacks) {
  const forget = doing(async () => {
    const change = await remove(path("knowledge", table, row.id));
    callbacks.leave();
    await callbacks.refresh();
    notify(`Forgotten: ${shortened(says(table, row))}.`, undoing(change.changeset, callbacks));
    callbacks.focus();
  });
  const judging = Object.entries(VERDICTS).filter(([name]) => name !== "note").map(
    ([name, text]) => button(text, () => callbacks.judge({ about: [`${table}/${row.id}`], verdict: name })));
  const own = table === "feedback"
    ? [button("Judge anew", () => callbacks.judge(row))]
    : [...judging, button("Change", () => callbacks.keep(table, row))];
  return make("div", { class: "actions" }, ...own, button("Forget", forget, "danger"));
}

// ── its history ────────────────────────────────────────────────────────────────────────────────────────────────────

async function history(past, table, id, callbacks) {
  const { changes } = await get(path("knowledge", table, id, "history"));
  const newest = changes.toReversed();
  const wholes = await Promise.all(newest.slice(0, MOST_LOADED).map((change) => fetchChangeset(change.changeset)));
  fill(past, make("ol", { class: "history" },
    ...newest.map((change, number) => step(table, change, wholes[number] ?? null, callbacks))));
}

/** Return the changeset of a change: what else it changed, and whether it was undone. None if not visible. */
async function fetchChangeset(changeset) {
  return get(path("changes", String(changeset))).catch(() => null);
}

function step(table, change, changeset, callbacks) {
  const otherCount = changeset ? changeset.changes.length + changeset.knowledge.length - 1 : 0;
  const along = otherCount > 0 ? make("span", { class: "dim" }, ` with ${otherCount} more`) : null;
  const undone = changeset?.undone_by;
  const back = caller.mayWrite && !undone && change.action !== "purge"
    ? make("button", { type: "button", class: "link", onclick: undoing(change.changeset, callbacks) },
      "Undo", srOnly(` change ${change.changeset}`))
    : null;
  return make("li", {},
    make("div", { class: "step" },
      make("strong", {}, DONE[change.action] ?? change.action), along,
      undone ? make("span", { class: "tag" }, "undone") : null,
      make("span", { class: "dim" }, " by ", userText(change.by), " · ", time(change.at)), back),
    reasons(change), difference(table, change.before, change.after));
}

function reasons(change) {
  const words = [...new Set([change.why, change.reason].filter((reason) => reason && !UNSAID.includes(reason)))];
  return words.length ? make("p", { class: "why" }, userText(words.join(" · "))) : null;
}

function difference(table, before, after) {
  if (!before || !after) {
    const row = before ?? after;
    if (!row) return null;
    const sure = row.confidence === undefined ? "" : ` · ${row.confidence.toFixed(2)}`;
    return make("p", { class: "long" }, make(after ? "ins" : "del", {}, userText(`${says(table, row)}${sure}`)));
  }
  const names = Object.keys(after).filter(
    (name) => !HIDDEN.includes(name) && displayValue(before[name]) !== displayValue(after[name]),
  );
  return make("ul", { class: "difference" }, ...names.map((name) => make("li", {},
    make("span", { class: "dim" }, `${name.replaceAll("_", " ")} `),
    make("del", {}, userText(displayValue(before[name]) || "none")), srOnly("became"),
    make("span", { "aria-hidden": "true" }, " → "), make("ins", {}, userText(displayValue(after[name]) || "none")))));
}

/** Return a value as text; equal values give equal texts. */
function displayValue(value) {
  if (typeof value === "number") return Number.isInteger(value) ? plainNumber(value) : String(Number(value.toFixed(4)));
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value ?? "";
}
