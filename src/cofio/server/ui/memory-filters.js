/** Search box and filter fields of the list. Active filters are shown as chips and written to the address. */

import { get } from "./api.js";
import { button, fill, make, newId, userText, debounce, srOnly } from "./dom.js";
import { CATEGORIES, KINDS, called, capital } from "./memory-labels.js";

const PAUSE = 150; // milliseconds after the last keystroke
const KNOWN = 200; // names suggested per field

/** Fields by their names in the address. */
const FIELDS = {
  project: { label: "Project", any: "All projects" },
  category: { label: "Category", any: "All categories" },
  kind: { label: "Kind", any: "All kinds" },
  source: { label: "Source", hint: "client/project" },
  agent: { label: "Agent" },
  tags: { label: "Tags", hint: "ops, release" },
  since: { label: "From", type: "date" },
  until: { label: "To", type: "date" },
  pinned: { label: "Pinned only", type: "checkbox" },
  archived: { label: "Archived too", type: "checkbox" },
  episodes: { label: "Episodes too: what was said", type: "checkbox" },
};
const NONE = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, ""]));
const CHIPS = {
  since: (day) => `since ${day}`,
  until: (day) => `until ${day}`,
  pinned: () => "pinned",
  archived: () => "archived too",
  episodes: () => "episodes too",
  tags: (text) =>
    splitList(text)
      .map((tag) => `#${tag}`)
      .join(" "),
  project: called,
  source: (text) => `${text}/…`,
  agent: (text) => `by ${text}`,
};

const splitList = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

/** Return the filters set by address parameters. */
export function fromAddress(parameters) {
  return { ...NONE, ...Object.fromEntries(Object.keys(FIELDS).map((name) => [name, parameters.get(name) ?? ""])) };
}

/** Return the filters as a scope of the API; `isQuery` for a query string. */
export function scope(filters, isQuery) {
  const { project, category, kind, source, agent, tags, since, until, pinned, archived } = filters;
  const values = {
    project, category, kind, agent, source_prefix: source,
    tags: isQuery ? splitList(tags).join(",") : splitList(tags),
    since: since && day(since, "00:00:00.000"), until: until && day(until, "23:59:59.999"),
    pinned: pinned ? true : "", include_archived: archived ? true : "",
  };
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "" && value.length !== 0));
}

/** Return the part of that scope that episodes support. */
export function episodeScope(filters) {
  const { project, agent, source_prefix, since, until } = scope(filters, false);
  return Object.fromEntries(Object.entries({ project, agent, source_prefix, since, until })
    .filter(([, value]) => value !== undefined));
}

/** Return the start or end of a day in the reader's time zone; "" for an invalid day. */
function day(text, at) {
  const when = new Date(`${text}T${at}`);
  return Number.isNaN(when.getTime()) ? "" : when.toISOString();
}

/**
 * Search box and filters. `view` has `text` and `filters`; `changed()` is called when either changes.
 * @returns {{ draw: () => void, seen: (memories: object[]) => void, focus: () => void }}
 */
