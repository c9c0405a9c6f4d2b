/** Forms to add, replace, erase and change memories, one or many. */

import { Refusal, patch, path, post, remove } from "./api.js";
import { button, formatCount, fill, make, newId, userText } from "./dom.js";
import { dialog, field } from "./forms.js";
import { doing } from "./app-shell.js";
import { CATEGORIES, KINDS, VISIBILITIES } from "./memory-labels.js";

const splitList = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);
const WHY = { name: "why", label: "Why", hint: "Shown in the history." };
const PROJECT = { name: "project", label: "Project", hint: "A path or a name. Empty: it belongs to none." };
const PINNED = "Pinned: it is recalled first, and never pruned";
const TAGS = { name: "tags", label: "Tags", hint: "With commas between." };

/** Return the fields as one object, without empty ones. */
function readFields(fields) {
  const read = Object.fromEntries(fields.map((field) => [field.name, field.read()]));
  if (read.tags !== undefined) read.tags = splitList(read.tags);
  return Object.fromEntries(Object.entries(read).filter(([, value]) => value !== "" && value.length !== 0));
}

/** Run after the open dialog has closed, which restores the focus; else now. */
export function afterwards(run) {
  const open = document.querySelector("dialog[open]");
  if (open) open.addEventListener("close", run, { once: true });
  else run();
}

/** Form for a new memory. `done(told)` gets the service's reply: added or already known. */
export function add(begun, done) {
  const text = field({ name: "text", label: "What is to be remembered", kind: "area", needed: true }, begun.text);
  text.input.rows = 4;
  const moreFields = [
    field({ name: "kind", label: "Kind", choices: KINDS }, begun.kind || "other"),
    field(PROJECT, begun.project),
    field(TAGS, begun.tags),
    field({ name: "visibility", label: "Who sees it", choices: VISIBILITIES }),
  ];
  const save = async () => done(await post("memory/add", readFields([text, ...moreFields])));
  dialog("Add a memory", save, "Add", text, make("div", { class: "fields" }, ...moreFields));
}

/** Form for a memory that replaces an old one. */
export function replaceText(memory, done) {
  const text = field({ name: "new_text", label: "What holds now", kind: "area", needed: true }, memory.text);
  text.input.rows = 5;
  const reasonField = field(WHY);
  const save = async () => {
    if (text.read() === memory.text) throw new Refusal("The text is unchanged.", "Enter the new text.");
    await done(await post("memory/supersede", { old_id: memory.id, ...readFields([text, reasonField]) }));
  };
  const note = make("p", { class: "dim" }, "The old one is archived, and stays in the history of the new one.");
  dialog("Reword", save, "Replace it", note, text, reasonField);
}

/** Ask before a memory is erased permanently. */
export function erase(memory, done) {
  const sure = field({ name: "sure", label: "I know that it cannot be restored", kind: "tick" });
  const reasonField = field(WHY);
  const save = async () => {
    if (!sure.read()) throw new Refusal("Nothing was erased.", "Tick the box, or archive it instead.");
    await done(await remove(path("memory", String(memory.id)), { purge: true, ...readFields([reasonField]) }));
  };
  const element = dialog(
    "Erase this memory for good?",
    save,
    "Erase for good",
    make("blockquote", { class: "quote" }, userText(memory.text)),
    make(
      "p",
      {},
      "Its text is also erased from the history and from the conversation it was learned from, and so is the " +
        "domain knowledge that was read from it. This cannot be undone.",
    ),
    sure,
    reasonField,
  );
  element.querySelector(".primary").classList.add("erase");
  sure.input.focus();
}

/** Ask before an undo that reverts more than one change. */
export function takeBack(otherCount, undo) {
  dialog("Undo the whole change?", undo, "Undo it", make("p", {},
    `It was done together with ${formatCount(otherCount, "other", "others")}. ` +
    "All of it is undone, and can be restored."));
}

