/**
 * SVG charts: values over time, and a total with its parts.
 *
 * A chart can be read with the pointer or with the arrow keys. A table beside it holds the same data for screen
 * readers. CSS sets the colour of a part by its name: `[data-part="decision"]`.
 */

import { fill, make, srOnly } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const EXACT = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
const SHORT_FROM = 100_000;
const ROOMY = 560; // pixels from which on a part is labelled beside it
const APART = 18; // pixels between such labels

// ── numbers ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Format a number in full. */
export const exact = (value) => EXACT.format(value);

/** Format a number briefly: 98,765, then 123.5K. */
export const compact = (value) => (Math.abs(value) < SHORT_FROM ? exact(value) : SHORT.format(value));

/** Return a brief number; the exact one is read aloud, and shown as a tooltip. */
export function number(value) {
  if (compact(value) === exact(value)) return make("span", { class: "figure" }, exact(value));
  const visible = make("span", { "aria-hidden": "true" }, compact(value));
  return make("span", { class: "figure", title: exact(value) }, visible, srOnly(exact(value)));
}

/** Format a count with its word: "1 prompt", "1,200 prompts". */
export const compactCount = (count, one, many = `${one}s`) => `${compact(count)} ${count === 1 ? one : many}`;

// ── shapes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return round whole numbers from 0 to at least this one. */
export function ticks(most, steps = 5) {
  const rough = Math.max(most, 1) / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((factor) => factor >= rough));
  return Array.from({ length: Math.ceil(Math.max(most, 1) / step) + 1 }, (_, place) => place * step);
}

/** Return where each part begins and ends in every column when stacked. */
export function piled(series) {
  const sums = [];
  return series.map((values) => values.map((value, place) => {
    const low = sums[place] ?? 0;
    sums[place] = low + value;
    return [low, sums[place]];
  }));
}

/** Return the outline of a part over time: along its top, and back along its bottom. */
export function ribbon(xs, spans, up) {
  const upper = spans.map(([, high], place) => at(xs[place], up(high)));
  const back = spans.map(([low], place) => at(xs[place], up(low))).reverse();
  return `M${[...upper, ...back].join("L")}Z`;
}

/** Return the top line of a part over time. */
export const ridge = (xs, spans, up) => `M${spans.map(([, high], place) => at(xs[place], up(high))).join("L")}`;

/** Return label heights without overlaps, as close as possible to their values. */
export function spreadApart(positions, gap, most) {
  const order = positions.map((_, place) => place).sort((one, other) => positions[one] - positions[other]);
  const placed = [];
  let free = -Infinity;
  for (const place of order) free = (placed[place] = Math.max(positions[place], free)) + gap;
  let last = most;
  for (const place of order.reverse()) last = (placed[place] = Math.min(placed[place], last)) - gap;
  return placed;
}

const at = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const total = (series, place) => series.reduce((sum, part) => sum + part.values[place], 0);

/** Create an SVG element. */
function shape(tag, about = {}, ...inside) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(about)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

// ── over time ──────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Chart over time, with `.draw({ kind, columns, series })`. Kinds: "areas", "bars". A column has a label, a title,
 * and an optional note; a series has a singular name, a plural title, and a value per column.
 */
export function overTime(label) {
  const svg = shape("svg", { "aria-hidden": "true" });
  const tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  const plot = make("div", { class: "plot", role: "slider", tabindex: "0", "aria-label": label }, svg, tip);
  const legend = make("ul", { class: "legend" });
  const table = make("div", { class: "sr" });
  const chart = { label, plot, svg, tip, legend, table, data: null, drawn: "", place: 0, scale: null };
  const container = make("div", { class: "chart" }, legend, plot, table);
  container.draw = (data) => draw(chart, data);
  listenTo(chart);
  new ResizeObserver(() => chart.data && sketch(chart)).observe(plot);
  return container;
}

function draw(chart, data) {
  const fingerprint = JSON.stringify(data);
  if (fingerprint === chart.drawn) return;
  const wasLast = !chart.data || chart.place === chart.data.columns.length - 1;
  Object.assign(chart, { data, drawn: fingerprint });
  const last = data.columns.length - 1;
  chart.place = wasLast ? last : Math.min(chart.place, last);
  fill(chart.legend, ...data.series.map((part) => make("li", {}, swatch(part.name), part.title)));
  fill(chart.table, asTable(chart.label, data));
  sketch(chart);
}

