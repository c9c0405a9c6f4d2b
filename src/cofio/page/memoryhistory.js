/** What happened to a memory and to those that it came from: every change, what it changed, and a way to take it back. */

import { get, path } from "./api.js";
import { make, plainNumber, said, time, unseen } from "./dom.js";
import { caller } from "./frame.js";
import { counted, difference } from "./memorywords.js";
import { undoing } from "./rows.js";

const DONE = { add: "Kept", update: "Said anew", edit: "Changed", delete: "Archived", restore: "Brought back",
  noop: "Said again", purge: "Erased", revert: "Taken back" };
const HIDDEN = ["id", "text", "created_at", "updated_at", "timestamp", "retrieval_count", "last_retrieved_at", "archived_at",
  "previous_text", "supersedes", "superseded_by", "anchors", "context"]; // what is said elsewhere, or by the act itself
const UNSAID = ["add", "edit", "delete", "restore", "purge", "supersede", "confirm", ...Object.keys(DONE), "archive", "pin",
  "unpin", "tag", "untag", "new"]; // reasons where none was given
const TOLD = 12; // changes whose whole changeset is asked for

/** The changes of a memory and its lineage, newest first. */
export async function changes(memory, acts) {
  const told = (await get(path("memory", String(memory.id), "history"))).changes.toReversed();
  const newest = [...new Set(told.map((each) => each.changeset))].slice(0, TOLD);
  const wholes = new Map(await Promise.all(newest.map(async (each) => [each, await whole(each)])));
  return make("ol", { class: "history" }, ...told.map((each) => step(memory, each, wholes.get(each.changeset), acts)));
}

/** The changeset that a change is of: what else it moved, and whether it was undone. None where it may not be seen. */
const whole = (changeset) => get(path("changes", String(changeset))).catch(() => null);

function step(memory, change, changeset, acts) {
  const others = changeset ? changeset.changes.length + changeset.knowledge.length - 1 : 0;
  const undone = changeset?.undone_by;
  const about = { type: "button", class: "link", onclick: undoing(change.changeset, acts) };
  const back = caller.mayWrite && !undone && change.action !== "purge"
    ? make("button", about, "Undo", unseen(` change ${change.changeset}`)) : null;
  return make("li", {},
    make("div", { class: "step" },
      make("strong", {}, DONE[change.action] ?? change.action),
      change.memory_id === memory.id ? null : link(change.memory_id),
      others > 0 ? make("span", { class: "dim" }, `with ${counted(others, "more", "more")}`) : null,
      undone ? make("span", { class: "tag" }, "undone") : null,
      make("span", { class: "dim" }, "by ", said(change.by), " · ", time(change.at)), back),
    why(change), what(change));
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
  const names = Object.keys(after).filter((name) => !HIDDEN.includes(name) && shown(before[name]) !== shown(after[name]));
  const list = names.map((name) => make("li", {},
    make("span", { class: "dim" }, `${name.replaceAll("_", " ")} `),
    make("del", {}, said(shown(before[name]) || "none")), unseen(" became "),
    make("span", { "aria-hidden": "true" }, " → "), make("ins", {}, said(shown(after[name]) || "none"))));
  return make("div", {}, ...[texts, list.length ? make("ul", { class: "difference" }, ...list) : null].filter(Boolean));
}

/** Two texts as one, with what went and what came marked. */
export function diff(before, after) {
  const sorts = { gone: ["del", "gone: "], new: ["ins", "new: "] };
  const parts = difference(before, after).map(([how, text]) => {
    if (how === "same") return make("span", {}, text);
    const [tag, word] = sorts[how];
    return make(tag, {}, unseen(word), text);
  });
  const shown = make("bdi", { class: "diff" });
  shown.append(...parts);
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
