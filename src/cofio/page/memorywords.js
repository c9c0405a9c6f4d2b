/** The words of memories: what their fields are called, how a project is, and what matched in a text. */

export const KINDS = ["preference", "policy", "technology", "decision", "temporal", "pattern", "correlation",
  "threshold", "observation", "learning", "other"];
/** The categories, and what many of each are called. */
export const MANY = { decision: "Decisions", learning: "Learnings", detail: "Details" };
export const CATEGORIES = Object.keys(MANY);
export const VISIBILITIES = ["private", "team", "global"];

/** How something was learned, as people say it. */
export const METHODS = { pattern: "read without a language model", llm: "read by a language model", manual: "told by hand",
  import: "imported" };

/** A text with a capital letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** What a project is called: the last part of its path. */
export const called = (project) => project.replace(/\/+$/, "").split("/").at(-1) || project;

/** A place in a ranking: 1st, 2nd, 3rd, 4th. */
export function ordinal(number) {
  const ends = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${number}${ends[ORDER.select(number)]}`;
}
const ORDER = new Intl.PluralRules("en", { type: "ordinal" });

// ── what matched ───────────────────────────────────────────────────────────────────────────────────────────────────

const WORD = /[\p{L}\p{N}]+(?:[._'’+#/:@-]+[\p{L}\p{N}]+)*/gu;
const LEAST = 4; // letters from which on a word may have another ending

/** A text in parts, `[text, isMatch]`: those that are one of these words, or begin with it. */
export function matched(text, words) {
  const parts = [];
  let end = 0;
  for (const found of words.length ? text.matchAll(WORD) : []) {
    const word = found[0].toLowerCase();
    if (!words.some((each) => word === each || (each.length >= LEAST && word.startsWith(each)))) continue;
    parts.push([text.slice(end, found.index), false], [found[0], true]);
    end = found.index + found[0].length;
  }
  return [...parts, [text.slice(end), false]].filter(([part]) => part);
}
