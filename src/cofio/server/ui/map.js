/**
 * Map page: similar memories lie close together.
 *
 * The address holds the state: #/project?at=5000,4200,3.5&open=12 is coloured by project, centred there, zoomed in 3.5
 * times, with memory 12 open.
 */

import { get, post } from "./api.js";
import { button, counted, fill, find, make, plainNumber, said, settled } from "./dom.js";
import { complain, doing, enter, tell, trouble, undoing } from "./app-shell.js";
import { listen } from "./events.js";
import { Canvas } from "./map-canvas.js";
import { WAYS, coloured, projectName } from "./map-colours.js";
import { Dots } from "./map-points.js";
import { hands } from "./map-input.js";
import { many, showChosen, showFound, showGroups, showMemory } from "./map-panel.js";
import { NONE, drawControls, drawLegend, drawTools, swatch } from "./map-tools.js";
import { View } from "./map-view.js";

const ANSWERS = 50; // hits highlighted by a search
const REACH = 9; // pixels within which a point is hit
const LOOKED = 100; // new memories that are counted
const DONE = { pin: "Pinned", unpin: "Unpinned", archive: "Archived" };
const DARK = matchMedia("(prefers-color-scheme: dark)");
const WHEN = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });

/** State of the view, as in the address. */
const seen = { way: "category", project: "", category: "", find: "", hidden: new Set(), open: 0, at: null };

let dots = null; // the points; null until loaded
let colours = { of: new Uint8Array(), classes: [] };
let chosen = null; // 1 for each existing point; null if unused
let picked = { title: "", places: [] }; // selected points
let found = null; // search hits: { places, lit }
let pointed = -1; // point under the pointer or the keyboard cursor
let brush = null; // outline being drawn
let isChoosing = false; // whether a drag selects
let stood = ""; // address last read or written
let known = 0; // number of memories, with and without vectors
let projects = new Map(); // every project with its display name
let latest = 0; // the last requested map: replies for earlier ones are dropped
let asking = 0; // the last search, likewise
let frame = 0;
let deafen = () => {};

const view = new View(redraw);
const canvas = new Canvas(find("dots"), find("glow"));
const keepPlace = settled(() => write(), 250);

enter({ show, empty });

async function show() {
  read();
  showTools();
  drawControls(find("controls"), view, (truth) => {
    isChoosing = truth;
    find("stage").classList.toggle("choosing", truth);
  });
  window.onhashchange = arrive;
  find("panel").onkeydown = (event) => { // returning false would block all other keys
    if (event.key === "Escape") letGo();
  };
  deafen = listen((what) => what.has("memories") && look());
  await Promise.all([load(), nameProjects()]);
}

/** Load every project for the filter. */
async function nameProjects() {
  const mine = deafen;
  const told = await get("projects", { limit: 1_000 }).catch(() => ({ projects: [] }));
  if (mine !== deafen) return; // the page was left
  projects = new Map(told.projects.filter(({ name }) => name).map(({ name }) => [name, projectName(name)]));
  showTools();
}

function empty() {
  latest++;
  asking++;
  deafen();
  deafen = () => {};
  [dots, chosen, found, pointed, projects] = [null, null, null, -1, new Map()];
  picked = { title: "", places: [] };
  canvas.clear();
  for (const each of ["tools", "legend", "panel", "tip", "what", "news", "nothing", "told"]) fill(find(each));
}

hands(find("dots"), view, {
  choosing: () => isChoosing,
  tap, point, leave, walk, letGo,
  brush: (outline) => ((brush = outline), redraw()),
  brushed: (outline, isMore) => {
    brush = null;
    choose(dots.within(outline.map(([across, down]) => view.spot(across, down))), "", isMore);
  },
  open: () => pointed >= 0 && open(pointed, true),
  choose: () => pointed >= 0 && choose([pointed], "", true),
});
new ResizeObserver(() => dots && resize()).observe(find("stage"));
DARK.addEventListener("change", () => dots && (canvas.paint(dots, colours), redraw()));