// ── many at once ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Ask for the new category of these memories. */
export function setCategory(memories, done) {
  const category = field({ name: "category", label: "Category", choices: CATEGORIES }, memories[0].category);
  dialog(`Set the category of ${formatCount(memories.length, "memory", "memories")}`,
    () => done("edit", { changes: { category: category.read() } }), "Set", category);
}

/** Ask for the tags to add. */
export function addTag(memories, knownTags, done) {
  const list = newId("tags");
  const tags = field({ ...TAGS, needed: true });
  tags.input.setAttribute("list", list);
  tags.append(make("datalist", { id: list }, ...knownTags.map((tag) => make("option", { value: tag }))));
  dialog(`Tag ${formatCount(memories.length, "memory", "memories")}`,
    () => done("tag", { tags: splitList(tags.read()) }), "Add", tags);
}

// ── in its place ───────────────────────────────────────────────────────────────────────────────────────────────────

const MEANWHILE = "It was changed meanwhile. Your edits are kept; other fields keep the new values.";
const drafts = new Map(); // unsaved edits by memory id, restored when the memory is opened again

export const hasDraft = (id) => drafts.has(id);
export const dropDrafts = () => drafts.clear();

/** Form to edit a memory; `.meanwhile()` announces a change by another user. */
export function editing(memory, done, left) {
  const begun = drafts.get(memory.id) ?? {};
  const was = { ...memory, tags: memory.tags.join(", ") };
  const text = field({ name: "text", label: "Text", kind: "area", needed: true }, begun.text ?? was.text);
  text.input.rows = Math.min(14, Math.max(4, Math.ceil(memory.text.length / 60)));
  const fields = [
    text,
    field({ name: "kind", label: "Kind", choices: KINDS }, begun.kind ?? was.kind),
    field({ name: "category", label: "Category", choices: CATEGORIES }, begun.category ?? was.category),
    field(TAGS, begun.tags ?? was.tags),
    field({ name: "project", label: "Project" }, begun.project ?? was.project),
    field({ name: "pinned", label: PINNED, kind: "tick" }, begun.pinned ?? was.pinned),
    field(WHY, begun.why),
  ];
  const values = () => Object.fromEntries(fields.map(({ name, input }) =>
    [name, input.type === "checkbox" ? input.checked : input.value]));
  const wrong = make("div", { role: "alert" });
  const news = make("p", { class: "meanwhile", role: "status" });
  const save = doing(async () => {
    fill(wrong);
    text.read();
    const changes = changed(was, values());
    if (Object.keys(changes).every((name) => name === "why")) return leave();
    const reply = await patch(path("memory", String(memory.id)), changes);
    drafts.delete(memory.id);
    await done(reply);
  }, wrong);
  const leave = () => {
    drafts.delete(memory.id);
    left();
  };
  const escape = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // otherwise the whole pane closes
    if (!drafts.has(memory.id)) leave(); // a key press does not discard edits
  };
  const about = { class: "editing", "aria-label": `Edit memory ${memory.id}`, novalidate: true };
  const note = () => drafts.set(memory.id, values());
  const form = make("form", { ...about, onsubmit: save, oninput: note, onkeydown: escape },
    news, text, make("div", { class: "fields" }, ...fields.slice(1)), wrong,
    make("div", { class: "actions" }, make("button", { class: "primary" }, "Save"), button("Cancel", leave)));
  form.meanwhile = () => fill(news, MEANWHILE);
  return form;
}

/** Return the changed fields as the service takes them. A new kind sets its own category, unless one was chosen. */
function changed(was, now) {
  const names = ["text", "kind", "category", "tags", "project", "pinned"];
  const trimmed = (value) => (typeof value === "string" ? value.trim() : value);
  const edits = Object.fromEntries(names.filter((name) => trimmed(now[name]) !== trimmed(was[name]))
    .map((name) => [name, name === "tags" ? splitList(now.tags) : trimmed(now[name])]));
  return now.why.trim() ? { ...edits, why: now.why.trim() } : edits;
}
