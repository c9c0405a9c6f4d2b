/** Contradictions to resolve: two memories side by side, and the choice of which holds. */

import { get, path, post } from "./api.js";
import { folded, memory } from "./captures.js";
import { sides } from "./diff.js";
import { fill, make, plainNumber, said, time } from "./dom.js";
import { asking, card } from "./proposals.js";

const MOST = 100; // pairs shown
const SAYS = "The nearest memories of each place are compared by what they say. It can take a minute. Nothing is "
  + "changed by looking.";

export function contradictions(acts) {
  const out = make("div", { class: "plan" });
  return asking("Look for contradictions", SAYS, out, async () => {
    const told = await get("maintenance/contradictions", { limit: MOST });
    fill(out, ...drawn(told, acts));
  });
}

function drawn({ pairs, count, note, as_of }, acts) {
  const cards = pairs.map((each) => pair(each, as_of, acts));
  for (const each of cards) {
    each.onsettled = (done) => follow(cards, each, done);
    each.onundone = (done) => follow(cards, each, done);
  }
  const says = count === 0 ? "No contradictions found."
    : count === 1 ? "One pair cannot both hold." : `${plainNumber(count)} pairs cannot both hold.`;
  const more = count > pairs.length ? ` The newest ${plainNumber(pairs.length)} are shown.` : "";
  return [
    make("p", { role: "status" }, says + more), note ? make("p", { class: "dim" }, note) : null,
    cards.length ? make("ul", { class: "cards" }, ...cards) : null,
  ];
}

function pair({ newer, older, reason }, asOf, acts) {
  const [was, is] = sides(older.text, newer.text);
  const texts = make("div", { class: "versus" }, one("Older", older, was, "gone"), one("Newer", newer, is, "come"));
  const settle = (decisions, as_of) => () =>
    post("maintenance/approve", { chore: "contradictions", as_of: as_of ?? asOf, decisions });
  const gone = ({ id }, into, why) => ({ action: "delete", id, reason: why, ...(into ? { into: into.id } : {}) });
  const shown = card(texts, reason ? make("p", { class: "dim why-line" }, said(reason)) : null, acts, (as_of) => [
    ["Newer holds", "primary", settle([gone(older, newer, "the newer holds")], as_of),
      "The newer holds; the older is archived."],
    ["Older holds", null, settle([gone(newer, older, "the older holds")], as_of),
      "The older holds; the newer is archived."],
    ["Both hold", null, () => post("maintenance/contradictions/dismiss", { ids: [newer.id, older.id] }), "Both hold."],
    ["Neither holds", "danger", settle([gone(newer, null, "neither holds"), gone(older, null, "neither holds")], as_of),
      "Neither holds; both are archived."],
  ]);
  shown.memories = [newer, older];
  return shown;
}

function one(word, told, nodes, kind) {
  const place = told.project || told.source;
  return make("div", { class: `side ${kind}` },
    make("p", { class: "side-head" }, make("strong", {}, word), memory(told.id),
      make("span", { class: "dim" }, time(told.created_at)),
      place ? make("span", { class: "dim" }, said(place)) : null),
    make("div", { class: "words" }, folded(...nodes)));
}

/** Update the other pairs of a changed memory, if its text is still the same. */
async function follow(cards, changed, { id: changeset }) {
  const touched = new Set(changed.memories.map((each) => each.id));
  const others = cards.filter((each) => each !== changed && each.memories.some(({ id }) => touched.has(id)));
  for (const each of others.filter((other) => other.isOpen() || other.elsewhere)) {
    const now = await Promise.all(each.memories.map(({ id }) => get(path("memory", String(id))).catch(() => null)));
    const same = now.every((told, place) => told && !told.archived_at && told.text === each.memories[place].text);
    each.elsewhere = !same;
    if (same) each.offer(changeset);
    else each.settle("Settled along with another pair.", null);
  }
}
