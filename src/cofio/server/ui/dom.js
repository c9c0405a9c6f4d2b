/** DOM elements built from text only: stored content is shown as it is, and is never markup. */

/**
 * Create an element: `make("button", { class: "quiet", onclick: save }, "Save")`.
 * Names that begin with `on` are listeners; true and false set or omit an attribute.
 */
export function make(tag, about = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...nonEmpty(inside));
  return element;
}

/** Replace the children of an element. */
export function fill(element, ...inside) {
  element.replaceChildren(...nonEmpty(inside));
  return element;
}

/** Keep elements and texts, drop empty values. */
const nonEmpty = (inside) =>
  inside.flat().filter((child) => child instanceof Node || (typeof child === "string" && child));

/** Create a button that does not submit a form. */
export const button = (text, onclick, kind = null) => make("button", { type: "button", class: kind, onclick }, text);

/** Create text for screen readers only. */
export const srOnly = (text) => make("span", { class: "sr" }, text);

/** Create user text, isolated in its own writing direction. */
export const userText = (text, about = {}) => make("bdi", about, text);

/** Create a section with a title. */
export function box(title, ...inside) {
  const id = newId("box");
  return make("section", { class: "box", "aria-labelledby": id }, make("h2", { id }, title), ...inside);
}

/** Create a list of fields: `{ "Kept": time(at), "Note": null }`. Empty ones are omitted. */
export function definitionList(fields, about = {}) {
  const line = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
  return make("dl", about, ...Object.entries(fields).filter(([, value]) => value).map(line));
}

/** Fill a menu with links, `[href, isHere, ...inside]`. The focused link keeps the focus. */
export function menu(nav, links) {
  const focused = nav.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  fill(nav, ...links.map(([href, isHere, ...inside]) =>
    make("a", { href, "aria-current": isHere ? "page" : null }, ...inside)));
  [...nav.children].find((child) => child.getAttribute("href") === focused)?.focus();
}

export const find = (id) => document.getElementById(id);

let idCount = 0;
export const newId = (name) => `${name}-${++idCount}`;

/** Return a debounced function. */
export function debounce(run, pause = 200) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(run, pause);
  };
}

// ── times, numbers, texts ──────────────────────────────────────────────────────────────────────────────────────────

const STEPS = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60]];
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const WHOLE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const PLAIN = new Intl.NumberFormat("en", { maximumFractionDigits: 20 });

/** Create a relative time; the full time is a tooltip. */
export function time(moment) {
  const at = new Date(moment);
  return make("time", { datetime: moment, title: WHOLE.format(at) }, since((at - Date.now()) / 1000));
}

function since(seconds) {
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return AGO.format(Math.trunc(seconds / length), unit);
  }
  return seconds > 5 ? "in a moment" : "just now";
}

/** Format a number: 5,000,000. Very large ones stay as they are. */
export function plainNumber(value) {
  const size = Math.abs(value);
  return value === 0 || (size < 1e15 && size >= 1e-6) ? PLAIN.format(value) : String(value);
}

/** Format a count: "1 key", "2 keys"; "1 memory", "2 memories". */
export const formatCount = (number, one, many = `${one}s`) => `${plainNumber(number)} ${number === 1 ? one : many}`;

/** Return the beginning of a text, without splitting a character. */
export const truncate = (text, most) => (text.length <= most ? text
  : `${[...text.slice(0, most + 1)].slice(0, -1).join("")}…`);
