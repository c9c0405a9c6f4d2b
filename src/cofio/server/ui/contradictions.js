/** Contradictions to resolve: two memories side by side, and the choice of which holds. */

import { get, path, post } from "./api.js";
import { folded, memory } from "./captures.js";
import { sides } from "./diff.js";
import { fill, make, plainNumber, userText, time } from "./dom.js";
import { asking, card } from "./proposals.js";

const MOST = 100; // pairs shown
const SAYS = "The nearest memories of each place are compared by what they say. It can take a minute. Nothing is "
  + "changed by looking.";

export function contradictions(callbacks) {
  const out = make("div", { class: "plan" });
  return asking("Look for contradictions", SAYS, out, async () => {
    const reply = await get("maintenance/contradictions", { limit: MOST });
    fill(out, ...renderPairs(reply, callbacks));
  });
}

function renderPairs({ pairs, count, note, as_of }, callbacks) {
  const cards = pairs.map((memories) => pair(memories, as_of, callbacks));
  for (const card of cards) {
    card.onsettled = (done) => follow(cards, card, done);
    card.onundone = (done) => follow(cards, card, done);
  }
  const says = count === 0 ? "No contradictions found."
    : count === 1 ? "One pair cannot both hold." : `${plainNumber(count)} pairs cannot both hold.`;
  const more = count > pairs.length ? ` The newest ${plainNumber(pairs.length)} are shown.` : "";
  return [
    make("p", { role: "status" }, says + more), note ? make("p", { class: "dim" }, note) : null,
    cards.length ? make("ul", { class: "cards" }, ...cards) : null,
  ];
}

function pair({ newer, older, reason }, asOf, callbacks) {
  const [was, is] = sides(older.text, newer.text);
  const texts = make("div", { class: "versus" }, one("Older", older, was, "gone"), one("Newer", newer, is, "come"));
  const settle = (decisions, as_of) => () =>
    post("maintenance/approve", { chore: "contradictions", as_of: as_of ?? asOf, decisions });
  const archive = ({ id }, into, why) => ({ action: "delete", id, reason: why, ...(into ? { into: into.id } : {}) });
  const element = card(
    texts,
    reason ? make("p", { class: "dim why-line" }, userText(reason)) : null,
    callbacks,
    (as_of) => [
      [
        "Newer holds",
        "primary",
        settle([archive(older, newer, "the newer holds")], as_of),
        "The newer holds; the older is archived.",
      ],
      [
        "Older holds",
        null,
        settle([archive(newer, older, "the older holds")], as_of),
        "The older holds; the newer is archived.",
      ],
      [
        "Both hold",
        null,
        () => post("maintenance/contradictions/dismiss", { ids: [newer.id, older.id] }),
        "Both hold.",
      ],
      [
        "Neither holds",
        "danger",
        settle([archive(newer, null, "neither holds"), archive(older, null, "neither holds")], as_of),
        "Neither holds; both are archived.",
      ],
    ],
  );
  element.memories = [newer, older];
  return element;
}

function one(word, item, nodes, kind) {
  const place = item.project || item.source;
  return make("div", { class: `side ${kind}` },
    make("p", { class: "side-head" }, make("strong", {}, word), memory(item.id),
      make("span", { class: "dim" }, time(item.created_at)),
      place ? make("span", { class: "dim" }, userText(place)) : null),
    make("div", { class: "words" }, folded(...nodes)));
}

/** Update the other pairs of a changed memory, if its text is still the same. */
async function follow(cards, changed, { id: changeset }) {
  const touched = new Set(changed.memories.map((memory) => memory.id));
  const others = cards.filter((card) => card !== changed && card.memories.some(({ id }) => touched.has(id)));
  for (const card of others.filter((other) => other.isOpen() || other.elsewhere)) {
    const now = await Promise.all(card.memories.map(({ id }) => get(path("memory", String(id))).catch(() => null)));
    const same = now.every(
      (memory, place) => memory && !memory.archived_at && memory.text === card.memories[place].text,
    );
    card.elsewhere = !same;
    if (same) card.offer(changeset);
    else card.settle("Settled along with another pair.", null);
  }
}
