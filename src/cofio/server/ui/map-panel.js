/** Side panel of the map: groups, selected or found memories, and the open memory. */

import { get, path } from "./api.js";
import { button, formatCount, fill, find, make, plainNumber, userText, definitionList, time } from "./dom.js";
import { caller, doing, trouble } from "./app-shell.js";
import { provenance } from "./memory-labels.js";
import { projectName } from "./map-colours.js";
import { swatch } from "./map-tools.js";

const SHOWN = 100; // memories listed at a time
const BESIDE = 5; // neighbours of the open memory
const AT_ONCE = 1_000; // maximum number of memories changed at once

/** Format a number of memories. */
export const many = (count) => formatCount(count, "memory", "memories");

/** Fill the panel below its title. */
function put(title, ...inside) {
  const panel = find("panel");
  fill(panel, make("h2", { id: "panel-title", tabindex: "-1" }, title), ...inside);
  panel.scrollTop = 0;
}

// ── groups ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return every group, largest first; each can be zoomed to. */
export function showGroups(dots, colours, callbacks) {
  const groups = dots.clusters.map((cluster, number) => ({ ...cluster, number })).filter((cluster) => cluster.shown);
  const loose = dots.those((place) => dots.cluster[place] < 0);
  const most = Math.max(1, ...groups.map((group) => group.shown));
  const shares = sharesOf(dots, colours);
  const line = ({ name, number, shown }) => make("li", {}, make("button",
    { type: "button", class: "group", "data-group": number, onclick: () => callbacks.group(number) },
    make("span", { class: "name" }, userText(name)), make("span", { class: "count" }, plainNumber(shown)),
    mixture(shares[number], colours.classes, shown / most)));
  const sorted = groups.sort((one, other) => other.shown - one.shown);
  put("Groups",
    make("p", { class: "dim" }, sorted.length
      ? "Clusters, named by their distinctive words."
      : "Too few memories for groups."),
    make("ul", { class: "groups" }, ...sorted.map(line)),
    loose.length && sorted.length
      ? button(`${many(loose.length)} in no group`, () => callbacks.loose(loose), "link") : null);
}

/** Count the colours in each group. */
function sharesOf(dots, { of, classes }) {
  const countsByCluster = dots.clusters.map(() => new Uint32Array(classes.length));
  for (let place = 0; place < dots.count; place++) {
    if (dots.shown[place] && dots.cluster[place] >= 0) countsByCluster[dots.cluster[place]][of[place]]++;
  }
  return countsByCluster;
}

/** Return a bar of colours; its length is relative to the largest group. */
function mixture(counts, classes, part) {
  const bar = make("span", { class: "mixture", "aria-hidden": "true" });
  bar.style.inlineSize = `${Math.max(2, part * 100)}%`;
  bar.append(...classes.map((category, place) => {
    const share = make("span");
    share.style.flexGrow = String(counts[place]);
    share.style.background = `var(${category.hue})`;
    return share;
  }));
  return bar;
}

// ── memories that were chosen or found ─────────────────────────────────────────────────────────────────────────────

/** Return memories with actions on all of them. */
export function showChosen(title, places, dots, colours, callbacks) {
  const room = places.length > AT_ONCE
    ? make("p", { class: "dim" }, `Choose at most ${plainNumber(AT_ONCE)} to pin or archive them.`)
    : make("div", { class: "actions" },
      button("Pin", doing(() => callbacks.bulk("pin", places))),
      button("Archive", doing(() => callbacks.bulk("archive", places)), "danger"));
  put(title,
    back("Groups", callbacks.letGo),
    make("p", { class: "dim" }, byCategory(places, dots)),
    mixture(countsOf(places, colours), colours.classes, 1),
    caller.mayWrite && places.length ? room : null,
    list(places, dots, colours, callbacks));
}

/** Return the hits, best first. */
export function showFound(title, places, dots, colours, callbacks) {
  put(title, back("Groups", callbacks.letGo),
    places.length ? button("Select them", () => callbacks.chooseAll(places)) : null,
    list(places, dots, colours, callbacks));
}

