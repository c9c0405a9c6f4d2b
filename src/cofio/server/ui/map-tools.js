/** Controls of the map: filters, legend, and buttons. */

import { fill, make, newId, plainNumber, userText, debounce } from "./dom.js";
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
  if (focused) [...box.querySelectorAll("[data-does]")].find((element) => element.dataset.does === focused)?.focus();
}

/** Fields above the map. `seen` is their state, `projects` are [project, name]; `acts`: search, colour, narrow. */
export function drawTools(box, state, projects, callbacks) {
  const categories = CATEGORIES.map((category) => [category, capital(category)]);
  const sorted = [...projects].sort(([, one], [, other]) => one.localeCompare(other));
  refill(box, make("form", { class: "narrow", role: "search", onsubmit: (event) => event.preventDefault() },
    searching(state, callbacks), ways(state, callbacks),
    narrowing(state, "project", "Project", [["", "All projects"], [NONE, "No project"], ...sorted], callbacks),
    narrowing(state, "category", "Category", [["", "All categories"], ...categories], callbacks)));
}

function searching(state, callbacks) {
  const id = newId("find");
  const about = { id, name: "find", type: "search", autocomplete: "off", placeholder: "What answers lights up" };
  const input = make("input", { ...about, "data-does": "find" });
  input.value = state.find;
  const ask = debounce(() => callbacks.search(), 250);
  input.addEventListener("input", () => {
    state.find = input.value;
    ask();
  });
  return make("div", { class: "field find" }, make("label", { for: id }, "Find"), input);
}

function ways(state, callbacks) {
  const choice = ([way, name]) => {
    const about = { type: "radio", name: "way", value: way, "data-does": way };
    const input = make("input", { ...about, onchange: () => callbacks.colour(way) });
    input.checked = state.way === way;
    return make("label", {}, input, make("span", {}, name));
  };
  return make("fieldset", { class: "ways" }, make("legend", {}, "Colour by"),
    make("div", { class: "segments" }, ...Object.entries(WAYS).map(choice)));
}

/** Return a select field that filters the map. */
function narrowing(state, name, label, choices, callbacks) {
  const id = newId(name);
  const isKnown = !state[name] || choices.some(([value]) => value === state[name]);
  const all = isKnown ? choices : [...choices, [state[name], state[name]]];
  const options = all.map(([value, text]) => make("option", { value }, text));
  const select = make("select", { id, name, "data-does": name }, ...options);
  select.value = state[name];
  select.addEventListener("change", () => callbacks.narrow(name, select.value));
  return make("div", { class: `field ${name}` }, make("label", { for: id }, label), select);
}

/** Return the legend. Each class can be hidden, or shown alone: `hide(keys)` is called with the hidden ones. */
export function drawLegend(box, classes, hidden, hide) {
  const others = (key) => classes.map((other) => other.key).filter((other) => other !== key);
  const toggle = (key) => hide(hidden.has(key) ? [...hidden].filter((other) => other !== key) : [...hidden, key]);
  const entry = ({ key, name, hue, count }) => make("div", { class: "entry" },
    make("button", {
      type: "button", class: "class", title: key, "aria-pressed": String(!hidden.has(key)),
      "data-does": `toggle ${key}`, onclick: () => toggle(key),
    }, swatch(hue), userText(name), make("span", { class: "count" }, plainNumber(count))),
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
