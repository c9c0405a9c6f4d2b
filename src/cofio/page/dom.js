/** Elements, made of text alone: whatever the store holds is shown as it is, and is never markup. */

/**
 * An element: `make("button", { class: "quiet", onclick: save }, "Save")`.
 * Names that begin with `on` are listeners; true and false are whether an attribute stands there.
 */
export function make(tag, about = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...present(inside));
  return element;
}

/** Put this in place of all that an element holds. */
export function fill(element, ...inside) {
  element.replaceChildren(...present(inside));
  return element;
}

/** What of it is there: an element, or a text. */
const present = (inside) => inside.flat().filter((each) => each instanceof Node || (typeof each === "string" && each));

/** A button that does something, other than to send a form. */
export const button = (text, onclick, kind = null) => make("button", { type: "button", class: kind, onclick }, text);

/** Words that only a screen reader says. */
export const unseen = (text) => make("span", { class: "sr" }, text);

/** Words of somebody else: in the direction that they are written in. */
export const said = (text, about = {}) => make("bdi", about, text);

/** A part of a page, with its title. */
export function box(title, ...inside) {
  const id = newId("box");
  return make("section", { class: "box", "aria-labelledby": id }, make("h2", { id }, title), ...inside);
}

/** What is told of something, by name: `{ "Kept": time(at), "Note": null }`. What is empty is left out. */
export function terms(told, about = {}) {
  const line = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
  return make("dl", about, ...Object.entries(told).filter(([, value]) => value).map(line));
}

/** Fill a menu with links, `[href, isHere, ...inside]`. The one that had the focus has it still. */
export function menu(nav, links) {
  const focused = nav.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  fill(nav, ...links.map(([href, isHere, ...inside]) =>
    make("a", { href, "aria-current": isHere ? "page" : null }, ...inside)));
  [...nav.children].find((each) => each.getAttribute("href") === focused)?.focus();
}

export const find = (id) => document.getElementById(id);

let made = 0;
export const newId = (name) => `${name}-${++made}`;

/** Run it a moment after the last of many calls. */
export function settled(run, pause = 200) {
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

/** When it was, as people say it; the whole time for whoever points at it. */
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

/** A number as people read it: 5,000,000. Beyond what can be read at a glance, as it is. */
export function plainNumber(value) {
  const size = Math.abs(value);
  return value === 0 || (size < 1e15 && size >= 1e-6) ? PLAIN.format(value) : String(value);
}

/** How many there are: "1 key", "2 keys"; "1 memory", "2 memories". */
export const counted = (number, one, many = `${one}s`) => `${plainNumber(number)} ${number === 1 ? one : many}`;

/** The beginning of a text, as much of it as may be shown: never half of a character. */
export const beginning = (text, most) => (text.length <= most ? text
  : `${[...text.slice(0, most + 1)].slice(0, -1).join("")}…`);
