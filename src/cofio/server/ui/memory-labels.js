/** Labels of memories: fields, project names, and matching words in a text. */

import { userText } from "./dom.js";

export const KINDS = ["preference", "policy", "technology", "decision", "temporal", "pattern", "correlation",
  "threshold", "observation", "learning", "other"];
/** Categories with their plurals. */
export const MANY = { decision: "Decisions", learning: "Learnings", detail: "Details" };
export const CATEGORIES = Object.keys(MANY);
export const VISIBILITIES = ["private", "team", "global"];

/** Labels of the extraction methods. */
export const METHODS = {
  pattern: "read without a language model",
  llm: "read by a language model",
  manual: "told by hand",
  import: "imported",
};

/** Labels of the provenance, and of that of a memory of another user. */
const PROVENANCES = {
  user: ["said by you", "said by"],
  pasted: ["pasted", "pasted by"],
  assistant: ["said by the assistant", "said by the assistant of"],
  tool: ["tool output", "tool output of"],
  import: ["imported", "imported by"],
  "": ["", "from"],
};

/** Return whose words a memory holds, for the user who reads it; null if unknown. */
export function provenance(memory, reader) {
  const [own, other] = PROVENANCES[memory.provenance] ?? PROVENANCES[""];
  if (!memory.user || memory.user === reader) return own ? userText(own) : null;
  return userText(`${other} ${memory.user}${memory.visibility === "team" ? " (team)" : ""}`);
}

/** Return a text with a capital first letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Return the display name of a project: the last part of its path. */
export const called = (project) => project.replace(/\/+$/, "").split("/").at(-1) || project;

/** Format a rank: 1st, 2nd, 3rd, 4th. */
export function ordinal(number) {
  const ends = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${number}${ends[ORDER.select(number)]}`;
}
const ORDER = new Intl.PluralRules("en", { type: "ordinal" });

// ── what matched ───────────────────────────────────────────────────────────────────────────────────────────────────

const WORD = /[\p{L}\p{N}]+(?:[._'’+#/:@-]+[\p{L}\p{N}]+)*/gu;
const LEAST = 4; // minimum letters of a word to match another ending

/** Split a text into parts, `[text, isMatch]`: matches equal one of these words, or begin with it. */
export function matched(text, words) {
  const parts = [];
  let end = 0;
  for (const match of words.length ? text.matchAll(WORD) : []) {
    const word = match[0].toLowerCase();
    if (!words.some((query) => word === query || (query.length >= LEAST && word.startsWith(query)))) continue;
    parts.push([text.slice(end, match.index), false], [match[0], true]);
    end = match.index + match[0].length;
  }
  return [...parts, [text.slice(end), false]].filter(([part]) => part);
}