function byCategory(places, dots) {
  const counts = new Uint32Array(dots.categories.length);
  for (const place of places) counts[dots.category[place]]++;
  return dots.categories.map((category, place) => [category, counts[place]]).filter(([, count]) => count)
    .sort(([, one], [, other]) => other - one).map(([name, count]) => `${plainNumber(count)} ${name}`).join(", ");
}

function countsOf(places, { of, classes }) {
  const counts = new Uint32Array(classes.length);
  for (const place of places) counts[of[place]]++;
  return counts;
}

/** Return the first ones, with a button for more. */
function list(places, dots, colours, callbacks) {
  const lines = make("ul", { class: "members" });
  const more = button("Show more", () => further(), "further");
  const further = () => {
    const from = lines.children.length;
    const next = places.slice(from, from + SHOWN).map((place) => member(place, dots, colours, callbacks));
    lines.append(...next);
    more.hidden = lines.children.length >= places.length;
    if (from) next[0].firstChild.focus();
  };
  further();
  return make("div", { class: "listing" }, lines, more);
}

function member(place, dots, { of, classes }, callbacks) {
  const point = () => callbacks.point(place);
  return make("li", {}, make("button", {
    type: "button", class: "member", "data-id": dots.id[place], onclick: () => callbacks.open(place, true),
    onpointerenter: point, onfocus: point, onpointerleave: callbacks.leave, onblur: callbacks.leave,
  }, swatch(classes[of[place]].hue),
  make("span", { class: "says" }, userText(dots.text[place])),
  make("span", { class: "when" }, time(dots.created[place]))));
}

const back = (where, go) => button(`‹ ${where}`, go, "link back");

// ── one memory ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the open memory with its neighbours. */
export async function showMemory(id, dots, colours, callbacks) {
  const place = dots.place.get(id) ?? -1;
  const inside = make("div", { class: "memory" }, make("p", { class: "dim" }, "Looking it up …"));
  put(`Memory ${id}`, back(callbacks.behind(), callbacks.shut), inside);
  try {
    const memory = await get(path("memory", String(id)));
    if (inside.isConnected) fill(inside, ...about(memory, place, dots, colours, callbacks));
  } catch (error) {
    fill(inside, trouble(error));
  }
}

function about(memory, place, dots, colours, callbacks) {
  return [
    make("p", { class: "long text" }, userText(memory.text)),
    make("p", { class: "marks" }, category(memory.category),
      memory.pinned ? make("span", { class: "tag" }, "pinned") : null,
      memory.archived_at ? make("span", { class: "tag" }, "archived") : null),
    facts(memory),
    make("div", { class: "actions" },
      make("a", { class: "button", href: `memories#/${memory.id}` }, "Open in Memories"),
      caller.mayWrite && place >= 0 && !memory.archived_at ? deeds(memory, place, callbacks) : null),
    place >= 0 && dots.shown[place] && dots.count > 1 ? near(place, dots, colours, callbacks) : null,
  ];
}

function category(name) {
  return make("span", { class: "mark" }, swatch(`--${name}`), name);
}

function facts(memory) {
  return definitionList({
    "Said": time(memory.created_at),
    "Project": memory.project ? userText(projectName(memory.project), { title: memory.project }) : null,
    "Source": memory.source ? userText(memory.source) : null,
    "Provenance": provenance(memory, caller.user),
    "Kind": memory.kind,
    "Tags": memory.tags.length ? userText(memory.tags.join(", ")) : null,
    "Recalled": memory.retrieval_count ? formatCount(memory.retrieval_count, "time") : "never",
  });
}

function deeds(memory, place, callbacks) {
  return [
    button(memory.pinned ? "Unpin" : "Pin", doing(() => callbacks.bulk(memory.pinned ? "unpin" : "pin", [place]))),
    button("Archive", doing(() => callbacks.bulk("archive", [place])), "danger"),
  ];
}

function near(place, dots, colours, callbacks) {
  return make(
    "div",
    { class: "near" },
    make("h3", {}, "Lies near"),
    make(
      "ul",
      { class: "members" },
      ...dots.beside(place, BESIDE).map((neighbour) => member(neighbour, dots, colours, callbacks)),
    ),
  );
}
