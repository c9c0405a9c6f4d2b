/**
 * Map page: similar memories lie close together.
 *
 * The address holds the state: #/project?at=5000,4200,3.5&open=12 is coloured by project, centred there, zoomed in 3.5
 * times, with memory 12 open.
 */

import { get, post } from "./api.js";
import { button, formatCount, fill, find, make, plainNumber, userText, debounce } from "./dom.js";
import { showError, doing, enter, notify, trouble, undoing } from "./app-shell.js";
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
const state = { way: "category", project: "", category: "", find: "", hidden: new Set(), open: 0, at: null };

let dots = null; // the points; null until loaded
let colours = { of: new Uint8Array(), classes: [] };
let chosen = null; // 1 for each existing point; null if unused
let picked = { title: "", places: [] }; // selected points
let searchHits = null; // search hits: { places, lit }
let pointed = -1; // point under the pointer or the keyboard cursor
let brush = null; // outline being drawn
let isChoosing = false; // whether a drag selects
let stood = ""; // address last read or written
let memoryCount = 0; // number of memories, with and without vectors
let projects = new Map(); // every project with its display name
let latest = 0; // the last requested map: replies for earlier ones are dropped
let asking = 0; // the last search, likewise
let frame = 0;
let deafen = () => {};

const view = new View(redraw);
const canvas = new Canvas(find("dots"), find("glow"));
const keepPlace = debounce(() => write(), 250);

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
  const request = deafen;
  const reply = await get("projects", { limit: 1_000 }).catch(() => ({ projects: [] }));
  if (request !== deafen) return; // the page was left
  projects = new Map(reply.projects.filter(({ name }) => name).map(({ name }) => [name, projectName(name)]));
  showTools();
}

