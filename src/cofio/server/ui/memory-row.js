/** Row of a memory in the list; a hit has bars that explain its score. */

import { truncate, formatCount, make, userText, time, srOnly } from "./dom.js";
import { caller } from "./app-shell.js";
import { called, matched, ordinal, provenance } from "./memory-labels.js";

const LETTERS = 420; // characters of a text in a row: more is never visible

/** Return the content of a row; blank until loaded. */
export function cells(memory, mayTick) {
  if (!memory) return [make("span", { class: "wait" }, srOnly("Looking it up …"))];
  const text = truncate(memory.text, LETTERS);
  return [
    mayTick ? make("span", { class: "tick", "aria-hidden": "true" }) : null,
    make("span", { class: "gist" },
      words(text, memory.why?.words ?? []), memory.why ? bars(memory) : null, about(memory)),
  ].filter(Boolean);
}

/** Return all that a row shows, as a text. */
export function says(memory, mayTick) {
  if (!memory) return "";
  const { id, updated_at, occurrences, freshness, why } = memory;
  return [id, updated_at, occurrences, freshness, why?.formula, mayTick].join();
}

/** Return a text with matches marked. */
export function words(text, queryWords) {
  const parts = matched(text, queryWords).map(([part, isMatch]) => (isMatch ? make("mark", {}, part) : part));
  const element = make("bdi", { class: "text" });
  element.append(...parts);
  return element;
}

function about(memory) {
  const parts = [
    make("span", { class: `category of-${memory.category}` }, memory.kind === "other" ? memory.category : memory.kind),
    memory.project ? userText(called(memory.project)) : null,
    memory.agent ? userText(memory.agent) : null,
    make("span", {}, time(memory.created_at)),
    provenance(memory, caller.user),
    memory.occurrences > 1 ? make("span", {}, `${memory.occurrences}×`, srOnly(" said")) : null,
    memory.pinned ? make("span", { class: "flag pinned" }, "pinned") : null,
    memory.archived_at ? make("span", { class: "flag" }, "archived") : null,
    ["changed", "vanished"].includes(memory.freshness) ? make("span", { class: "flag stale" }, "may be stale") : null,
  ];
  return make("span", { class: "about" }, ...parts.filter(Boolean));
}

// ── why this hit ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Return a bar of two parts, on a scale to 1: similarity in meaning, and share of matching words. */
function bars({ score, strength, why }) {
  const reason = (kind, word, share) => (share > 0 ? make("span", {},
    make("span", { class: `key ${kind}`, "aria-hidden": "true" }),
    make("span", { class: "word" }, word), share.toFixed(2)) : null);
  return make(
    "span",
    { class: "score" },
    make("span", { class: "number" }, srOnly("score "), score.toFixed(2)),
    make("span", { class: "word" }, strength ?? ""),
    bar(why),
    make(
      "span",
      { class: "reasons" },
      ...[reason("near", "meaning", why.vector_share), reason("worded", "words", why.keyword_share)].filter(Boolean),
    ),
  );
}

function bar({ vector_share: near, keyword_share: worded }) {
  const part = (kind, share) => {
    const level = make("span", { class: `share ${kind}` });
    level.style.inlineSize = `${(share * 100).toFixed(1)}%`;
    return level;
  };
  return make("span", { class: "shares", "aria-hidden": "true" }, part("near", near), part("worded", worded));
}

/** Return the same in full, for the detail. */
export function reasons({ score, why }) {
  const row = (kind, title, shares, share, rank, more) => make("div", { class: "reason" },
    make("dt", {}, make("span", { class: `key ${kind}`, "aria-hidden": "true" }), title),
    make("dd", {}, bar({ vector_share: 0, keyword_share: 0, ...shares }),
      make("span", { class: "number" }, share.toFixed(2)),
      make("span", { class: "dim" }, rank ? `ranks ${ordinal(rank)}` : "has no rank"), more));
  const marks = why.words.map((word) => make("mark", {}, userText(word)));
  const focused = marks.length ? make("span", { class: "held" }, ...marks) : null;
  const { vector_share, keyword_share } = why;
  return make("div", { class: "why-hit" },
    make("dl", { class: "whys" },
      row("near", "Meaning", { vector_share }, vector_share, why.vector_rank, null),
      row("worded", "Words", { keyword_share }, keyword_share, why.keyword_rank, focused)),
    make("p", { class: "formula" }, make("code", {}, why.formula)),
    srOnly(`The score is ${score.toFixed(2)}; ${formatCount(why.words.length, "word", "words")} matched.`));
}
