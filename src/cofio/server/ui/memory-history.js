/** History of a memory and its lineage: every change, its effect, and an undo. */

import { get, path, post } from "./api.js";
import { difference } from "./diff.js";
import { formatCount, fill, make, plainNumber, userText, time, srOnly } from "./dom.js";
import { caller, doing, notify, undoing } from "./app-shell.js";
import { takeBack } from "./memory-forms.js";

const DONE = { add: "Kept", update: "Reworded", edit: "Changed", delete: "Archived", restore: "Restored",
  noop: "Stated again", purge: "Erased", revert: "Undone" };
const HIDDEN = ["id", "text", "created_at", "updated_at", "timestamp", "retrieval_count", "last_retrieved_at",
  "archived_at", "previous_text", "supersedes", "superseded_by", "anchors", "context"]; // shown elsewhere
const UNSAID = [...Object.keys(DONE), "new", "supersede", "mark fresh", "archive", "pin", "unpin", "tag",
  "untag"]; // reasons set by default
const MOST_LOADED = 12; // changes whose whole changeset is loaded

/**
 * Return the changes of a memory and its lineage, newest first. Other changes of each changeset are added when loaded.
 */
export async function changes(memory, callbacks) {
  const history = (await get(path("memory", String(memory.id), "history"))).changes.toReversed();
  const lineage = new Set(history.map((change) => change.memory_id));
  const sums = new Map(); // of changesets by id
  const sum = (id) => sums.get(id) ?? sums.set(id, summed(id, lineage)).get(id);
  const isLast = (change, place) => history.findIndex((other) => other.changeset === change.changeset) === place;
  const steps = history.map((change, place) => step(memory, change, isLast(change, place), sum, callbacks));
  complete(steps.slice(0, MOST_LOADED));
  return make("ol", { class: "history" }, ...steps);
}

async function complete(steps) {
  for (const step of steps) await step.complete(); // one by one, as a changeset may be large
}

/** Return what else a changeset changed, and whether it was undone. Empty if not visible. */
async function summed(id, lineage) {
  const changeset = await get(path("changes", String(id))).catch(() => ({
    changes: [],
    knowledge: [],
    undone_by: null,
  }));
  const others = new Set(changeset.changes.map((id) => id.memory_id).filter((id) => !lineage.has(id)));
  return { others: others.size + changeset.knowledge.length, isUndone: changeset.undone_by !== null };
}

async function undo(changeset, callbacks) {
  const undone = await post(path("changes", String(changeset), "undo"));
  await callbacks.refresh();
  notify("Undone.", undoing(undone.id, callbacks));
}

function step(memory, change, isLast, sum, callbacks) {
  const beside = make("span", { class: "beside" });
  const pressed = doing(async () => {
    const { others } = await sum(change.changeset);
    if (others) takeBack(others, () => undo(change.changeset, callbacks));
    else await undo(change.changeset, callbacks);
  });
  const about = { type: "button", class: "link", onclick: pressed };
  const back = caller.mayWrite && isLast && change.action !== "purge" // a changeset is undone as a whole
    ? make("button", about, "Undo", srOnly(` change ${change.changeset}`)) : null;
  const element = make("li", {},
    make("div", { class: "step" },
      make("strong", {}, DONE[change.action] ?? change.action),
      change.memory_id === memory.id ? null : link(change.memory_id), beside,
      make("span", { class: "dim" }, "by ", userText(change.by), " · ", time(change.at)), back),
    reasons(change), describeChange(change));
  element.complete = async () => {
    const { others, isUndone } = await sum(change.changeset);
    fill(beside, others ? make("span", { class: "dim" }, `with ${formatCount(others, "other", "others")}`) : null,
      isUndone ? make("span", { class: "tag" }, "undone") : null);
    if (isUndone) back?.remove();
  };
  return element;
}

const link = (id) => make("a", { href: `#/${id}` }, `memory ${id}`);

function reasons(change) {
  const words = [...new Set([change.why, change.reason].filter((reason) => reason && !UNSAID.includes(reason)))];
  return words.length ? make("p", { class: "why" }, userText(words.join(" · "))) : null;
}

function describeChange({ action, before, after }) {
  if (!after) return null; // erased, or it no longer exists
  const old = before?.text ?? after.previous_text;
  const texts = old === null || old === undefined
    ? make("p", { class: "changed" }, userText(after.text))
    : old === after.text ? null : diff(old, after.text);
  if (!before || action === "noop") return before ? null : texts;
  const isOther = (name) => !HIDDEN.includes(name) && displayValue(before[name]) !== displayValue(after[name]);
  const names = Object.keys(after).filter(isOther);
  const list = names.map((name) => make("li", {},
    make("span", { class: "dim" }, `${name.replaceAll("_", " ")} `),
    make("del", {}, userText(displayValue(before[name]) || "none")), srOnly(" became "),
    make("span", { "aria-hidden": "true" }, " → "), make("ins", {}, userText(displayValue(after[name]) || "none"))));
  return make("div", {}, ...[texts, list.length ? make("ul", { class: "difference" }, ...list) : null].filter(Boolean));
}

/** Return two texts as one, with removals and additions marked. */
export function diff(before, after) {
  const words = make("bdi", { class: "words" }, ...difference(before, after));
  for (const element of words.querySelectorAll("del")) element.prepend(srOnly("gone: "));
  for (const element of words.querySelectorAll("ins")) element.prepend(srOnly("new: "));
  return make("p", { class: "changed" }, words);
}

/** Return a value as text; equal values give equal texts. */
function displayValue(value) {
  if (typeof value === "number") return plainNumber(Number(value.toFixed(4)));
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value && typeof value === "object") return Object.keys(value).length ? JSON.stringify(value) : "";
  return value ?? "";
}
