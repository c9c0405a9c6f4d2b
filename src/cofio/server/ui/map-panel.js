/** Side panel of the map: groups, selected or found memories, and the open memory. */

import { get, path } from "./api.js";
import { button, counted, fill, find, make, plainNumber, said, terms, time } from "./dom.js";
import { caller, doing, trouble } from "./app-shell.js";
import { projectName } from "./map-colours.js";
import { swatch } from "./map-tools.js";

const SHOWN = 100; // memories listed at a time
const BESIDE = 5; // neighbours of the open memory
const AT_ONCE = 1_000; // maximum number of memories changed at once

/** Format a number of memories. */
export const many = (count) => counted(count, "memory", "memories");

/** Fill the panel below its title. */
function put(title, ...inside) {
  const panel = find("panel");
  fill(panel, make("h2", { id: "panel-title", tabindex: "-1" }, title), ...inside);
  panel.scrollTop = 0;
}

// ── groups ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return every group, largest first; each can be zoomed to. */
export function showGroups(dots, colours, acts) {
  const groups = dots.clusters.map((each, number) => ({ ...each, number })).filter((each) => each.shown);
  const loose = dots.those((place) => dots.cluster[place] < 0);
  const most = Math.max(1, ...groups.map((each) => each.shown));
  const shares = sharesOf(dots, colours);
  const line = ({ name, number, shown }) => make("li", {}, make("button",
    { type: "button", class: "group", "data-group": number, onclick: () => acts.group(number) },
    make("span", { class: "name" }, said(name)), make("span", { class: "count" }, plainNumber(shown)),
    mixture(shares[number], colours.classes, shown / most)));
  const sorted = groups.sort((one, other) => other.shown - one.shown);
  put("Groups",
    make("p", { class: "dim" }, sorted.length
      ? "Clusters, named by their distinctive words."
      : "Too few memories for groups."),
    make("ul", { class: "groups" }, ...sorted.map(line)),
    loose.length && sorted.length
      ? button(`${many(loose.length)} in no group`, () => acts.loose(loose), "link") : null);
}

/** Count the colours in each group. */
function sharesOf(dots, { of, classes }) {
  const found = dots.clusters.map(() => new Uint32Array(classes.length));
  for (let place = 0; place < dots.count; place++) {
    if (dots.shown[place] && dots.cluster[place] >= 0) found[dots.cluster[place]][of[place]]++;
  }
  return found;
}

/** Return a bar of colours; its length is relative to the largest group. */
function mixture(counts, classes, part) {
  const bar = make("span", { class: "mixture", "aria-hidden": "true" });
  bar.style.inlineSize = `${Math.max(2, part * 100)}%`;
  bar.append(...classes.map((each, place) => {
    const share = make("span");
    share.style.flexGrow = String(counts[place]);
    share.style.background = `var(${each.hue})`;
    return share;
  }));
  return bar;
}

// ── memories that were chosen or found ─────────────────────────────────────────────────────────────────────────────

/** Return memories with actions on all of them. */
export function showChosen(title, places, dots, colours, acts) {
  const room = places.length > AT_ONCE
    ? make("p", { class: "dim" }, `Choose at most ${plainNumber(AT_ONCE)} to pin or archive them.`)
    : make("div", { class: "actions" },
      button("Pin", doing(() => acts.bulk("pin", places))),
      button("Archive", doing(() => acts.bulk("archive", places)), "danger"));
  put(title,
    back("Groups", acts.letGo),
    make("p", { class: "dim" }, byCategory(places, dots)),
    mixture(countsOf(places, colours), colours.classes, 1),
    caller.mayWrite && places.length ? room : null,
    list(places, dots, colours, acts));
}

/** Return the hits, best first. */
export function showFound(title, places, dots, colours, acts) {
  put(title, back("Groups", acts.letGo),
    places.length ? button("Select them", () => acts.chooseAll(places)) : null,
    list(places, dots, colours, acts));
}

