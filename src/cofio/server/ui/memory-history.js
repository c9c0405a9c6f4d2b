/** History of a memory and its lineage: every change, its effect, and an undo. */

import { get, path, post } from "./api.js";
import { difference } from "./diff.js";
import { counted, fill, make, plainNumber, said, time, unseen } from "./dom.js";
import { caller, doing, tell, undoing } from "./app-shell.js";
import { takeBack } from "./memory-forms.js";

const DONE = { add: "Kept", update: "Reworded", edit: "Changed", delete: "Archived", restore: "Restored",
  noop: "Stated again", purge: "Erased", revert: "Undone" };
const HIDDEN = ["id", "text", "created_at", "updated_at", "timestamp", "retrieval_count", "last_retrieved_at",
  "archived_at", "previous_text", "supersedes", "superseded_by", "anchors", "context"]; // shown elsewhere
const UNSAID = [...Object.keys(DONE), "new", "supersede", "mark fresh", "archive", "pin", "unpin", "tag",
  "untag"]; // reasons set by default
const TOLD = 12; // changes whose whole changeset is loaded

/**
 * Return the changes of a memory and its lineage, newest first. Other changes of each changeset are added when loaded.
 */
export async function changes(memory, acts) {
  const told = (await get(path("memory", String(memory.id), "history"))).changes.toReversed();
  const lineage = new Set(told.map((each) => each.memory_id));
  const sums = new Map(); // of changesets by id
  const sum = (id) => sums.get(id) ?? sums.set(id, summed(id, lineage)).get(id);
  const isLast = (each, place) => told.findIndex((other) => other.changeset === each.changeset) === place;
  const steps = told.map((each, place) => step(memory, each, isLast(each, place), sum, acts));
  complete(steps.slice(0, TOLD));
  return make("ol", { class: "history" }, ...steps);
}

async function complete(steps) {
  for (const each of steps) await each.complete(); // one by one, as a changeset may be large
}

/** Return what else a changeset changed, and whether it was undone. Empty if not visible. */
async function summed(id, lineage) {
  const found = await get(path("changes", String(id))).catch(() => ({ changes: [], knowledge: [], undone_by: null }));
  const others = new Set(found.changes.map((each) => each.memory_id).filter((each) => !lineage.has(each)));
  return { others: others.size + found.knowledge.length, isUndone: found.undone_by !== null };
}

async function undo(changeset, acts) {
  const done = await post(path("changes", String(changeset), "undo"));
  await acts.refresh();
  tell("Undone.", undoing(done.id, acts));
}

function step(memory, change, isLast, sum, acts) {
  const beside = make("span", { class: "beside" });
  const pressed = doing(async () => {
    const { others } = await sum(change.changeset);
    if (others) takeBack(others, () => undo(change.changeset, acts));
    else await undo(change.changeset, acts);
  });
  const about = { type: "button", class: "link", onclick: pressed };
  const back = caller.mayWrite && isLast && change.action !== "purge" // a changeset is undone as a whole
    ? make("button", about, "Undo", unseen(` change ${change.changeset}`)) : null;
  const shown = make("li", {},
    make("div", { class: "step" },
      make("strong", {}, DONE[change.action] ?? change.action),
      change.memory_id === memory.id ? null : link(change.memory_id), beside,
      make("span", { class: "dim" }, "by ", said(change.by), " · ", time(change.at)), back),
    why(change), what(change));
  shown.complete = async () => {
    const { others, isUndone } = await sum(change.changeset);
    fill(beside, others ? make("span", { class: "dim" }, `with ${counted(others, "other", "others")}`) : null,
      isUndone ? make("span", { class: "tag" }, "undone") : null);
    if (isUndone) back?.remove();
  };
  return shown;
}

const link = (id) => make("a", { href: `#/${id}` }, `memory ${id}`);

function why(change) {
  const words = [...new Set([change.why, change.reason].filter((each) => each && !UNSAID.includes(each)))];
  return words.length ? make("p", { class: "why" }, said(words.join(" · "))) : null;
}

function what({ action, before, after }) {
  if (!after) return null; // erased, or it no longer exists
  const old = before?.text ?? after.previous_text;
  const texts = old === null || old === undefined
    ? make("p", { class: "changed" }, said(after.text))
    : old === after.text ? null : diff(old, after.text);
  if (!before || action === "noop") return before ? null : texts;
  const isOther = (name) => !HIDDEN.includes(name) && shown(before[name]) !== shown(after[name]);
  const names = Object.keys(after).filter(isOther);
  const list = names.map((name) => make("li", {},
    make("span", { class: "dim" }, `${name.replaceAll("_", " ")} `),
    make("del", {}, said(shown(before[name]) || "none")), unseen(" became "),
    make("span", { "aria-hidden": "true" }, " → "), make("ins", {}, said(shown(after[name]) || "none"))));
  return make("div", {}, ...[texts, list.length ? make("ul", { class: "difference" }, ...list) : null].filter(Boolean));
}

/** Return two texts as one, with removals and additions marked. */
export function diff(before, after) {
  const shown = make("bdi", { class: "words" }, ...difference(before, after));
  for (const each of shown.querySelectorAll("del")) each.prepend(unseen("gone: "));
  for (const each of shown.querySelectorAll("ins")) each.prepend(unseen("new: "));
  return make("p", { class: "changed" }, shown);
}

/** Return a value as text; equal values give equal texts. */
function shown(value) {
  if (typeof value === "number") return plainNumber(Number(value.toFixed(4)));
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value && typeof value === "object") return Object.keys(value).length ? JSON.stringify(value) : "";
  return value ?? "";
}
