/**
 * Results of a dry run as cards: what is archived, what is added or stays, and why. Each is approved or skipped alone.
 */

import { get, path, post } from "./api.js";
import { folded, memory } from "./captures.js";
import { beyond, sides } from "./diff.js";
import { button, fill, make, plainNumber, userText, time, srOnly } from "./dom.js";
import { doing, notify } from "./app-shell.js";

const SHOWN = 20; // cards drawn at a time
const AT_ONCE = 900; // approximate number of decisions approved per changeset

export const repeats = (callbacks) => looking({
  chore: "consolidate",
  word: "Look for duplicates",
  says: "Similar memories are compared, and a model, if configured, is asked how to merge several "
    + "into one. It can take a minute. Nothing is changed by looking.",
  none: "No duplicates found.",
}, callbacks);

export const unused = (callbacks) => looking({
  chore: "prune",
  word: "Look for unused memories",
  says: "Memories not recalled for months; pinned ones stay. A model, if configured, is asked whether they are "
    + "still worth keeping. It can take a minute. Nothing is changed by looking.",
  none: "There is nothing to archive.",
}, callbacks);

/** Return the button with the plan below it. */
function looking({ chore, word, says, none }, callbacks) {
  const out = make("div", { class: "plan" });
  const look = async () => {
    const plan = await post(`maintenance/${chore}?dry_run=true`, null);
    fill(out, ...renderPlan(plan, none, callbacks));
  };
  return asking(word, says, out, look);
}

/** Return a button that starts a search, shows the elapsed time, and shows the result below it. */
export function asking(word, says, out, look) {
  const busy = make("p", { class: "busy", role: "status" });
  const start = doing(async (event) => {
    const began = Date.now();
    const seconds = make("span", { "aria-hidden": "true" });
    fill(busy, make("progress", { "aria-label": "Looking" }), "Looking through the memories … ", seconds);
    const count = setInterval(() => fill(seconds, `${Math.round((Date.now() - began) / 1000)} s`), 1_000);
    event.currentTarget.classList.remove("primary");
    try {
      await look();
    } finally {
      clearInterval(count);
      fill(busy);
    }
  }, out);
  return make("div", { class: "looking" },
    make("div", { class: "asked" }, make("p", { class: "dim" }, says), button(word, start, "primary")),
    busy, out);
}

// ── the plan ───────────────────────────────────────────────────────────────────────────────────────────────────────

function renderPlan(plan, none, callbacks) {
  const cards = together(plan.decisions).map((group) => proposal(plan, group, callbacks));
  const list = make("ul", { class: "cards" });
  const more = make("div", { class: "after" });
  const further = () => {
    const next = cards.slice(list.children.length, list.children.length + SHOWN);
    list.append(...next);
    for (const card of next) card.load();
    const left = cards.length - list.children.length;
    fill(more, left ? button(`Show more of the other ${plainNumber(left)}`, goOn, "further") : null);
    return next[0];
  };
  const goOn = () => further()?.focus();
  further();
  return [
    make("div", { class: "found-line" }, make("p", { role: "status" }, summariseCount(plan, cards.length, none)),
      cards.length > 1 ? approvingAll(plan, cards, callbacks) : null),
    plan.note ? make("p", { class: "dim" }, userText(plan.note)) : null,
    cards.length ? list : null, more, refusals(plan.refused),
  ];
}

function summariseCount(plan, count, none) {
  const looked = `${plainNumber(plan.examined)} ${plan.examined === 1 ? "memory was" : "memories were"} looked at. `;
  if (!count) return looked + none;
  if (plan.chore === "prune") return `${looked}${plainNumber(count)} would be archived.`;
  return `${looked}${count === 1 ? "One merge is" : `${plainNumber(count)} merges are`} proposed.`;
}

/** Group decisions that touch the same memories: they are applied together. */
function together(decisions) {
  const groups = new Map(); // group by memory id
  for (const decision of decisions) {
    const touching = [...new Set(ids(decision).map((id) => groups.get(id)).filter(Boolean))];
    const group = { decisions: [...touching.flatMap((merged) => merged.decisions), decision] };
    for (const id of group.decisions.flatMap(ids)) groups.set(id, group);
  }
  return [...new Set(groups.values())].map((group) => group.decisions);
}

