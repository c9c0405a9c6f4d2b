/** Labels of domain knowledge: tables, their fields, and number formats. */

import { Refusal } from "./api.js";
import { plainNumber } from "./dom.js";

const WHEN = {
  daily: "09:30-16:00",
  weekly: "mon-fri 09:30-16:00",
  monthly: "last fri, or 1-3",
  yearly: "12-15..01-05, or q4",
  cron: "30 14 * * fri",
};
const SOURCE = { name: "source", label: "Source", hint: "A market, a host, a sensor." };

/** Tables in the order of their tabs. The fields are those of a form. */
export const TABLES = {
  thresholds: {
    many: "Thresholds",
    one: "threshold",
    what: "From which value on something is worth a look.",
    first: "From which value on is something worth a look? Keep it, and the page tells when a value crosses it.",
    command: "cofio knowledge threshold AAPL volume above 5M",
    fields: [
      { ...SOURCE, needed: true, hint: "A market, a host, a sensor; * is any." },
      { name: "metric", label: "Metric", needed: true, hint: "What is measured: volume, latency." },
      { name: "direction", label: "Triggers when it is", choices: ["above", "below"] },
      { name: "value", label: "Value", kind: "quantity", needed: true, hint: "5000000, 5M, -18, 90%, 250ms." },
      { name: "unit", label: "Unit", more: true, hint: "Left out, it is taken from the value." },
      { name: "inclusive", label: "The value itself counts too", kind: "tick" },
    ],
  },
  patterns: {
    many: "Patterns",
    one: "pattern",
    what: "What tends to happen.",
    first: "What tends to happen? Say it in a sentence.",
    command: 'cofio knowledge pattern "volume spikes before earnings" --source AAPL',
    fields: [{ name: "pattern", label: "What tends to happen", kind: "area", needed: true }, SOURCE],
  },
  correlations: {
    many: "Correlations",
    one: "correlation",
    what: "How two things go together.",
    first: "What leads what, what moves with what? Name the two, and say how.",
    command: 'cofio knowledge correlation BTC COIN "BTC leads COIN by an hour" --relation leads',
    fields: [
      { name: "source_a", label: "The one", needed: true },
      { name: "relation", label: "How they go together", choices: ["leads", "with"] },
      { name: "source_b", label: "The other", needed: true },
      { name: "rule", label: "In words", kind: "area", needed: true },
      { name: "inverse", label: "When the one rises, the other falls", kind: "tick" },
    ],
  },
  seasonal: {
    many: "Seasonal",
    one: "seasonal pattern",
    what: "What happens at certain times.",
    first: "What happens every day, week, month or year? Say what, and when.",
    command: 'cofio knowledge seasonal "low volume" weekly --during "fri 12:00-16:00"',
    fields: [
      { name: "pattern", label: "What happens", kind: "area", needed: true },
      { name: "period", label: "Comes round", choices: Object.keys(WHEN) },
      {
        name: "during",
        label: "When",
        hint: (values) => `Such as ${WHEN[values.period] ?? WHEN.daily}. Empty: always.`,
      },
      { name: "timezone", label: "Timezone", hint: "Whose clock it goes by.", begins: ourZone },
      { name: "lasts", label: "Minutes that it lasts", kind: "whole", more: true, hint: "Of cron, from each time on." },
      { ...SOURCE, hint: "Where it shows; empty: anywhere." },
    ],
  },
  feedback: {
    many: "Verdicts",
    one: "verdict",
    what: "Whether an anomaly was one. A verdict moves how sure the claims are that had raised it.",
    first: "When something was flagged, say whether it was right: what had raised it gets surer, or less sure.",
    command: 'cofio knowledge feedback "AAPL friday" false-alarm --about thresholds/aapl.volume.above',
    fields: [],
  },
};

/** Tables whose rows have a confidence. */
export const CLAIMS = Object.keys(TABLES).filter((key) => key !== "feedback");

/** Labels of the verdicts. */
export const VERDICTS = { confirmed: "Confirmed", false_alarm: "False alarm", note: "Just a note" };

/** Return the row as one sentence. */
export function says(table, row) {
  if (table === "thresholds") return `${row.source === "*" ? "any" : row.source} ${row.metric} ${limit(row)}`;
  if (table === "correlations") return row.rule;
  if (table === "feedback") return row.anomaly;
  return row.pattern;
}

