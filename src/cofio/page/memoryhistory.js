/** What happened to a memory and to those that it came from: every change, what it did, and a way to take it back. */

import { get, path, post } from "./api.js";
import { difference } from "./diff.js";
import { counted, fill, make, plainNumber, said, time, unseen } from "./dom.js";
import { caller, doing, tell, undoing } from "./frame.js";
import { takeBack } from "./memoryforms.js";

const DONE = { add: "Kept", update: "Said anew", edit: "Changed", delete: "Archived", restore: "Brought back",
  noop: "Said again", purge: "Erased", revert: "Taken back" };
const HIDDEN = ["id", "text", "created_at", "updated_at", "timestamp", "retrieval_count", "last_retrieved_at",
  "archived_at", "previous_text", "supersedes", "superseded_by", "anchors", "context"]; // said elsewhere, or by the act
const UNSAID = [...Object.keys(DONE), "new", "supersede", "confirm", "archive", "pin", "unpin", "tag",
  "untag"]; // reasons where none was given
const TOLD = 12; // changes whose whole changeset is asked for

/** The changes of a memory and its lineage, newest first. What else was done with each is told as it comes in. */
export async function changes(memory, acts) {
  const told = (await get(path("memory", String(memory.id), "history"))).changes.toReversed();
  const lineage = new Set(told.map((each) => each.memory_id));
  const sums = new Map(); // of changesets, by their ids
  const sum = (id) => sums.get(id) ?? sums.set(id, summed(id, lineage)).get(id);
  const isLast = (each, place) => told.findIndex((other) => other.changeset === each.changeset) === place;
  const steps = told.map((each, place) => step(memory, each, isLast(each, place), sum, acts));
  complete(steps.slice(0, TOLD));
  return make("ol", { class: "history" }, ...steps);
}

async function complete(steps) {
  for (const each of steps) await each.complete(); // one by one: a changeset may be long
}

/** What a changeset did beside this lineage, and whether it was undone. Nothing where it may not be seen. */
async function summed(id, lineage) {
  const found = await get(path("changes", String(id))).catch(() => ({ changes: [], knowledge: [], undone_by: null }));
  const others = new Set(found.changes.map((each) => each.memory_id).filter((each) => !lineage.has(each)));
  return { others: others.size + found.knowledge.length, isUndone: found.undone_by !== null };
}

async function undo(changeset, acts) {
  const done = await post(path("changes", String(changeset), "undo"));
  await acts.refresh();
  tell("Taken back.", undoing(done.id, acts));
}

function step(memory, change, isLast, sum, acts) {
  const beside = make("span", { class: "beside" });
  const pressed = doing(async () => {
    const { others } = await sum(change.changeset);
    if (others) takeBack(others, () => undo(change.changeset, acts));
    else await undo(change.changeset, acts);
  });
  const about = { type: "button", class: "link", onclick: pressed };
  const back = caller.mayWrite && isLast && change.action !== "purge" // a changeset is taken back as a whole
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
  if (!after) return null; // it is erased, or is no longer there
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

/** Two texts as one, with what went and what came marked. */
export function diff(before, after) {
  const shown = make("bdi", { class: "words" }, ...difference(before, after));
  for (const each of shown.querySelectorAll("del")) each.prepend(unseen("gone: "));
  for (const each of shown.querySelectorAll("ins")) each.prepend(unseen("new: "));
  return make("p", { class: "changed" }, shown);
}

/** A value as text: the same text, the same value. */
function shown(value) {
  if (typeof value === "number") return plainNumber(Number(value.toFixed(4)));
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value && typeof value === "object") return Object.keys(value).length ? JSON.stringify(value) : "";
  return value ?? "";
}