const ids = ({ id, ids: several, into }) => several ?? [id, into].filter((value) => value !== undefined);

/** Approve all remaining cards at once, with one undo for all. */
function approvingAll(plan, cards, callbacks) {
  const place = make("span", { class: "all" });
  const approve = doing(async () => {
    const open = cards.filter((card) => card.isOpen());
    const changesets = [];
    for (const some of inParts(open)) {
      const decisions = some.flatMap((card) => card.decisions);
      const as_of = some[0].asOf ?? plan.as_of;
      const changeset = await post("maintenance/approve", { chore: plan.chore, as_of, decisions });
      changesets.push(changeset.id);
      for (const card of some) card.settle("Approved with all the others.", null);
    }
    callbacks.changed();
    if (!changesets.length) return notify("Nothing is left to approve.");
    notify(open.length === 1 ? "It is done." : `All ${plainNumber(open.length)} are done.`);
    fill(place, button("Undo all", doing(() => takeBack(open, changesets))));
    place.querySelector("button").focus();
  });
  const takeBack = async (open, changesets) => {
    let undone = null;
    for (const changeset of changesets.toReversed()) undone = await post(path("changes", String(changeset), "undo"));
    for (const card of open) card.offer(undone.id);
    callbacks.changed();
    offer();
    place.querySelector("button").focus();
    notify("All of it is undone.");
  };
  const offer = () => fill(place, button("Approve all", approve));
  offer();
  return place;
}

/** Split into as few changesets as possible without splitting a card; undone cards are separate. */
function inParts(cards) {
  const parts = [[]];
  let size = 0;
  for (const card of cards.toSorted((one, other) => (one.asOf ?? 0) - (other.asOf ?? 0))) {
    const isOther = size > 0 && parts.at(-1)[0].asOf !== card.asOf;
    if (isOther || (size && size + card.decisions.length > AT_ONCE)) {
      parts.push([]);
      size = 0;
    }
    parts.at(-1).push(card);
    size += card.decisions.length;
  }
  return parts.filter((part) => part.length);
}

// ── a card ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Card of a proposal, to approve or skip.
 * @returns {HTMLLIElement & { decisions: object[], load: () => Promise<void> }} with what `card` has
 */
function proposal(plan, decisions, callbacks) {
  const texts = make("div", { class: "texts" }, make("p", { class: "calm" }, "Looking them up …"));
  const approve = (as_of) => () => post("maintenance/approve", { chore: plan.chore, as_of, decisions });
  const element = card(texts, reasonNodes(decisions), callbacks, (as_of) => [
    ["Approve", "primary", approve(as_of ?? plan.as_of)],
  ]);
  element.decisions = decisions;
  element.load = async () => {
    const memories = new Map();
    const memoryIds = [...new Set(decisions.flatMap(ids))];
    await Promise.all(
      memoryIds.map(async (id) => memories.set(id, await get(path("memory", String(id))).catch(() => null))),
    );
    fill(
      texts,
      ...(plan.chore === "prune" ? decisions.map(({ id }) => isArchived(id, memories)) : merged(decisions, memories)),
    );
  };
  return element;
}

function reasonNodes(decisions) {
  const reasons = [...new Set(decisions.map((decision) => decision.reason).filter(Boolean))];
  return reasons.length ? make("p", { class: "dim why-line" }, userText(reasons.join(" · "))) : null;
}

/**
 * Card with its buttons; after a click, with the outcome and an undo.
 * `offers(as_of)` returns the buttons: label, kind, action, and message. After an undo they are offered again, and
 * `as_of` is that undo, as the card shows the state it restored.
 */