export function narrowing(place, view, changed) {
  const names = { project: new Set(), source: new Set(), agent: new Set(), tags: new Set() };
  const fields = newId("fields");
  const offered = (name) => [name, make("datalist", { id: newId(name) })];
  const lists = Object.fromEntries(["source", "agent", "tags"].map(offered));
  const search = make("input", { type: "search", id: newId("search"), autocomplete: "off", spellcheck: "false",
    placeholder: "What do we know about …", "aria-label": "Search memories" });
  const panel = make("div", { id: fields, class: "fields filters", role: "group", "aria-label": "Filters" });
  panel.hidden = true;
  const opener = make("button", { type: "button", "aria-expanded": "false", "aria-controls": fields, onclick: toggle });
  const chips = make("div", { class: "chips" });
  const inputs = {};
  const again = debounce(changed, PAUSE);
  search.addEventListener("input", () => {
    view.text = search.value;
    again();
  });

  for (const name of Object.keys(FIELDS)) panel.append(field(name));
  fill(place, make("form", { role: "search", onsubmit: submit },
    make("div", { class: "asking-for" }, search, opener), panel, ...Object.values(lists)), chips);
  choices();
  draw();
  return { draw, seen: learnNames, focus: () => search.focus() };

  function submit(event) {
    event.preventDefault();
    changed();
  }

  function toggle() {
    panel.hidden = !panel.hidden;
    opener.setAttribute("aria-expanded", String(!panel.hidden));
  }

  function field(name) {
    const { label, any, type = "text", hint = "" } = FIELDS[name];
    const id = newId(name);
    const input = any ? make("select", { id }) : make("input", { id, type, list: lists[name]?.id, autocomplete: "off",
      placeholder: hint || null });
    inputs[name] = input;
    input.addEventListener("change", () => {
      view.filters[name] = type === "checkbox" ? (input.checked ? "1" : "") : input.value.trim();
      drawChips();
      changed();
    });
    const text = make("label", { for: id }, label);
    const inside = type === "checkbox" ? [input, text] : [text, input];
    return make("div", { class: type === "checkbox" ? "field tick" : "field" }, ...inside);
  }

  /** Show the active filters. */
  function draw() {
    if (search.value !== view.text) search.value = view.text;
    drawChoices();
    for (const [name, input] of Object.entries(inputs)) {
      if (input.type === "checkbox") input.checked = view.filters[name] !== "";
      else if (input !== document.activeElement || !input.value) input.value = view.filters[name];
    }
    drawChips();
  }

  function drawChips() {
    const set = Object.entries(view.filters).filter(([, value]) => value);
    fill(opener, "Filters", set.length ? make("span", { class: "badge" }, String(set.length), srOnly(" set")) : null);
    fill(chips, ...set.map(chip), set.length > 1 ? button("Clear all", () => drop(Object.keys(FIELDS)), "link") : null);
  }

  function chip([name, value]) {
    const text = (CHIPS[name] ?? ((text) => text))(value);
    const about = { type: "button", class: "chip", onclick: () => drop([name]) };
    return make("button", about, srOnly(`Remove the filter ${FIELDS[name].label}: `), userText(text),
      make("span", { "aria-hidden": "true" }, "×"));
  }

  function drop(filter) {
    for (const name of filter) view.filters[name] = "";
    draw();
    opener.focus();
    changed();
  }

  // ── what can be chosen ───────────────────────────────────────────────────────────────────────────────────────────

  /** Names loaded from the service. The others are collected from the listed memories. */
  async function choices() {
    const [{ projects = [] }, { by_source: sources = {} }] = await Promise.all(
      [get("projects", { limit: KNOWN }), get("stats")].map((request) => request.catch(() => ({}))));
    add("project", projects.map((project) => project.name));
    add("source", Object.keys(sources));
    drawChoices();
  }

  function learnNames(memories) {
    for (const { project, source, agent, tags } of memories) {
      add("project", [project]), add("source", [source]), add("agent", [agent]), add("tags", tags);
    }
    drawChoices();
  }

  function add(name, values) {
    for (const value of values) if (value && names[name].size < KNOWN) names[name].add(value);
  }

  function drawChoices() {
    offer("project", [...names.project].sort());
    offer("category", CATEGORIES);
    offer("kind", KINDS);
    for (const [name, list] of Object.entries(lists)) {
      if (list.children.length !== names[name].size) {
        fill(list, ...[...names[name]].sort().map((value) => make("option", { value: value })));
      }
    }
  }

  function offer(name, options) {
    const value = view.filters[name];
    const all = value && !options.includes(value) ? [...options, value] : options;
    const select = inputs[name];
    if (select.options.length !== all.length + 1) {
      fill(select, make("option", { value: "" }, FIELDS[name].any),
        ...all.map((value) => make("option", { value: value }, name === "project" ? value : capital(value))));
    }
    select.value = value;
  }
}
