/** The words of memories: what their fields are called, how a project is, and what differs between two texts. */

export const KINDS = ["preference", "policy", "technology", "decision", "temporal", "pattern", "correlation",
  "threshold", "observation", "learning", "other"];
export const CATEGORIES = ["decision", "learning", "detail"];
export const VISIBILITIES = ["private", "team", "global"];

/** How something was learned, as people say it. */
export const METHODS = { pattern: "read by a pattern", llm: "read by a model", manual: "told by hand",
  import: "imported" };

/** A text with a capital letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** What a project is called: the last part of its path. */
export const called = (project) => project.replace(/\/+$/, "").split("/").at(-1) || project;

/** How many there are: "1 memory", "2 memories". */
export const counted = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** A place in a ranking: 1st, 2nd, 3rd, 4th. */
export function ordinal(number) {
  const ends = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${number}${ends[ORDER.select(number)]}`;
}
const ORDER = new Intl.PluralRules("en", { type: "ordinal" });

/** The beginning of a text, as much of it as may be shown: never half of a character. */
export const beginning = (text, most) => (text.length <= most ? text
  : `${[...text.slice(0, most + 1)].slice(0, -1).join("")}…`);

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

// ── what differs ───────────────────────────────────────────────────────────────────────────────────────────────────

const MOST = 4_000_000; // pairs of words that are compared; what is longer is shown whole, before and after

/** Two texts word by word, as `[how, text]`: "same", "gone" or "new". */
export function difference(before, after) {
  const [old, now] = [before, after].map((text) => text.match(/\s+|[^\s]+/g) ?? []);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end++;
  const [left, right] = [old.slice(start, old.length - end), now.slice(start, now.length - end)];
  const middle = left.length * right.length > MOST
    ? [["gone", left.join("")], ["new", right.join("")]] : compared(left, right);
  return joined([["same", old.slice(0, start).join("")], ...middle, ["same", old.slice(old.length - end).join("")]]);
}

/** By the longest series of words that both have. */
function compared(left, right) {
  const wide = right.length + 1;
  const longest = new Uint16Array((left.length + 1) * wide);
  for (let one = left.length - 1; one >= 0; one--) {
    for (let two = right.length - 1; two >= 0; two--) {
      longest[one * wide + two] = left[one] === right[two] ? longest[(one + 1) * wide + two + 1] + 1
        : Math.max(longest[(one + 1) * wide + two], longest[one * wide + two + 1]);
    }
  }
  const parts = [];
  let [one, two] = [0, 0];
  while (one < left.length && two < right.length) {
    if (left[one] === right[two]) parts.push(["same", left[one]]), one++, two++;
    else if (longest[(one + 1) * wide + two] >= longest[one * wide + two + 1]) parts.push(["gone", left[one++]]);
    else parts.push(["new", right[two++]]);
  }
  return [...parts, ["gone", left.slice(one).join("")], ["new", right.slice(two).join("")]];
}

/** Runs of the same sort as one; a blank between two words that both went, or both came, goes with them. */
function joined(parts) {
  const runs = [];
  let gone = "";
  let came = "";
  const close = () => {
    if (gone.trim()) runs.push(["gone", gone]);
    if (came) runs.push([came.trim() ? "new" : "same", came]);
    [gone, came] = ["", ""];
  };
  for (const [place, [how, text]] of parts.entries()) {
    const isBetween = how === "same" && !text.trim() && (gone || came) && parts[place + 1]?.[0] !== "same";
    if (how === "gone" || isBetween) gone += text;
    if (how === "new" || isBetween) came += text;
    if (how === "same" && !isBetween && text) close(), runs.push(["same", text]);
  }
  close();
  return runs;
}