/** Callbacks for the panel. */
const acts = {
  group: (number) => visit(dots.those((place) => dots.cluster[place] === number), dots.clusters[number].name),
  loose: (places) => choose(places, "In no group"),
  chooseAll: (places) => visit(places, ""),
  behind: () => (found ? "Answers" : chosen ? "Chosen" : "Groups"),
  point: (place) => ((pointed = place), redraw()),
  leave, letGo, open, shut, bulk,
};

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Apply the address; unknown parts are ignored. */
function read() {
  const ours = /^(?:#\/(\w*)\??(.*))?$/s.exec(location.hash);
  stood = location.hash;
  if (!ours) return false;
  const [, way = "", rest = ""] = ours;
  const given = new URLSearchParams(rest);
  const at = (given.get("at") ?? "").split(",").map(Number);
  Object.assign(seen, {
    way: Object.hasOwn(WAYS, way) ? way : "category",
    project: given.get("project") ?? "",
    category: given.get("category") ?? "",
    find: given.get("find") ?? "",
    hidden: new Set(given.getAll("hide")),
    open: Number(given.get("open")) || 0,
    at: at.length === 3 && at.every(Number.isFinite) && at[2] > 0 ? at : null,
  });
  return true;
}

/**
 * Write the state to the address, as a history entry or in place.
 * During back and forward navigation the address differs already and is read in a moment: it is not overwritten.
 */
function write(isStep = false) {
  if (!dots || (!isStep && location.hash !== stood)) return;
  const told = new URLSearchParams();
  if (dots.count && !view.isWhole) {
    told.set("at", [Math.round(view.x), Math.round(view.y), Number(view.zoom.toPrecision(4))].join());
  }
  for (const name of ["project", "category", "find", "open"]) if (seen[name]) told.set(name, seen[name]);
  for (const each of seen.hidden) told.append("hide", each);
  const rest = String(told) ? `?${String(told).replaceAll("%2C", ",")}` : "";
  history[isStep ? "pushState" : "replaceState"](null, "", `#/${seen.way}${rest}`);
  stood = location.hash;
}

async function arrive() {
  const { project, category, find: before } = seen;
  if (!read()) return;
  showTools();
  if (!dots?.count || seen.project !== project || seen.category !== category) return load();
  recolour();
  if (seen.at) goTo(seen.at);
  else view.fit();
  if (seen.find !== before) return search();
  drawPanel();
}

function goTo([x, y, zoom]) {
  view.set({ x, y, scale: view.whole * zoom });
}

// ── the points ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Load the map and draw it. */
async function load() {
  const mine = ++latest;
  veil("Drawing the map …");
  try {
    const [told, listed] = await Promise.all([get(asked("map")), get(asked("memories"), { limit: 1 })]);
    if (mine !== latest) return;
    known = listed.total;
    dots = new Dots(told);
    fill(find("news"));
    veil("");
    await arranged();
  } catch (error) {
    if (mine === latest) blank(trouble(error));
  } finally {
    if (mine === latest) veil("");
  }
}

/** Return a path with the map's filters. Memories without a project are requested by an empty one. */
function asked(where) {
  const query = new URLSearchParams();
  if (seen.project) query.set("project", seen.project === NONE ? "" : seen.project);
  if (seen.category) query.set("category", seen.category);
  return `${where}?${query}`;
}

async function arranged() {
  Object.assign(picked, { title: "", places: [] });
  [chosen, found, pointed] = [null, null, -1];
  showTools();
  describe();
  if (!dots.count) return blank(await emptiness());
  fill(find("nothing"));
  find("atlas").hidden = false;
  recolour();
  resize();
  if (seen.at) goTo(seen.at);
  else goTo([(view.box[0] + view.box[2]) / 2, (view.box[1] + view.box[3]) / 2, 1]);
  if (seen.find) await search();
  else drawPanel();
}

/** Show why there is no map. */
function blank(why) {
  find("atlas").hidden = true;
  fill(find("nothing"), why);
}

/** Show what to do if the map is empty. */
async function emptiness() {
  if (seen.project || seen.category) {
    return make("div", { class: "empty" },
      make("p", {}, "No memory on the map matches the filters."), button("Show all", all));
  }
  if (known) {
    return make("div", { class: "empty" }, make("p", { class: "lead" }, "The memories have no vectors yet"),
      make("p", {}, "The map needs vectors. Compute them while the service is stopped:"),
      make("code", {}, "cofio reembed --missing"));
  }
  return make("div", { class: "empty" }, make("p", { class: "lead" }, "No memories yet"),
    make("p", {}, "Memories appear here as points; similar ones lie close together."),
    make("p", { class: "dim" }, "On the command line: ",
      make("code", {}, 'cofio add "We deploy on Tuesdays, never on Fridays."')));
}

function all() {
  Object.assign(seen, { project: "", category: "", at: null });
  write(true);
  return load();
}

/** Announce the numbers. */
function describe() {
  const groups = dots.clusters.length;
  const count = dots.total > dots.count
    ? `the newest ${plainNumber(dots.count)} of ${many(dots.total)}` : many(dots.count);
  const rest = known > dots.total ? `; ${plainNumber(known - dots.total)} more have no vector yet` : "";
  const text = `${count}, ${counted(groups, "group")}${rest}`;
  fill(find("what"), dots.count ? `${text.charAt(0).toUpperCase()}${text.slice(1)}` : "");
  find("dots").setAttribute("aria-label", `Map of memories: ${text}`);
  find("dots").dataset.points = dots.count;
  fill(find("told"), text);
}

function veil(text) {
  const isLate = Boolean(dots); // there is something to see meanwhile
  fill(find("veil"), text);
  find("veil").hidden = !text;
  find("veil").classList.toggle("light", isLate);
  if (text && !dots) fill(find("what"), text);
}

// ── drawing ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Draw in the next frame, once for any number of requests. */
function redraw() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    if (dots?.count && canvas.words) draw();
  });
}