function empty() {
  latest++;
  asking++;
  deafen();
  deafen = () => {};
  [dots, chosen, searchHits, pointed, projects] = [null, null, null, -1, new Map()];
  picked = { title: "", places: [] };
  canvas.clear();
  for (const name of ["tools", "legend", "panel", "tip", "what", "news", "nothing", "status"]) fill(find(name));
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
const callbacks = {
  group: (number) => visit(dots.those((place) => dots.cluster[place] === number), dots.clusters[number].name),
  loose: (places) => choose(places, "In no group"),
  chooseAll: (places) => visit(places, ""),
  behind: () => (searchHits ? "Answers" : chosen ? "Chosen" : "Groups"),
  point: (place) => ((pointed = place), redraw()),
  leave, letGo, open, shut, bulk,
};

// ── where one is ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Apply the address; unknown parts are ignored. */
function read() {
  const ours = /^(?:#\/(\w*)\??(.*))?$/s.exec(location.hash);
  stood = location.hash;
  if (!ours) return false;
  const [, way = "", search = ""] = ours;
  const parameters = new URLSearchParams(search);
  const at = (parameters.get("at") ?? "").split(",").map(Number);
  Object.assign(state, {
    way: Object.hasOwn(WAYS, way) ? way : "category",
    project: parameters.get("project") ?? "",
    category: parameters.get("category") ?? "",
    find: parameters.get("find") ?? "",
    hidden: new Set(parameters.getAll("hide")),
    open: Number(parameters.get("open")) || 0,
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
  const parameters = new URLSearchParams();
  if (dots.count && !view.isWhole) {
    parameters.set("at", [Math.round(view.x), Math.round(view.y), Number(view.zoom.toPrecision(4))].join());
  }
  for (const name of ["project", "category", "find", "open"]) if (state[name]) parameters.set(name, state[name]);
  for (const key of state.hidden) parameters.append("hide", key);
  const suffix = String(parameters) ? `?${String(parameters).replaceAll("%2C", ",")}` : "";
  history[isStep ? "pushState" : "replaceState"](null, "", `#/${state.way}${suffix}`);
  stood = location.hash;
}

async function arrive() {
  const { project, category, find: before } = state;
  if (!read()) return;
  showTools();
  if (!dots?.count || state.project !== project || state.category !== category) return load();
  recolour();
  if (state.at) goTo(state.at);
  else view.fit();
  if (state.find !== before) return search();
  drawPanel();
}

function goTo([x, y, zoom]) {
  view.set({ x, y, scale: view.whole * zoom });
}

// ── the points ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Load the map and draw it. */
async function load() {
  const request = ++latest;
  veil("Drawing the map …");
  try {
    const [points, listing] = await Promise.all([get(address("map")), get(address("memories"), { limit: 1 })]);
    if (request !== latest) return;
    memoryCount = listing.total;
    dots = new Dots(points);
    fill(find("news"));
    veil("");
    await arranged();
  } catch (error) {
    if (request === latest) blank(trouble(error));
  } finally {
    if (request === latest) veil("");
  }
}

/** Return a path with the map's filters. Memories without a project are requested by an empty one. */
function address(where) {
  const query = new URLSearchParams();
  if (state.project) query.set("project", state.project === NONE ? "" : state.project);
  if (state.category) query.set("category", state.category);
  return `${where}?${query}`;
}

async function arranged() {
  Object.assign(picked, { title: "", places: [] });
  [chosen, searchHits, pointed] = [null, null, -1];
  showTools();
  describe();
  if (!dots.count) return blank(await emptyState());
  fill(find("nothing"));
  find("atlas").hidden = false;
  recolour();
  resize();
  if (state.at) goTo(state.at);
  else goTo([(view.box[0] + view.box[2]) / 2, (view.box[1] + view.box[3]) / 2, 1]);
  if (state.find) await search();
  else drawPanel();
}

/** Show why there is no map. */
function blank(why) {
  find("atlas").hidden = true;
  fill(find("nothing"), why);
}

/** Show what to do if the map is empty. */
async function emptyState() {
  if (state.project || state.category) {
    return make("div", { class: "empty" },
      make("p", {}, "No memory on the map matches the filters."), button("Show all", all));
  }
  if (memoryCount) {
    return make("div", { class: "empty" }, make("p", { class: "lead" }, "The memories have no vectors yet"),
      make("p", {}, "The map needs vectors. The service computes them in the background; this says why if it cannot:"),
      make("code", {}, "cofio doctor"));
  }
  return make("div", { class: "empty" }, make("p", { class: "lead" }, "No memories yet"),
    make("p", {}, "Memories appear here as points; similar ones lie close together."),
    make("p", { class: "dim" }, "On the command line: ",
      make("code", {}, 'cofio add "We deploy on Tuesdays, never on Fridays."')));
}

function all() {
  Object.assign(state, { project: "", category: "", at: null });
  write(true);
  return load();
}

/** Announce the numbers. */
function describe() {
  const groups = dots.clusters.length;
  const count = dots.total > dots.count
    ? `the newest ${plainNumber(dots.count)} of ${many(dots.total)}` : many(dots.count);
  const missing = memoryCount > dots.total ? `; ${plainNumber(memoryCount - dots.total)} more have no vector yet` : "";
  const text = `${count}, ${formatCount(groups, "group")}${missing}`;
  fill(find("what"), dots.count ? `${text.charAt(0).toUpperCase()}${text.slice(1)}` : "");
  find("dots").setAttribute("aria-label", `Map of memories: ${text}`);
  find("dots").dataset.points = dots.count;
  fill(find("status"), text);
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
  const marked = [pointed, dots.place.get(state.open) ?? -1].filter((place) => place >= 0 && dots.shown[place]);
  canvas.draw({ dots, view, of: colours.of, lit: searchHits?.lit ?? null, chosen, marked, brush });
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
  colours = coloured(dots, state.way);
  const isHidden = colours.classes.map((colour) => state.hidden.has(colour.key));
  for (const cluster of dots.clusters) cluster.shown = 0;
  for (let place = 0; place < dots.count; place++) {
    dots.shown[place] = dots.gone[place] || isHidden[colours.of[place]] ? 0 : 1;
    if (dots.shown[place] && dots.cluster[place] >= 0) dots.clusters[dots.cluster[place]].shown++;
  }
  canvas.paint(dots, colours);
  drawLegend(find("legend"), colours.classes, state.hidden, hide);
  redraw();
}

// ── what narrows and colours it ────────────────────────────────────────────────────────────────────────────────────

function showTools() {
  drawTools(find("tools"), state, projects, {
    search,
    colour: (way) => {
      Object.assign(state, { way, hidden: new Set() });
      if (dots?.count) recolour();
      drawPanel();
      write();
    },
    narrow: (name, value) => {
      Object.assign(state, { [name]: value, hidden: new Set(), open: 0, at: null });
      write(true);
      load();
    },
  });
}

function hide(keys) {
  state.hidden = new Set(keys);
  recolour();
  if (chosen) choose(picked.places.filter((place) => dots.shown[place]), picked.title);
  else drawPanel();
  write();
  fill(find("status"), `${many(dots.those(() => true).length)} shown`);
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
  fill(tip, make("p", { class: "says" }, userText(dots.text[pointed])),
    make("p", { class: "dim" }, swatch(hue), dots.categories[dots.category[pointed]],
      project ? [" · ", userText(projectName(project))] : null,
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
  fill(find("status"), userText(dots.text[next]), ` · ${WHEN.format(dots.at[next])}`);
}

function tap(across, down, isMore) {
  if (!dots?.count) return;
  const place = placeAt(across, down);
  const group = canvas.nameAt(across, down);
  if (place >= 0 && isMore) return choose([place], "", true);
  if (place >= 0) return open(place);
  if (group >= 0) return callbacks.group(group);
  if (state.open) return shut();
}

// ── choosing ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Select these points, or add them. */
function choose(places, title = "", isMore = false) {
  const all = isMore ? [...new Set([...picked.places, ...places])] : places;
  picked = { title: isMore ? "" : title, places: all };
  chosen = all.length ? new Uint8Array(dots.count) : null;
  for (const place of all) chosen[place] = 1;
  if (state.open) Object.assign(state, { open: 0 });
  drawPanel();
  redraw();
  write();
  fill(find("status"), `${many(all.length)} chosen`);
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
  if (state.open) return shut();
  Object.assign(state, { find: "" });
  [chosen, searchHits, picked] = [null, null, { title: "", places: [] }];
  const field = find("tools").querySelector("[name=find]");
  if (field) field.value = "";
  write();
  drawPanel();
  redraw();
}

/** Pin or archive; archived points disappear, the others stay in place. */
async function bulk(action, places) {
  const current = dots;
  const ids = places.map((place) => current.id[place]);
  const done = await post("memories/bulk", { ids, action });
  let isDone = false;
  const turn = () => {
    isDone = !isDone;
    if (action === "archive") vanish(current, places, isDone);
    else if (state.open) drawPanel();
  };
  turn();
  notify(`${DONE[action]}: ${many(ids.length)}.`, done.id ? undoing(done.id, { refresh: turn }) : null);
}

function vanish(current, places, isGone) {
  if (current !== dots) return; // the map was redrawn since
  for (const place of places) dots.gone[place] = isGone ? 1 : 0;
  memoryCount += isGone ? -places.length : places.length;
  recolour();
  describeLess();
  if (isGone) Object.assign(state, { open: 0 });
  choose(isGone ? picked.places.filter((place) => !dots.gone[place]) : places, isGone ? picked.title : "");
  if (!find("panel").contains(document.activeElement)) find("panel-title").focus({ preventScroll: true });
}

function describeLess() {
  const goneCount = dots.gone.reduce((sum, count) => sum + count, 0);
  const before = [dots.count, dots.total];
  [dots.count, dots.total] = before.map((count) => count - goneCount);
  describe();
  [dots.count, dots.total] = before;
}

// ── the panel ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Redraw the panel; the focus stays on the same group or memory, if it still exists. */
function drawPanel() {
  if (!dots?.count) return;
  const panel = find("panel");
  const focused = panel.contains(document.activeElement) ? document.activeElement.dataset : null;
  fillPanel();
  if (!focused || panel.contains(document.activeElement)) return;
  const name = ["group", "id"].find((name) => focused[name] !== undefined);
  const same = name && panel.querySelector(`[data-${name}="${focused[name]}"]`);
  (same ?? find("panel-title")).focus({ preventScroll: true });
}

/** Return the open memory, else the selection, else the hits, else the groups. */
function fillPanel() {
  if (state.open) return showMemory(state.open, dots, colours, callbacks);
  const { places, title } = picked;
  if (chosen) return showChosen(title || `${many(places.length)} chosen`, places, dots, colours, callbacks);
  if (searchHits) return showFound(answers(), searchHits.places, dots, colours, callbacks);
  showGroups(dots, colours, callbacks);
}

function open(place, isFar = false) {
  if (state.open === dots.id[place] && !isFar) return;
  state.open = dots.id[place];
  pointed = place;
  if (isFar) view.reach(dots.x[place], dots.y[place]);
  write(true);
  drawPanel();
  redraw();
  if (isFar) find("panel-title").focus({ preventScroll: true });
}

function shut() {
  const id = state.open;
  state.open = 0;
  write(true);
  drawPanel();
  redraw();
  (find("panel").querySelector(`[data-id="${id}"]`) ?? find("panel-title")).focus({ preventScroll: true });
}

// ── searching ──────────────────────────────────────────────────────────────────────────────────────────────────────

async function search() {
  const request = ++asking;
  write();
  if (!state.find.trim()) {
    searchHits = null;
    drawPanel();
    return redraw();
  }
  try {
    const query = { query: state.find.trim(), k: ANSWERS, log: false };
    if (state.project) query.project = state.project === NONE ? "" : state.project;
    if (state.category) query.category = state.category;
    const { results } = await post("search", query);
    if (request === asking && dots) light(results.map((result) => result.id).filter((id) => dots.place.has(id)));
  } catch (error) {
    if (request === asking) showError(error);
  }
}

function light(ids) {
  const places = ids.map((id) => dots.place.get(id));
  const lit = new Uint8Array(dots.count);
  for (const place of places) lit[place] = 1;
  searchHits = { places, lit };
  [chosen, picked] = [null, { title: "", places: [] }];
  if (state.open) state.open = 0;
  drawPanel();
  redraw();
  fill(find("status"), answers());
  const outsideView = places.filter((place) => !view.shows(dots.x[place], dots.y[place]));
  if (2 * outsideView.length > places.length) view.fit(roomy(dots.box(places)));
}

function answers() {
  return searchHits.places.length ? formatCount(searchHits.places.length, "answer") : "Nothing on the map matches";
}

// ── what moves meanwhile ───────────────────────────────────────────────────────────────────────────────────────────

/** Announce new memories; the map stays unchanged until requested. */
async function look() {
  if (!dots) return;
  const current = dots;
  const reply = await get(address("memories"), { limit: LOOKED }).catch(() => null);
  if (current !== dots || !reply) return;
  const { memories, total } = reply;
  const fresh = memories.filter((memory) => memory.id > dots.newest).length;
  if (!fresh && total === memoryCount) return void fill(find("news"));
  const text = fresh ? `${fresh === LOOKED ? `${LOOKED} or more` : fresh} new` : "The memories have changed";
  const redrawMap = doing(async () => {
    await load();
    find("dots").focus({ preventScroll: true });
  });
  fill(find("news"), text, " · ", button("Redraw", redrawMap, "link"));
}
