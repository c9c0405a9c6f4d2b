/** Controls of the map: filters, legend, and buttons. */

import { fill, make, newId, plainNumber, said, settled } from "./dom.js";
import { WAYS } from "./map-colours.js";
import { CATEGORIES, capital } from "./memory-labels.js";

/** Value for memories without a project, in the address and in the field. */
export const NONE = "\u2205";
const NEARER = 1.6; // zoom factor of a button

/** Return a coloured dot. */
export function swatch(hue) {
  const dot = make("span", { class: "dot", "aria-hidden": "true" });
  dot.style.background = `var(${hue})`;
  return dot;
}

/** Refill a box; the focused element, known by `data-does`, keeps the focus. */
function refill(box, ...inside) {
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.does : "";
  fill(box, ...inside);
  if (focused) [...box.querySelectorAll("[data-does]")].find((each) => each.dataset.does === focused)?.focus();
}

/** Fields above the map. `seen` is their state, `projects` are [project, name]; `acts`: search, colour, narrow. */
export function drawTools(box, seen, projects, acts) {
  const categories = CATEGORIES.map((each) => [each, capital(each)]);
  const sorted = [...projects].sort(([, one], [, other]) => one.localeCompare(other));
  refill(box, make("form", { class: "narrow", role: "search", onsubmit: (event) => event.preventDefault() },
    searching(seen, acts), ways(seen, acts),
    narrowing(seen, "project", "Project", [["", "All projects"], [NONE, "No project"], ...sorted], acts),
    narrowing(seen, "category", "Category", [["", "All categories"], ...categories], acts)));
}

function searching(seen, acts) {
  const id = newId("find");
  const about = { id, name: "find", type: "search", autocomplete: "off", placeholder: "What answers lights up" };
  const input = make("input", { ...about, "data-does": "find" });
  input.value = seen.find;
  const ask = settled(() => acts.search(), 250);
  input.addEventListener("input", () => {
    seen.find = input.value;
    ask();
  });
  return make("div", { class: "field find" }, make("label", { for: id }, "Find"), input);
}

function ways(seen, acts) {
  const choice = ([way, name]) => {
    const about = { type: "radio", name: "way", value: way, "data-does": way };
    const input = make("input", { ...about, onchange: () => acts.colour(way) });
    input.checked = seen.way === way;
    return make("label", {}, input, make("span", {}, name));
  };
  return make("fieldset", { class: "ways" }, make("legend", {}, "Colour by"),
    make("div", { class: "segments" }, ...Object.entries(WAYS).map(choice)));
}

/** Return a select field that filters the map. */
function narrowing(seen, name, label, choices, acts) {
  const id = newId(name);
  const isKnown = !seen[name] || choices.some(([value]) => value === seen[name]);
  const all = isKnown ? choices : [...choices, [seen[name], seen[name]]];
  const options = all.map(([value, text]) => make("option", { value }, text));
  const select = make("select", { id, name, "data-does": name }, ...options);
  select.value = seen[name];
  select.addEventListener("change", () => acts.narrow(name, select.value));
  return make("div", { class: `field ${name}` }, make("label", { for: id }, label), select);
}

/** Return the legend. Each class can be hidden, or shown alone: `hide(keys)` is called with the hidden ones. */
export function drawLegend(box, classes, hidden, hide) {
  const others = (key) => classes.map((each) => each.key).filter((each) => each !== key);
  const toggle = (key) => hide(hidden.has(key) ? [...hidden].filter((each) => each !== key) : [...hidden, key]);
  const entry = ({ key, name, hue, count }) => make("div", { class: "entry" },
    make("button", {
      type: "button", class: "class", title: key, "aria-pressed": String(!hidden.has(key)),
      "data-does": `toggle ${key}`, onclick: () => toggle(key),
    }, swatch(hue), said(name), make("span", { class: "count" }, plainNumber(count))),
    make("button", {
      type: "button", class: "only", "aria-label": `Only ${name}`,
      "data-does": `only ${key}`, onclick: () => hide(others(key)),
    }, "only"));
  const all = make("button", { type: "button", class: "link", onclick: () => hide([]) }, "Show all");
  refill(box, ...classes.map(entry), hidden.size ? all : null);
}

/** Return the buttons on the map. `choose(truth)` is called with whether a drag selects from now on. */
export function drawControls(box, view, choose) {
  const act = (text, name, onclick) =>
    make("button", { type: "button", "aria-label": name, title: name, onclick }, text);
  const turn = ({ currentTarget: it }) => {
    const isOn = it.getAttribute("aria-pressed") !== "true";
    it.setAttribute("aria-pressed", String(isOn));
    choose(isOn);
  };
  fill(box,
    act("+", "Zoom in", () => view.flyNearer(NEARER)),
    act("−", "Zoom out", () => view.flyNearer(1 / NEARER)),
    act("⤢", "Show the whole map", () => view.fit()),
    make("button", { type: "button", class: "choosing", "aria-pressed": "false", onclick: turn }, "Select"));
}