function draw() {
  const marked = [pointed, dots.place.get(seen.open) ?? -1].filter((place) => place >= 0 && dots.shown[place]);
  canvas.draw({ dots, view, of: colours.of, lit: found?.lit ?? null, chosen, marked, brush });
  find("dots").dataset.view = [view.x, view.y, view.scale, view.wide].join();
  placeTip();
  keepPlace();
}

function resize() {
  const { clientWidth, clientHeight } = find("stage");
  if (!clientWidth || !dots.count) return;
  canvas.resize(clientWidth, clientHeight);
  view.frame(clientWidth, clientHeight, dots.box());
  redraw();
}

/** Recompute the classes, and which of them are hidden. */
function recolour() {
  colours = coloured(dots, seen.way);
  const isHidden = colours.classes.map((each) => seen.hidden.has(each.key));
  for (const each of dots.clusters) each.shown = 0;
  for (let place = 0; place < dots.count; place++) {
    dots.shown[place] = dots.gone[place] || isHidden[colours.of[place]] ? 0 : 1;
    if (dots.shown[place] && dots.cluster[place] >= 0) dots.clusters[dots.cluster[place]].shown++;
  }
  canvas.paint(dots, colours);
  drawLegend(find("legend"), colours.classes, seen.hidden, hide);
  redraw();
}

// ── what narrows and colours it ────────────────────────────────────────────────────────────────────────────────────

function showTools() {
  drawTools(find("tools"), seen, projects, {
    search,
    colour: (way) => {
      Object.assign(seen, { way, hidden: new Set() });
      if (dots?.count) recolour();
      drawPanel();
      write();
    },
    narrow: (name, value) => {
      Object.assign(seen, { [name]: value, hidden: new Set(), open: 0, at: null });
      write(true);
      load();
    },
  });
}

function hide(keys) {
  seen.hidden = new Set(keys);
  recolour();
  if (chosen) choose(picked.places.filter((place) => dots.shown[place]), picked.title);
  else drawPanel();
  write();
  fill(find("told"), `${many(dots.those(() => true).length)} shown`);
}

// ── pointing ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the point at a canvas position; -1 if none. */
function placeAt(across, down) {
  const reach = Math.max(REACH, canvas.radius + 3) / view.scale;
  return dots.nearest(...view.spot(across, down), reach, view.wide);
}

function point(across, down) {
  if (!dots?.count) return;
  const before = pointed;
  pointed = placeAt(across, down);
  const isName = pointed < 0 && canvas.nameAt(across, down) >= 0;
  find("dots").classList.toggle("over", pointed >= 0 || isName);
  if (pointed === before) return;
  drawTip();
  redraw();
}