/** Draw everything at the available size. */
function sketch(chart) {
  const { data, svg, plot } = chart;
  const [width, height] = [plot.clientWidth, plot.clientHeight];
  if (!width) return; // not visible yet
  const hasLabels = data.kind === "areas" && data.series.length > 1 && width >= ROOMY;
  chart.legend.hidden = hasLabels || data.series.length < 2;
  chart.scale = scaled(data, width, height, hasLabels);
  const layers = data.kind === "areas" ? areas(data, chart.scale) : bars(data, chart.scale);
  chart.mark = shape("g", { class: "mark" });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(grid(chart.scale), ...layers, times(data, chart.scale), chart.mark,
    ...(hasLabels ? names(data, chart.scale) : []));
  look(chart, chart.place, !chart.tip.hidden);
}

/** Return the scales: columns across, values up. */
function scaled({ kind, columns, series }, width, height, hasLabels) {
  const most = Math.max(0, ...columns.map((_, place) => total(series, place)));
  const lines = ticks(most);
  const top = 8;
  const bottom = height - 24;
  const left = 12 + 7 * Math.max(...lines.map((line) => compact(line).length));
  const right = width - (hasLabels ? 132 : 6);
  const across = (right - left) / (kind === "bars" ? columns.length : Math.max(columns.length - 1, 1));
  const xs = columns.map((_, place) => left + (kind === "bars" ? place + 0.5 : place) * across);
  const up = (value) => bottom - (value / lines.at(-1)) * (bottom - top);
  return { lines, left, right, bottom, top, width, across, xs, up };
}

function grid({ lines, left, right, up }) {
  return shape("g", { class: "grid" }, ...lines.flatMap((line) => [
    shape("line", { x1: left, x2: right, y1: up(line), y2: up(line) }),
    shape("text", { x: left - 8, y: up(line) + 4, "text-anchor": "end" }, compact(line)),
  ]));
}

function areas({ series }, { xs, up }) {
  const piles = piled(series.map((part) => part.values));
  return series.map((part, place) => shape("g", { "data-part": part.name },
    shape("path", { class: "area", d: ribbon(xs, piles[place], up) }),
    shape("path", { class: "ridge", d: ridge(xs, piles[place], up) }))).reverse(); // a lower ridge is never hidden
}

function bars({ series }, { xs, up, across }) {
  const piles = piled(series.map((part) => part.values));
  const wide = Math.max(1, Math.min(across * 0.72, 36));
  return series.map((part, place) => shape("g", { "data-part": part.name },
    ...piles[place].flatMap(([low, high], column) => (high === low ? [] : [shape("rect", {
      class: "column", x: xs[column] - wide / 2, y: up(high), width: wide, height: Math.max(1, up(low) - up(high)),
      rx: Math.min(1.5, wide / 4),
    })]))));
}

/** Draw the time labels: as many as fit, always with the last one. */
function times({ columns }, { xs, bottom, width, left, right }) {
  const every = Math.ceil(columns.length / Math.max(1, Math.floor((right - left) / 84)));
  const shown = columns.map((column, place) => [column, xs[place], place])
    .filter(([, , place]) => (columns.length - 1 - place) % every === 0);
  return shape("g", { class: "times" }, ...shown.map(([column, x]) => {
    const anchor = x > width - 24 ? "end" : x < 24 ? "start" : "middle";
    return shape("text", { x, y: bottom + 18, "text-anchor": anchor }, column.label);
  }));
}

/** Draw the name of each part beside its end. */
function names({ series }, { up, right, bottom }) {
  const piles = piled(series.map((part) => part.values));
  const heights = spreadApart(piles.map((pile) => up((pile.at(-1)[0] + pile.at(-1)[1]) / 2)), APART, bottom);
  return series.map((part, place) => shape("g", { class: "name", "data-part": part.name },
    shape("rect", { x: right + 12, y: heights[place] - 5, width: 10, height: 10, rx: 2 }),
    shape("text", { x: right + 28, y: heights[place] + 4 },
      compactCount(part.values.at(-1), part.name, part.title.toLowerCase()))));
}

export const swatch = (name) => make("span", { class: "swatch", "data-part": name, "aria-hidden": "true" });

