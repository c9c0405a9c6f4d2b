/** Colours of the map: by category, project or age of a memory. At most eight at a time. */

import { CATEGORIES, called, capital } from "./memory-labels.js";

const MOST = 7; // colours that everybody can tell apart; the rest is grey
const FEW = 0.06; // share of the oldest memories that may have one colour
const DAY = 86_400_000;

/** Colour modes with their labels. */
export const WAYS = { category: "Category", project: "Project", age: "Age" };

/**
 * Return the classes of the points in a mode, and the class of each point.
 * @returns {{ of: Uint8Array, classes: { key: string, name: string, hue: string, count: number }[] }}
 */
export function coloured(dots, way) {
  const { of, classes } = { category: byCategory, project: byProject, age: byAge }[way](dots);
  for (const colour of classes) colour.count = 0;
  for (let place = 0; place < dots.count; place++) if (!dots.gone[place]) classes[of[place]].count++;
  return { of, classes };
}

function byCategory(dots) {
  const own = (name, place) => (CATEGORIES.includes(name) ? `--${name}` : `--hue-${(place % MOST) + 1}`);
  const classes = dots.categories.map((name, place) => ({ key: name, name: capital(name), hue: own(name, place) }));
  return { of: Uint8Array.from(dots.category), classes };
}

/** Give the most frequent values one colour each; the others share one. */
function byProject(dots) {
  const counts = new Uint32Array(dots.projects.length);
  for (const project of dots.project) counts[project]++;
  const order = [...counts.keys()].sort((one, other) => counts[other] - counts[one] || one - other);
  const first = order.length <= MOST + 1 ? order : order.slice(0, MOST);
  const classes = first.map((project, place) => ({
    key: dots.projects[project],
    name: projectName(dots.projects[project]),
    hue: dots.projects[project] === "" || place >= MOST ? "--hue-other" : `--hue-${place + 1}`,
  }));
  const remaining = order.length - first.length;
  if (remaining) classes.push({ key: "\u2026", name: `${remaining} others`, hue: "--hue-other" });
  const classOf = new Uint8Array(dots.projects.length).fill(classes.length - 1);
  first.forEach((project, place) => (classOf[project] = place));
  return { of: Uint8Array.from(dots.project, (project) => classOf[project]), classes };
}

/** Return calendar periods, oldest first: the shortest ones with which most have their own colour. */
function byAge(dots) {
  const sorted = dots.at.slice().sort();
  const [oldest, newest] = [sorted[0], sorted[sorted.length - 1]];
  const most = sorted[Math.floor(sorted.length * FEW)];
  const period = Object.values(PERIODS).find((value) => starts(value, most, newest).length <= MOST) ?? PERIODS.year;
  const from = starts(period, oldest, newest).slice(-MOST);
  const isCut = period.start(new Date(oldest)) < from[0];
  const classes = from.map((start, place) => ({
    key: new Date(start).toISOString().slice(0, 10),
    name: isCut && place === 0 ? `${period.name(new Date(start))} and before` : period.name(new Date(start)),
    hue: `--age-${hueOf(place, from.length)}`,
  }));
  const classAt = (at) => Math.max(0, from.findLastIndex((start) => start <= at));
  return { of: Uint8Array.from(dots.at, classAt), classes };
}

/** Spread the periods over the ramp; the newest gets its end. */
const hueOf = (place, count) => MOST - Math.round(((count - 1 - place) * (MOST - 1)) / Math.max(count - 1, 1));

const date = (about) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...about });
const [DATED, MONTH] = [date({ day: "numeric", month: "short" }), date({ month: "short", year: "numeric" })];
const utc = (year, month = 0, day = 1) => Date.UTC(year, month, day);
const PERIODS = {
  day: {
    start: (at) => utc(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()),
    name: (at) => DATED.format(at),
  },
  week: {
    start: (at) => utc(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() - ((at.getUTCDay() + 6) % 7)),
    name: (at) => `Week of ${DATED.format(at)}`,
  },
  month: { start: (at) => utc(at.getUTCFullYear(), at.getUTCMonth()), name: (at) => MONTH.format(at) },
  quarter: {
    start: (at) => utc(at.getUTCFullYear(), at.getUTCMonth() - (at.getUTCMonth() % 3)),
    name: (at) => `Q${at.getUTCMonth() / 3 + 1} ${at.getUTCFullYear()}`,
  },
  year: { start: (at) => utc(at.getUTCFullYear()), name: (at) => String(at.getUTCFullYear()) },
};

/** Return the starts of the periods between two times; at most one too many. */
function starts(period, oldest, newest) {
  const years = [];
  for (let start = period.start(new Date(newest)); years.length <= MOST; start = period.start(new Date(start - DAY))) {
    years.unshift(start);
    if (start <= oldest) break;
  }
  return years;
}

/** Return the display name of a project: the last part of a path. */
export const projectName = (project) => (project === "" ? "No project" : called(project));

// ── colours as numbers ─────────────────────────────────────────────────────────────────────────────────────────────

/** Return the colour of a custom property as [red, green, blue]. */
export function hue(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = text.length === 4 ? [...text.slice(1)].map((digit) => digit + digit).join("") : text.slice(1);
  const value = parseInt(digits, 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export const mixed = (one, other, part) => one.map((channel, place) => channel + (other[place] - channel) * part);