/** Return what a threshold watches for: "at or above -18 °C". */
function limit(row) {
  return `${row.inclusive ? "at or " : ""}${row.direction} ${measured(row.value, row.unit)}`;
}

/** Return a number with its unit: $5, 90%, 250 ms. */
export function measured(value, unit) {
  if (/^[$€£¥]$/.test(unit)) return `${unit}${plainNumber(value)}`;
  return `${plainNumber(value)}${/^\p{L}/u.test(unit) ? " " : ""}${unit}`;
}

/** Return the other fields, shown below the sentence. */
export function adds(table, row) {
  if (table === "correlations") return row.inverse ? "inversely: when the one rises, the other falls" : "";
  if (table === "seasonal") return [row.period, row.during, row.timezone].filter(Boolean).join(" · ");
  if (table === "feedback") return [VERDICTS[row.verdict] ?? row.verdict, row.note].filter(Boolean).join(" · ");
  return "";
}

const pair = (row) => `${row.source_a} ${row.relation === "leads" ? "→" : "↔"} ${row.source_b}`;

/** Return the source and metric, or both sources. */
export function sources(row) {
  return [row.source, row.source_a, row.source_b].filter(Boolean);
}

/** Return the content of the column of sources. */
export function source(table, row) {
  if (table === "correlations") return pair(row);
  if (table === "feedback") return row.about.length === 1 ? "1 claim" : `${row.about.length} claims`;
  return row.source === "*" ? "any source" : row.source;
}

/** Return whether every word of a text is in the row or begins its id, as ids may contain digests. */
export function mentions(table, row, text) {
  const content = fold([says(table, row), adds(table, row), ...sources(row), ...(row.about ?? [])].join(" "));
  const rowName = fold(row.id);
  return fold(text).split(/\s+/).every((word) => content.includes(word) || rowName.startsWith(word));
}

/** Return a text short enough for a notice. */
export const shortened = (text) => (text.length > 80 ? `${text.slice(0, 79)}…` : text);

/** Return a text normalised for comparison. */
export const fold = (text) => text.normalize("NFKC").toLowerCase().trim();

function ourZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

// ── numbers as people write them ───────────────────────────────────────────────────────────────────────────────────

const QUANTITY = new RegExp(
  "^([-+−]?)\\s*([$€£¥]?)\\s*([0-9]{1,3}(?:,[0-9]{3})+(?:\\.[0-9]+)?|[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)" +
  "(?:[eE]([-+]?[0-9]{1,4}))?(\\s*)([^\\s\\d.,]{1,20})?$", "u");
const SCALES = { k: 3, K: 3, M: 6, MM: 6, B: 9, T: 12, mn: 6, mln: 6, mio: 6, bn: 9, tn: 12,
  thousand: 3, million: 6, millions: 6, billion: 9, billions: 9, trillion: 12 };
const SPELLED = { percent: "%", pct: "%" };

/** Parse a number with a unit, exactly as the command line does: 5M, 1,000, -2.5, 90%, $1.2B, 250ms. */
export function quantity(text) {
  const match = QUANTITY.exec(text.trim());
  if (!match) throw new Refusal(`“${text}” is no number.`, "Write it as 5000000, 5M, -2.5, 90% or 250ms.");
  const [, sign, money, digits, power, gap, unit = ""] = match;
  if (["m", "b"].includes(unit) || (gap && !money && ["K", "B", "T"].includes(unit))) {
    const hint = `Write ${unit.toUpperCase()} right behind the number for the scale, or give the unit apart.`;
    throw new Refusal(`“${text}” may be a scale or a unit.`, hint);
  }
  const scale = own(SCALES, unit) ?? (unit.length > 1 ? own(SCALES, unit.toLowerCase()) : undefined) ?? 0;
  const value = Number(`${sign.replace("−", "-")}${digits.replaceAll(",", "")}e${Number(power ?? 0) + scale}`);
  if (!Number.isFinite(value)) throw new Refusal(`“${text}” is too large.`, "Give a finite number.");
  return { value, unit: money || (scale ? "" : own(SPELLED, unit.toLowerCase()) ?? unit) };
}

const own = (table, name) => (Object.hasOwn(table, name) ? table[name] : undefined);