function leave() {
  if (pointed < 0) return;
  pointed = -1;
  drawTip();
  redraw();
}

/** Show the text of the point under the pointer. */
function drawTip() {
  const tip = find("tip");
  tip.hidden = pointed < 0;
  if (pointed < 0) return fill(tip);
  const project = dots.projects[dots.project[pointed]];
  const { hue } = colours.classes[colours.of[pointed]];
  fill(tip, make("p", { class: "says" }, said(dots.text[pointed])),
    make("p", { class: "dim" }, swatch(hue), dots.categories[dots.category[pointed]],
      project ? [" · ", said(projectName(project))] : null,
      " · ", make("time", { datetime: dots.created[pointed] }, WHEN.format(dots.at[pointed]))));
  placeTip();
}

function placeTip() {
  const tip = find("tip");
  if (tip.hidden || pointed < 0) return;
  const [across, down] = [view.across(dots.x[pointed]), view.down(dots.y[pointed])];
  const { offsetWidth: wide, offsetHeight: high } = tip;
  const left = Math.max(6, Math.min(view.width - wide - 6, across - wide / 2));
  const above = down - high - 14;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(above > 6 ? above : down + 14)}px)`;
}

/** Move the keyboard cursor from memory to memory. */
function walk(right, down) {
  if (!dots?.count) return;
  const next = pointed >= 0 ? dots.towards(pointed, right, down) : dots.nearest(view.x, view.y, Infinity);
  if (next < 0) return;
  pointed = next;
  view.reach(dots.x[next], dots.y[next]);
  drawTip();
  redraw();
  fill(find("told"), said(dots.text[next]), ` · ${WHEN.format(dots.at[next])}`);
}

function tap(across, down, isMore) {
  if (!dots?.count) return;
  const place = placeAt(across, down);
  const group = canvas.nameAt(across, down);
  if (place >= 0 && isMore) return choose([place], "", true);
  if (place >= 0) return open(place);
  if (group >= 0) return acts.group(group);
  if (seen.open) return shut();
}

// ── choosing ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Select these points, or add them. */
function choose(places, title = "", isMore = false) {
  const all = isMore ? [...new Set([...picked.places, ...places])] : places;
  picked = { title: isMore ? "" : title, places: all };
  chosen = all.length ? new Uint8Array(dots.count) : null;
  for (const place of all) chosen[place] = 1;
  if (seen.open) Object.assign(seen, { open: 0 });
  drawPanel();
  redraw();
  write();
  fill(find("told"), `${many(all.length)} chosen`);
}

/** Select these points and zoom to them. */
function visit(places, title) {
  choose(places, title);
  if (places.length) view.fit(roomy(dots.box(places)));
  find("panel-title").focus({ preventScroll: true });
}

/** Return a box of a minimum size, so that a single memory does not fill the view. */
function roomy([left, top, right, bottom]) {
  const more = (from, to) => Math.max(0, dots.side / 16 - (to - from)) / 2;
  const [wide, high] = [more(left, right), more(top, bottom)];
  return [left - wide, top - high, right + wide, bottom + high];
}

/** Close the open memory, else clear the selection or search. */
function letGo() {
  if (pointed >= 0) leave();
  if (seen.open) return shut();
  Object.assign(seen, { find: "" });
  [chosen, found, picked] = [null, null, { title: "", places: [] }];
  const field = find("tools").querySelector("[name=find]");
  if (field) field.value = "";
  write();
  drawPanel();
  redraw();
}

/** Pin or archive; archived points disappear, the others stay in place. */
async function bulk(action, places) {
  const drawn = dots;
  const ids = places.map((place) => drawn.id[place]);
  const done = await post("memories/bulk", { ids, action });
  let isDone = false;
  const turn = () => {
    isDone = !isDone;
    if (action === "archive") vanish(drawn, places, isDone);
    else if (seen.open) drawPanel();
  };
  turn();
  tell(`${DONE[action]}: ${many(ids.length)}.`, done.id ? undoing(done.id, { refresh: turn }) : null);
}

function vanish(drawn, places, isGone) {
  if (drawn !== dots) return; // the map was redrawn since
  for (const place of places) dots.gone[place] = isGone ? 1 : 0;
  known += isGone ? -places.length : places.length;
  recolour();
  describeLess();
  if (isGone) Object.assign(seen, { open: 0 });
  choose(isGone ? picked.places.filter((place) => !dots.gone[place]) : places, isGone ? picked.title : "");
  if (!find("panel").contains(document.activeElement)) find("panel-title").focus({ preventScroll: true });
}

function describeLess() {
  const gone = dots.gone.reduce((sum, each) => sum + each, 0);
  const before = [dots.count, dots.total];
  [dots.count, dots.total] = before.map((each) => each - gone);
  describe();
  [dots.count, dots.total] = before;
}

// ── the panel ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Redraw the panel; the focus stays on the same group or memory, if it still exists. */
function drawPanel() {
  if (!dots?.count) return;
  const panel = find("panel");
  const held = panel.contains(document.activeElement) ? document.activeElement.dataset : null;
  fillPanel();
  if (!held || panel.contains(document.activeElement)) return;
  const name = ["group", "id"].find((each) => held[each] !== undefined);
  const same = name && panel.querySelector(`[data-${name}="${held[name]}"]`);
  (same ?? find("panel-title")).focus({ preventScroll: true });
}

/** Return the open memory, else the selection, else the hits, else the groups. */
function fillPanel() {
  if (seen.open) return showMemory(seen.open, dots, colours, acts);
  const { places, title } = picked;
  if (chosen) return showChosen(title || `${many(places.length)} chosen`, places, dots, colours, acts);
  if (found) return showFound(answers(), found.places, dots, colours, acts);
  showGroups(dots, colours, acts);
}

function open(place, isFar = false) {
  if (seen.open === dots.id[place] && !isFar) return;
  seen.open = dots.id[place];
  pointed = place;
  if (isFar) view.reach(dots.x[place], dots.y[place]);
  write(true);
  drawPanel();
  redraw();
  if (isFar) find("panel-title").focus({ preventScroll: true });
}

function shut() {
  const id = seen.open;
  seen.open = 0;
  write(true);
  drawPanel();
  redraw();
  (find("panel").querySelector(`[data-id="${id}"]`) ?? find("panel-title")).focus({ preventScroll: true });
}

// ── searching ──────────────────────────────────────────────────────────────────────────────────────────────────────

async function search() {
  const mine = ++asking;
  write();
  if (!seen.find.trim()) {
    found = null;
    drawPanel();
    return redraw();
  }
  try {
    const query = { query: seen.find.trim(), k: ANSWERS, log: false };
    if (seen.project) query.project = seen.project === NONE ? "" : seen.project;
    if (seen.category) query.category = seen.category;
    const { results } = await post("search", query);
    if (mine === asking && dots) light(results.map((each) => each.id).filter((id) => dots.place.has(id)));
  } catch (error) {
    if (mine === asking) complain(error);
  }
}

function light(ids) {
  const places = ids.map((id) => dots.place.get(id));
  const lit = new Uint8Array(dots.count);
  for (const place of places) lit[place] = 1;
  found = { places, lit };
  [chosen, picked] = [null, { title: "", places: [] }];
  if (seen.open) seen.open = 0;
  drawPanel();
  redraw();
  fill(find("told"), answers());
  const unseen = places.filter((place) => !view.shows(dots.x[place], dots.y[place]));
  if (2 * unseen.length > places.length) view.fit(roomy(dots.box(places)));
}

function answers() {
  return found.places.length ? counted(found.places.length, "answer") : "Nothing on the map matches";
}

// ── what moves meanwhile ───────────────────────────────────────────────────────────────────────────────────────────

/** Announce new memories; the map stays unchanged until requested. */
async function look() {
  if (!dots) return;
  const drawn = dots;
  const told = await get(asked("memories"), { limit: LOOKED }).catch(() => null);
  if (drawn !== dots || !told) return;
  const { memories, total } = told;
  const fresh = memories.filter((each) => each.id > dots.newest).length;
  if (!fresh && total === known) return void fill(find("news"));
  const text = fresh ? `${fresh === LOOKED ? `${LOOKED} or more` : fresh} new` : "The memories have changed";
  const anew = doing(async () => {
    await load();
    find("dots").focus({ preventScroll: true });
  });
  fill(find("news"), text, " · ", button("Redraw", anew, "link"));
}