// ── looking closer ─────────────────────────────────────────────────────────────────────────────────────────────────

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -7, PageUp: 7, Home: -Infinity,
  End: Infinity };

function listenTo(chart) {
  const { plot } = chart;
  plot.addEventListener("focus", () => plot.matches(":focus-visible") && look(chart, chart.place, true));
  plot.addEventListener("blur", () => look(chart, chart.place, false));
  plot.addEventListener("pointermove", (event) => look(chart, nearest(chart, event.offsetX), true));
  plot.addEventListener("pointerdown", (event) => look(chart, nearest(chart, event.offsetX), true));
  plot.addEventListener("pointerleave", (event) => event.pointerType === "touch" || look(chart, chart.place, false));
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return look(chart, chart.place, false);
    if (!Object.hasOwn(STEPS, event.key)) return;
    event.preventDefault();
    look(chart, chart.place + STEPS[event.key], true);
  });
}

function nearest({ scale }, x) {
  if (!scale) return 0;
  return Math.round((x - scale.xs[0]) / scale.across);
}

/** Show the values of this column in a tooltip, or hide it. */
function look(chart, place, isShown) {
  if (!chart.scale) return;
  const { data, plot, tip, scale, mark } = chart;
  const last = data.columns.length - 1;
  chart.place = Math.max(0, Math.min(place, last));
  const values = { min: 0, max: last, now: chart.place, text: spoken(data, chart.place) };
  for (const [name, value] of Object.entries(values)) plot.setAttribute(`aria-value${name}`, value);
  tip.hidden = !isShown;
  mark.replaceChildren();
  if (!isShown) return;
  const x = scale.xs[chart.place];
  mark.append(shape("line", { x1: x, x2: x, y1: scale.top, y2: scale.bottom }));
  fill(tip, ...details(data, chart.place));
  tip.style.left = `${Math.max(0, x > scale.width / 2 ? x - tip.offsetWidth - 12 : x + 12)}px`;
}

function details({ columns, series }, place) {
  const row = (part) => make("li", {}, swatch(part.name), make("span", {}, part.title),
    make("b", {}, exact(part.values[place])));
  const sum = series.length > 1
    ? make("li", { class: "sum" }, make("span", {}, "In all"), make("b", {}, exact(total(series, place)))) : null;
  const { title, note } = columns[place];
  return [make("p", {}, title), make("ul", {}, ...series.map(row).reverse(), sum),
    note ? make("p", { class: "beside" }, note) : null];
}

function spoken({ columns, series }, place) {
  const parts = series.map((part) => `${part.title.toLowerCase()} ${exact(part.values[place])}`);
  return [`${columns[place].title}: ${parts.join(", ")}`, columns[place].note].filter(Boolean).join("; ");
}

function asTable(label, { columns, series }) {
  const cell = (tag, text, scope = null) => make(tag, { scope }, text);
  const lines = columns.map((column, place) => make("tr", {}, cell("th", column.title, "row"),
    ...series.map((part) => cell("td", exact(part.values[place])))));
  const heads = ["When", ...series.map((title) => title.title)].map((title) => cell("th", title, "col"));
  return make("table", {}, make("caption", {}, label), make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...lines));
}

// ── a whole and its parts ──────────────────────────────────────────────────────────────────────────────────────────

/** Total above its parts: two bars, equally long if they add up. A difference stands out. */
export function sum(total, parts) {
  const together = parts.reduce((all, part) => all + part.value, 0);
  const off = total.value - together;
  const bar = (...pieces) => make("div", { class: "pieces" }, ...pieces.map(piece));
  const signed = (part, sign) => make("li", {}, make("span", { class: "op" }, sign), swatch(part.name),
    number(part.value), ` ${part.title}`);
  return make("div", { class: "sum" },
    make("p", { class: "total" }, number(total.value), ` ${total.title}`),
    make("div", { class: "pair", "aria-hidden": "true" },
      bar(total, { name: "nothing", value: Math.max(0, -off) }),
      bar(...parts, { name: "missing", value: Math.max(0, off) })),
    make("ul", { class: "parts" }, ...parts.map((part, place) => signed(part, place ? "+" : "="))));
}

function piece({ name, value }) {
  if (!value) return null;
  const bar = make("span", { class: "piece", "data-part": name });
  bar.style.flexGrow = value;
  return bar;
}