export function card(texts, reason, callbacks, offers) {
  const bottom = make("div", { class: "bottom" });
  const element = make("li", { class: "card", tabindex: "-1" }, texts, reason, bottom);
  let open = true;
  element.isOpen = () => open;
  element.settle = (word, back, after = null) => {
    open = false;
    const focused = element.contains(document.activeElement);
    element.classList.add("settled");
    fill(bottom, make("p", { class: "done-line" }, make("strong", {}, word), " ", back));
    if (focused) (back ?? element).focus();
    after?.();
  };
  element.offer = (as_of = null) => {
    open = true;
    element.asOf = as_of;
    const focused = element.contains(document.activeElement);
    element.classList.remove("settled");
    const press = ([word, kind, act, then = "Done."]) => button(word, doing(async () => {
      const changeset = await act();
      element.settle(then, undo(changeset.id), () => element.onsettled?.(changeset));
      callbacks.changed();
      notify(then);
    }), kind);
    const left = () => element.settle("Left as it is", button("Bring back", () => element.offer(as_of), "link"));
    fill(bottom, make("div", { class: "actions" }, ...offers(as_of).map(press), button("Leave", left)));
    if (focused) bottom.querySelector("button").focus();
  };
  const undo = (changeset) => make("button", { type: "button", class: "link", onclick: doing(async () => {
    const undone = await post(path("changes", String(changeset), "undo"));
    element.offer(undone.id);
    element.onundone?.(undone);
    callbacks.changed();
    notify("Undone.");
  }) }, "Undo", srOnly(` changeset ${changeset}`));
  element.offer();
  return element;
}

/** Return what is removed and added by merges; what is removed and stays for duplicates. */
function merged(decisions, memories) {
  const parts = [];
  for (const { ids: several, text } of decisions.filter((decision) => decision.action === "merge")) {
    const members = several.map((id) => [id, memories.get(id)?.text ?? ""]);
    parts.push(
      ...members.map(([id, words]) => side("Goes", id, memories, sides(words, text)[0], "gone")),
      side("Comes", null, memories, beyond(text, members.map(([, words]) => words)), "come"));
  }
  const heirs = [...new Set(decisions.filter((decision) => decision.into).map((decision) => decision.into))];
  for (const heir of heirs) {
    const keptText = memories.get(heir)?.text ?? "";
    const copies = decisions.filter((decision) => decision.into === heir);
    parts.push(
      ...copies.map(({ id }) => side("Goes", id, memories, sides(memories.get(id)?.text ?? "", keptText)[0], "gone")),
      side("Stays", heir, memories, [keptText], "come"));
  }
  return parts;
}

/** Return one text of a card: what happens to it, its memory, and its words with differences marked. */
function side(word, id, memories, nodes, kind) {
  const known = id === null ? null : memories.get(id);
  const isThere = id === null || known;
  return make("div", { class: `side ${kind}` },
    make("p", { class: "side-head" }, make("strong", {}, word), id === null ? null : memory(id),
      known ? make("span", { class: "dim" }, time(known.created_at)) : null),
    make("div", { class: "words" }, isThere ? folded(...nodes) : make("p", { class: "calm" }, "It no longer exists.")));
}

function isArchived(id, memories) {
  const known = memories.get(id);
  const place = known ? [known.category, known.project || known.source].filter(Boolean).join(" · ") : "";
  return make("div", { class: "side gone" },
    make("p", { class: "side-head" }, make("strong", {}, "Would be archived"), memory(id),
      known ? make("span", { class: "dim" }, time(known.created_at)) : null,
      place ? make("span", { class: "dim" }, userText(place)) : null),
    known ? folded(known.text) : make("p", { class: "calm" }, "It no longer exists."));
}

// ── what was refused ───────────────────────────────────────────────────────────────────────────────────────────────

function refusals(refused) {
  if (!refused.length) return null;
  const word = refused.length === 1 ? "One was left as it is" : `${plainNumber(refused.length)} were left as they are`;
  const line = ({ ids: several, reason, proposed }) => make("li", {},
    make("p", {}, userText(reason)),
    make("p", { class: "dim" }, ...several.flatMap((id, place) => [place ? ", " : "", memory(id)])),
    ...proposed.map((text) => make("p", { class: "dim" }, "proposed: ", userText(text))));
  return make("details", { class: "refused" }, make("summary", {}, `${word}, and why`),
    make("ul", { class: "found" }, ...refused.map(line)));
}
