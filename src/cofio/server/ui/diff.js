/**
 * Word-level difference of texts as elements: removed words are deleted, added words inserted.
 *
 * The longest common words stay. Texts that are too long to compare differ entirely, except for their common beginning
 * and end.
 */

import { make } from "./dom.js";

const WORD = /(?:[\p{L}\p{M}\p{N}_]+(?:[^\s\p{L}\p{M}\p{N}_]+[\p{L}\p{M}\p{N}_]+)*|[^\s\p{L}\p{M}\p{N}_]+|^)\s*/gu;
const MOST = 1_000_000; // word pairs compared at most

/** Return both texts in one: `difference("port 8080", "port 9090")` is port, 8080 deleted, 9090 inserted. */
export function difference(before, after) {
  return renderSteps(aligned(words(before), words(after)));
}

/** Return each text by itself with its differences marked: two lists of nodes. */
export function sides(before, after) {
  const steps = aligned(words(before), words(after));
  return [renderSteps(steps.filter(([kind]) => kind !== "ins")), renderSteps(steps.filter(([kind]) => kind !== "del"))];
}

/** Return a text, marking what none of the others contain. */
export function beyond(text, others) {
  const request = words(text);
  const isCommon = new Array(request.length).fill(false);
  for (const other of others) {
    const steps = aligned(words(other), request).filter(([kind]) => kind !== "del");
    steps.forEach(([kind], place) => (isCommon[place] ||= kind === ""));
  }
  return renderSteps(request.map((word, place) => [isCommon[place] ? "" : "ins", word]));
}

const words = (text) => text.match(WORD)?.filter(Boolean) ?? [];
const same = (one, other) => one.trimEnd() === other.trimEnd();

/** Return the words of both in order, each with its state: "", "del" or "ins". */
function aligned(before, after) {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && same(before[start], after[start])) start++;
  let end = 0;
  while (end < shorter - start && same(before.at(-1 - end), after.at(-1 - end))) end++;
  const keep = (word) => ["", word];
  return [
    ...after.slice(0, start).map(keep),
    ...between(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...after.slice(after.length - end).map(keep),
  ];
}

function between(before, after) {
  const steps = [];
  const lengths = before.length * after.length <= MOST ? commonLengths(before, after) : null;
  const width = after.length + 1;
  let [one, other] = [0, 0];
  while (lengths && one < before.length && other < after.length) {
    if (same(before[one], after[other])) {
      steps.push(["", after[other]]);
      [one, other] = [one + 1, other + 1];
    } else {
      const goes = lengths[(one + 1) * width + other] >= lengths[one * width + other + 1];
      steps.push(goes ? ["del", before[one++]] : ["ins", after[other++]]);
    }
  }
  const remainder = (words, kind) => words.map((word) => [kind, word]);
  return [...steps, ...remainder(before.slice(one), "del"), ...remainder(after.slice(other), "ins")];
}

/** Return the number of common words from each position on, as one flat table. */
function commonLengths(before, after) {
  const width = after.length + 1;
  const lengths = new Uint16Array((before.length + 1) * width);
  for (let one = before.length - 1; one >= 0; one--) {
    for (let other = after.length - 1; other >= 0; other--) {
      lengths[one * width + other] = same(before[one], after[other])
        ? lengths[(one + 1) * width + other + 1] + 1
        : Math.max(lengths[(one + 1) * width + other], lengths[one * width + other + 1]);
    }
  }
  return lengths;
}

/** Merge into few elements: removals before additions where they meet, without the trailing space. */
function renderSteps(steps) {
  return gathered(steps).flatMap(([kind, text], place, all) => {
    const marked = text.trimEnd();
    const gap = text.slice(marked.length) || (all[place + 1]?.[0] === "ins" ? " " : "");
    return kind && marked ? [make(kind, {}, marked), gap] : [text];
  });
}

function gathered(steps) {
  const runs = [];
  for (const [kind, word] of inTurn(steps)) {
    if (runs.at(-1)?.[0] === kind) runs.at(-1)[1] += word;
    else runs.push([kind, word]);
  }
  return runs;
}

/** Within a run of differences, put all removals first, then all additions. */
function inTurn(steps) {
  const ordered = [];
  let inserted = [];
  for (const step of steps) {
    if (step[0] === "ins") inserted.push(step);
    else if (step[0] === "del") ordered.push(step);
    else {
      ordered.push(...inserted, step);
      inserted = [];
    }
  }
  return [...ordered, ...inserted];
}
