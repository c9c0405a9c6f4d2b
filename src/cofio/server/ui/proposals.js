/**
 * Results of a dry run as cards: what is archived, what is added or stays, and why. Each is approved or skipped alone.
 */

import { get, path, post } from "./api.js";
import { folded, memory } from "./captures.js";
import { beyond, sides } from "./diff.js";
import { button, fill, make, plainNumber, said, time, unseen } from "./dom.js";
import { doing, tell } from "./app-shell.js";

const SHOWN = 20; // cards drawn at a time
const AT_ONCE = 900; // approximate number of decisions approved per changeset

export const repeats = (acts) => looking({
  chore: "consolidate",
  word: "Look for duplicates",
  says: "Similar memories are compared, and a model, if configured, is asked how to merge several "
    + "into one. It can take a minute. Nothing is changed by looking.",
  none: "No duplicates found.",
}, acts);

export const unused = (acts) => looking({
  chore: "prune",
  word: "Look for unused memories",
  says: "Memories not recalled for months; pinned ones stay. A model, if configured, is asked whether they are "
    + "still worth keeping. It can take a minute. Nothing is changed by looking.",
  none: "There is nothing to archive.",
}, acts);

/** Return the button with the plan below it. */
function looking({ chore, word, says, none }, acts) {
  const out = make("div", { class: "plan" });
  const look = async () => {
    const plan = await post(`maintenance/${chore}?dry_run=true`, null);
    fill(out, ...drawn(plan, none, acts));
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

function drawn(plan, none, acts) {
  const cards = together(plan.decisions).map((each) => proposal(plan, each, acts));
  const list = make("ul", { class: "cards" });
  const more = make("div", { class: "after" });
  const further = () => {
    const next = cards.slice(list.children.length, list.children.length + SHOWN);
    list.append(...next);
    for (const each of next) each.load();
    const left = cards.length - list.children.length;
    fill(more, left ? button(`Show more of the other ${plainNumber(left)}`, goOn, "further") : null);
    return next[0];
  };
  const goOn = () => further()?.focus();
  further();
  return [
    make("div", { class: "found-line" }, make("p", { role: "status" }, counted(plan, cards.length, none)),
      cards.length > 1 ? approvingAll(plan, cards, acts) : null),
    plan.note ? make("p", { class: "dim" }, said(plan.note)) : null,
    cards.length ? list : null, more, refusals(plan.refused),
  ];
}

function counted(plan, count, none) {
  const looked = `${plainNumber(plan.examined)} ${plan.examined === 1 ? "memory was" : "memories were"} looked at. `;
  if (!count) return looked + none;
  if (plan.chore === "prune") return `${looked}${plainNumber(count)} would be archived.`;
  return `${looked}${count === 1 ? "One merge is" : `${plainNumber(count)} merges are`} proposed.`;
}

/** Group decisions that touch the same memories: they are applied together. */
function together(decisions) {
  const groups = new Map(); // group by memory id
  for (const decision of decisions) {
    const found = [...new Set(ids(decision).map((id) => groups.get(id)).filter(Boolean))];
    const group = { decisions: [...found.flatMap((each) => each.decisions), decision] };
    for (const id of group.decisions.flatMap(ids)) groups.set(id, group);
  }
  return [...new Set(groups.values())].map((each) => each.decisions);
}

const ids = ({ id, ids: several, into }) => several ?? [id, into].filter((each) => each !== undefined);

/** Approve all remaining cards at once, with one undo for all. */
function approvingAll(plan, cards, acts) {
  const place = make("span", { class: "all" });
  const approve = doing(async () => {
    const open = cards.filter((each) => each.isOpen());
    const changesets = [];
    for (const some of inParts(open)) {
      const decisions = some.flatMap((each) => each.decisions);
      const as_of = some[0].asOf ?? plan.as_of;
      const done = await post("maintenance/approve", { chore: plan.chore, as_of, decisions });
      changesets.push(done.id);
      for (const each of some) each.settle("Approved with all the others.", null);
    }
    acts.changed();
    if (!changesets.length) return tell("Nothing is left to approve.");
    tell(open.length === 1 ? "It is done." : `All ${plainNumber(open.length)} are done.`);
    fill(place, button("Undo all", doing(() => takeBack(open, changesets))));
    place.querySelector("button").focus();
  });
  const takeBack = async (open, changesets) => {
    let undone = null;
    for (const each of changesets.toReversed()) undone = await post(path("changes", String(each), "undo"));
    for (const each of open) each.offer(undone.id);
    acts.changed();
    offer();
    place.querySelector("button").focus();
    tell("All of it is undone.");
  };
  const offer = () => fill(place, button("Approve all", approve));
  offer();
  return place;
}

/** Split into as few changesets as possible without splitting a card; undone cards are separate. */
function inParts(cards) {
  const parts = [[]];
  let size = 0;
  for (const each of cards.toSorted((one, other) => (one.asOf ?? 0) - (other.asOf ?? 0))) {
    const isOther = size > 0 && parts.at(-1)[0].asOf !== each.asOf;
    if (isOther || (size && size + each.decisions.length > AT_ONCE)) {
      parts.push([]);
      size = 0;
    }
    parts.at(-1).push(each);
    size += each.decisions.length;
  }
  return parts.filter((each) => each.length);
}

// ── a card ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Card of a proposal, to approve or skip.
 * @returns {HTMLLIElement & { decisions: object[], load: () => Promise<void> }} with what `card` has
 */
function proposal(plan, decisions, acts) {
  const texts = make("div", { class: "texts" }, make("p", { class: "calm" }, "Looking them up …"));
  const approve = (as_of) => () => post("maintenance/approve", { chore: plan.chore, as_of, decisions });
  const shown = card(texts, why(decisions), acts, (as_of) => [["Approve", "primary", approve(as_of ?? plan.as_of)]]);
  shown.decisions = decisions;
  shown.load = async () => {
    const known = new Map();
    const wanted = [...new Set(decisions.flatMap(ids))];
    await Promise.all(wanted.map(async (id) => known.set(id, await get(path("memory", String(id))).catch(() => null))));
    fill(texts, ...(plan.chore === "prune" ? decisions.map(({ id }) => dead(id, known)) : merged(decisions, known)));
  };
  return shown;
}

function why(decisions) {
  const reasons = [...new Set(decisions.map((each) => each.reason).filter(Boolean))];
  return reasons.length ? make("p", { class: "dim why-line" }, said(reasons.join(" · "))) : null;
}

/**
 * Card with its buttons; after a click, with the outcome and an undo.
 * `offers(as_of)` returns the buttons: label, kind, action, and message. After an undo they are offered again, and
 * `as_of` is that undo, as the card shows the state it restored.
 */
export function card(texts, reason, acts, offers) {
  const bottom = make("div", { class: "bottom" });
  const shown = make("li", { class: "card", tabindex: "-1" }, texts, reason, bottom);
  let open = true;
  shown.isOpen = () => open;
  shown.settle = (word, back, after = null) => {
    open = false;
    const held = shown.contains(document.activeElement);
    shown.classList.add("settled");
    fill(bottom, make("p", { class: "done-line" }, make("strong", {}, word), " ", back));
    if (held) (back ?? shown).focus();
    after?.();
  };
  shown.offer = (as_of = null) => {
    open = true;
    shown.asOf = as_of;
    const held = shown.contains(document.activeElement);
    shown.classList.remove("settled");
    const press = ([word, kind, act, then = "Done."]) => button(word, doing(async () => {
      const done = await act();
      shown.settle(then, undo(done.id), () => shown.onsettled?.(done));
      acts.changed();
      tell(then);
    }), kind);
    const left = () => shown.settle("Left as it is", button("Bring back", () => shown.offer(as_of), "link"));
    fill(bottom, make("div", { class: "actions" }, ...offers(as_of).map(press), button("Leave", left)));
    if (held) bottom.querySelector("button").focus();
  };
  const undo = (changeset) => make("button", { type: "button", class: "link", onclick: doing(async () => {
    const undone = await post(path("changes", String(changeset), "undo"));
    shown.offer(undone.id);
    shown.onundone?.(undone);
    acts.changed();
    tell("Undone.");
  }) }, "Undo", unseen(` changeset ${changeset}`));
  shown.offer();
  return shown;
}

/** Return what is removed and added by merges; what is removed and stays for duplicates. */
function merged(decisions, known) {
  const parts = [];
  for (const { ids: several, text } of decisions.filter((each) => each.action === "merge")) {
    const members = several.map((id) => [id, known.get(id)?.text ?? ""]);
    parts.push(
      ...members.map(([id, words]) => side("Goes", id, known, sides(words, text)[0], "gone")),
      side("Comes", null, known, beyond(text, members.map(([, words]) => words)), "come"));
  }
  const heirs = [...new Set(decisions.filter((each) => each.into).map((each) => each.into))];
  for (const heir of heirs) {
    const kept = known.get(heir)?.text ?? "";
    const copies = decisions.filter((each) => each.into === heir);
    parts.push(
      ...copies.map(({ id }) => side("Goes", id, known, sides(known.get(id)?.text ?? "", kept)[0], "gone")),
      side("Stays", heir, known, [kept], "come"));
  }
  return parts;
}

/** Return one text of a card: what happens to it, its memory, and its words with differences marked. */
function side(word, id, known, nodes, kind) {
  const there = id === null ? null : known.get(id);
  const isThere = id === null || there;
  return make("div", { class: `side ${kind}` },
    make("p", { class: "side-head" }, make("strong", {}, word), id === null ? null : memory(id),
      there ? make("span", { class: "dim" }, time(there.created_at)) : null),
    make("div", { class: "words" }, isThere ? folded(...nodes) : make("p", { class: "calm" }, "It no longer exists.")));
}

function dead(id, known) {
  const there = known.get(id);
  const place = there ? [there.category, there.project || there.source].filter(Boolean).join(" · ") : "";
  return make("div", { class: "side gone" },
    make("p", { class: "side-head" }, make("strong", {}, "Would be archived"), memory(id),
      there ? make("span", { class: "dim" }, time(there.created_at)) : null,
      place ? make("span", { class: "dim" }, said(place)) : null),
    there ? folded(there.text) : make("p", { class: "calm" }, "It no longer exists."));
}

// ── what was refused ───────────────────────────────────────────────────────────────────────────────────────────────

function refusals(refused) {
  if (!refused.length) return null;
  const word = refused.length === 1 ? "One was left as it is" : `${plainNumber(refused.length)} were left as they are`;
  const line = ({ ids: several, reason, proposed }) => make("li", {},
    make("p", {}, said(reason)),
    make("p", { class: "dim" }, ...several.flatMap((id, place) => [place ? ", " : "", memory(id)])),
    ...proposed.map((text) => make("p", { class: "dim" }, "proposed: ", said(text))));
  return make("details", { class: "refused" }, make("summary", {}, `${word}, and why`),
    make("ul", { class: "found" }, ...refused.map(line)));
}
