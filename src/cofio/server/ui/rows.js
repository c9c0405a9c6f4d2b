/** Rows of a domain knowledge table; each opens to its details, history and actions. */

import { get, path, remove } from "./api.js";
import { button, fill, make, newId, plainNumber, said, terms, time, unseen } from "./dom.js";
import { caller, doing, tell, trouble, undoing } from "./app-shell.js";
import { VERDICTS, adds, says, shortened, source } from "./knowledge-labels.js";

const HIDDEN = ["id", "created_at", "updated_at"]; // fields shown elsewhere in the row
const UNSAID = ["put", "delete", "purge"]; // reasons set by default
const TOLD = 20; // changes whose whole changeset is loaded
const DONE = { add: "Kept", update: "Changed", delete: "Forgotten", revert: "Undone", purge: "Erased" };

/**
 * Row of the list. `acts` are callbacks of the page: toggle, keep, judge, leave, refresh, focus.
 * @returns {HTMLLIElement & { open: () => Promise<void>, shut: () => void }}
 */
export function item(table, row, isOn, acts) {
  const inside = newId("detail");
  const detail = make("div", { class: "detail", id: inside, hidden: true });
  const about = { type: "button", class: "head", "aria-expanded": "false", "aria-controls": inside };
  const head = make("button", { ...about, onclick: () => acts.toggle(table, row) }, ...cells(table, row, isOn));
  const line = make("li", { class: "row", "data-id": row.id }, head, detail);
  line.open = async () => {
    head.setAttribute("aria-expanded", "true");
    detail.hidden = false;
    await show(detail, table, row, acts);
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
    make("span", { class: "says" }, said(says(table, row)), isOn ? make("span", { class: "tag" }, "on now") : null),
    more ? make("span", { class: "adds" }, said(more)) : null);
  const about = make("span", { class: "about" }, said(source(table, row)));
  const when = make("span", { class: "when" }, time(row.updated_at));
  if (table !== "feedback") return [text, belief(row.confidence), verdicts(row), about, when];
  const counts = make("span", { class: "counts" }, row.processed ? "counts" : "waits");
  return [text, counts, about, when];
}

/** Return the confidence: a bar, and the number. */
export function belief(confidence) {
  const bar = make("span", { class: "level" });
  bar.style.inlineSize = `${Math.round(confidence * 100)}%`;
  const number = make("span", { class: "number" }, unseen("confidence "), confidence.toFixed(2));
  return make("span", { class: "belief" }, make("span", { class: "bar", "aria-hidden": "true" }, bar), number);
}

function verdicts(row) {
  const seen = make("span", { "aria-hidden": "true" }, `+${row.confirmed} −${row.refuted}`);
  return make("span", { class: "verdicts" }, seen, unseen(`${row.confirmed} for, ${row.refuted} against`));
}

// ── the detail ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function show(detail, table, row, acts) {
  const past = make("div", { class: "past" }, make("p", { class: "dim" }, "Looking it up …"));
  fill(detail, facts(table, row), caller.mayWrite ? actions(table, row, acts) : null,
    make("h2", { class: "small" }, "History"), past);
  try {
    await history(past, table, row.id, acts);
  } catch (error) {
    fill(past, trouble(error));
  }
}

function facts(table, row) {
  return terms({
    "Called": make("code", {}, `${table}/${row.id}`),
    "Says": says(table, row).length > 80 ? said(says(table, row), { class: "long" }) : null,
    "Given": row.prior === undefined ? null : `${row.prior.toFixed(2)}, before any verdict`,
    "Judges": row.about?.length ? row.about.map((each) => make("code", { class: "ref" }, each)) : null,
    "Note": row.note ? said(row.note, { class: "long" }) : null,
    "Lasts": row.period === "cron" ? `${row.lasts} minutes` : null,
    "In words": row.memory ? `memory ${row.memory}` : null,
    "Seen by": row.visibility === "private" ? (row.user || row.agent)
      : [row.visibility, row.team].filter(Boolean).join(" "),
    "Told in": row.place ? said(row.place) : null,
    "First kept": time(row.created_at),
  });
}

function actions(table, row, acts) {
  const forget = doing(async () => {
    const change = await remove(path("knowledge", table, row.id));
    acts.leave();
    await acts.refresh();
    tell(`Forgotten: ${shortened(says(table, row))}.`, undoing(change.changeset, acts));
    acts.focus();
  });
  const judging = Object.entries(VERDICTS).filter(([name]) => name !== "note").map(
    ([name, text]) => button(text, () => acts.judge({ about: [`${table}/${row.id}`], verdict: name })));
  const own = table === "feedback"
    ? [button("Judge anew", () => acts.judge(row))]
    : [...judging, button("Change", () => acts.keep(table, row))];
  return make("div", { class: "actions" }, ...own, button("Forget", forget, "danger"));
}

// ── its history ────────────────────────────────────────────────────────────────────────────────────────────────────

async function history(past, table, id, acts) {
  const { changes } = await get(path("knowledge", table, id, "history"));
  const newest = changes.toReversed();
  const wholes = await Promise.all(newest.slice(0, TOLD).map((each) => whole(each.changeset)));
  fill(past, make("ol", { class: "history" },
    ...newest.map((each, number) => step(table, each, wholes[number] ?? null, acts))));
}

/** Return the changeset of a change: what else it changed, and whether it was undone. None if not visible. */
async function whole(changeset) {
  return get(path("changes", String(changeset))).catch(() => null);
}

function step(table, change, changeset, acts) {
  const others = changeset ? changeset.changes.length + changeset.knowledge.length - 1 : 0;
  const along = others > 0 ? make("span", { class: "dim" }, ` with ${others} more`) : null;
  const undone = changeset?.undone_by;
  const back = caller.mayWrite && !undone && change.action !== "purge"
    ? make("button", { type: "button", class: "link", onclick: undoing(change.changeset, acts) },
      "Undo", unseen(` change ${change.changeset}`))
    : null;
  return make("li", {},
    make("div", { class: "step" },
      make("strong", {}, DONE[change.action] ?? change.action), along,
      undone ? make("span", { class: "tag" }, "undone") : null,
      make("span", { class: "dim" }, " by ", said(change.by), " · ", time(change.at)), back),
    why(change), difference(table, change.before, change.after));
}

function why(change) {
  const words = [...new Set([change.why, change.reason].filter((each) => each && !UNSAID.includes(each)))];
  return words.length ? make("p", { class: "why" }, said(words.join(" · "))) : null;
}

function difference(table, before, after) {
  if (!before || !after) {
    const row = before ?? after;
    if (!row) return null;
    const sure = row.confidence === undefined ? "" : ` · ${row.confidence.toFixed(2)}`;
    return make("p", { class: "long" }, make(after ? "ins" : "del", {}, said(`${says(table, row)}${sure}`)));
  }
  const names = Object.keys(after).filter((name) => !HIDDEN.includes(name) && told(before[name]) !== told(after[name]));
  return make("ul", { class: "difference" }, ...names.map((name) => make("li", {},
    make("span", { class: "dim" }, `${name.replaceAll("_", " ")} `),
    make("del", {}, said(told(before[name]) || "none")), unseen("became"),
    make("span", { "aria-hidden": "true" }, " → "), make("ins", {}, said(told(after[name]) || "none")))));
}

/** Return a value as text; equal values give equal texts. */
function told(value) {
  if (typeof value === "number") return Number.isInteger(value) ? plainNumber(value) : String(Number(value.toFixed(4)));
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value ?? "";
}