function byCategory(places, dots) {
  const counts = new Uint32Array(dots.categories.length);
  for (const place of places) counts[dots.category[place]]++;
  return dots.categories.map((each, place) => [each, counts[place]]).filter(([, count]) => count)
    .sort(([, one], [, other]) => other - one).map(([each, count]) => `${plainNumber(count)} ${each}`).join(", ");
}

function countsOf(places, { of, classes }) {
  const counts = new Uint32Array(classes.length);
  for (const place of places) counts[of[place]]++;
  return counts;
}

/** Return the first ones, with a button for more. */
function list(places, dots, colours, acts) {
  const lines = make("ul", { class: "members" });
  const more = button("Show more", () => further(), "further");
  const further = () => {
    const from = lines.children.length;
    const next = places.slice(from, from + SHOWN).map((place) => member(place, dots, colours, acts));
    lines.append(...next);
    more.hidden = lines.children.length >= places.length;
    if (from) next[0].firstChild.focus();
  };
  further();
  return make("div", { class: "listing" }, lines, more);
}

function member(place, dots, { of, classes }, acts) {
  const point = () => acts.point(place);
  return make("li", {}, make("button", {
    type: "button", class: "member", "data-id": dots.id[place], onclick: () => acts.open(place, true),
    onpointerenter: point, onfocus: point, onpointerleave: acts.leave, onblur: acts.leave,
  }, swatch(classes[of[place]].hue),
  make("span", { class: "says" }, said(dots.text[place])),
  make("span", { class: "when" }, time(dots.created[place]))));
}

const back = (where, go) => button(`‹ ${where}`, go, "link back");

// ── one memory ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the open memory with its neighbours. */
export async function showMemory(id, dots, colours, acts) {
  const place = dots.place.get(id) ?? -1;
  const inside = make("div", { class: "memory" }, make("p", { class: "dim" }, "Looking it up …"));
  put(`Memory ${id}`, back(acts.behind(), acts.shut), inside);
  try {
    const memory = await get(path("memory", String(id)));
    if (inside.isConnected) fill(inside, ...about(memory, place, dots, colours, acts));
  } catch (error) {
    fill(inside, trouble(error));
  }
}

function about(memory, place, dots, colours, acts) {
  return [
    make("p", { class: "long text" }, said(memory.text)),
    make("p", { class: "marks" }, category(memory.category),
      memory.pinned ? make("span", { class: "tag" }, "pinned") : null,
      memory.archived_at ? make("span", { class: "tag" }, "archived") : null),
    facts(memory),
    make("div", { class: "actions" },
      make("a", { class: "button", href: `memories#/${memory.id}` }, "Open in Memories"),
      caller.mayWrite && place >= 0 && !memory.archived_at ? deeds(memory, place, acts) : null),
    place >= 0 && dots.shown[place] && dots.count > 1 ? near(place, dots, colours, acts) : null,
  ];
}

function category(name) {
  return make("span", { class: "mark" }, swatch(`--${name}`), name);
}

function facts(memory) {
  return terms({
    "Said": time(memory.created_at),
    "Project": memory.project ? said(projectName(memory.project), { title: memory.project }) : null,
    "Source": memory.source ? said(memory.source) : null,
    "Kind": memory.kind,
    "Tags": memory.tags.length ? said(memory.tags.join(", ")) : null,
    "Recalled": memory.retrieval_count ? counted(memory.retrieval_count, "time") : "never",
  });
}

function deeds(memory, place, acts) {
  return [
    button(memory.pinned ? "Unpin" : "Pin", doing(() => acts.bulk(memory.pinned ? "unpin" : "pin", [place]))),
    button("Archive", doing(() => acts.bulk("archive", [place])), "danger"),
  ];
}

function near(place, dots, colours, acts) {
  return make("div", { class: "near" }, make("h3", {}, "Lies near"),
    make("ul", { class: "members" }, ...dots.beside(place, BESIDE).map((each) => member(each, dots, colours, acts))));
}
