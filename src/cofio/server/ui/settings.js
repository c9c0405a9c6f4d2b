/**
 * Settings page: each setting with its value and origin, and the doctor. Read-only.
 *
 * The address holds the state: #/settings, #/settings/port for an open setting, #/doctor.
 */

import { get } from "./api.js";
import { checkList } from "./doctor.js";
import { advice, copyable } from "./clipboard.js";
import { button, counted, fill, find, make, menu, newId, plainNumber, said, settled, terms } from "./dom.js";
import { caller, doing, enter, trouble } from "./app-shell.js";

const PARTS = {
  settings: { called: "Settings", what: "Configuration of the service, read when it starts." },
  doctor: { called: "Doctor", what: "Checks of the installation on the service’s machine." },
};
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const WANTS = { wrong: "to mend", warning: "to look at" };

const view = { part: "settings", name: "", text: "", group: "", onlySet: false };
let known = null; // settings as loaded
let examined = null; // last result of the doctor
let latest = 0; // the last requested part

enter({ show, empty });

async function show() {
  window.onhashchange = draw;
  await draw();
}

function empty() {
  latest++;
  known = examined = null;
  for (const each of ["acts", "parts", "part", "what", "told"]) fill(find(each));
}

function read() {
  const [, part = "", name = ""] = location.hash.split("/");
  Object.assign(view, { part: Object.hasOwn(PARTS, part) ? part : "settings", name });
}

async function draw() {
  const mine = ++latest;
  read();
  fill(find("acts"));
  if (!caller.mayAll) return fill(find("part"), bounded());
  drawParts();
  fill(find("what"), PARTS[view.part].what);
  if (view.part === "doctor") return drawDoctor();
  try {
    const told = await get("settings");
    if (mine !== latest) return;
    known = told;
    drawSettings();
  } catch (error) {
    if (mine === latest) fill(find("part"), trouble(error));
  }
}

function drawParts() {
  menu(find("parts"), Object.entries(PARTS).map(([name, { called }]) => [`#/${name}`, name === view.part, called]));
}

function bounded() {
  return make("section", { class: "box", "aria-labelledby": "bounded" },
    make("h2", { id: "bounded" }, "Settings are for admins"),
    make("p", {}, `Your key may ${caller.mayWrite ? "read and write" : "read"}. What the service goes by, and what `,
      "the doctor finds, is told to a key with the role admin: ask whoever runs the service."));
}

// ── settings ───────────────────────────────────────────────────────────────────────────────────────────────────────

function drawSettings() {
  const groups = make("div", { class: "groups" });
  const again = settled(() => drawGroups(groups), 80);
  fill(find("part"), notices(), changing(), narrowing(again), groups);
  drawGroups(groups);
  const named = view.name && document.getElementById(`setting-${view.name}`);
  if (!named) return;
  named.open = true;
  named.scrollIntoView({ block: "center" });
  named.querySelector("summary").focus({ preventScroll: true });
}

/** Return what prevents the next start, and what takes effect with it. */
function notices() {
  const waits = known.settings.filter((each) => each.waits);
  return [
    known.problem ? make("div", { class: "trouble" }, advice(known.problem)) : null,
    waits.length ? make("div", { class: "note" },
      make("p", {}, `${waits.length === 1 ? "1 setting was" : `${waits.length} settings were`} changed since the `,
        "service started, and waits for the next start: ",
        ...waits.flatMap((each) => [make("code", {}, each.name), " "])),
      restart()) : null,
  ];
}

const restart = () => make("p", {}, copyable("cofio down && cofio up"));

function narrowing(again) {
  const id = newId("find");
  const placeholder = "A name, a variable, or any words";
  const text = make("input", { id, type: "search", autocomplete: "off", placeholder });
  text.value = view.text;
  text.addEventListener("input", () => {
    view.text = text.value;
    again();
  });
  const only = make("input", { type: "checkbox", checked: view.onlySet });
  only.addEventListener("change", () => {
    view.onlySet = only.checked;
    again();
  });
  return make("form", { class: "finding-settings", role: "search", onsubmit: (event) => event.preventDefault() },
    make("div", { class: "field" }, make("label", { for: id }, "Find"), text), about(again),
    make("label", { class: "choice" }, only, "Only changed settings"));
}

/** Return the topics of the shown settings. */
function about(again) {
  const id = newId("about");
  const names = [...new Set(known.settings.map((each) => each.group))];
  const chosen = make("select", { id }, make("option", { value: "" }, "everything"),
    ...names.map((each) => make("option", { value: each }, each)));
  chosen.value = view.group;
  chosen.addEventListener("change", () => {
    view.group = chosen.value;
    again();
  });
  return make("div", { class: "field" }, make("label", { for: id }, "About"), chosen);
}

/** Return the matching settings. If they are the same as before, open and focused ones stay so. */
function drawGroups(groups) {
  const fitting = known.settings.filter(fits);
  fill(find("told"), counted(fitting.length, "setting"));
  const those = fitting.map(({ name }) => name).join(" ");
  if (groups.dataset.those === those) return;
  groups.dataset.those = those;
  const names = [...new Set(fitting.map((each) => each.group))];
  fill(groups, names.length
    ? names.map((group) => section(group, fitting.filter((each) => each.group === group)))
    : make("div", { class: "empty" }, make("p", {}, "No setting matches.")));
}

function fits({ name, says, variables, group, origin }) {
  if (view.onlySet && origin === "default" || view.group && group !== view.group) return false;
  const text = [name, name.replaceAll("_", " "), says, group, ...variables].join(" ").toLowerCase();
  return view.text.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function section(group, settings) {
  const id = newId("group");
  return make("section", { class: "group", "aria-labelledby": id },
    make("h2", { id }, group), make("div", { class: "rows" }, ...settings.map(item)));
}

function item(setting) {
  const { name, says, waits } = setting;
  const inside = make("div", { class: "detail" });
  const shown = make("details", { class: "setting", id: `setting-${name}` },
    make("summary", {},
      make("span", { class: "whatfor" }, make("code", { class: "name" }, name), make("span", { class: "dim" }, says)),
      make("span", { class: "value" }, valued(setting)),
      make("span", { class: "origin" }, origin(setting), waits ? make("span", { class: "tag" }, "waits") : null)),
    inside);
  shown.addEventListener("toggle", () => {
    if (shown.open) fill(inside, ways(setting)); // created when opened, as there are many
    if (!shown.open && view.name !== name) return;
    view.name = shown.open ? name : "";
    history.replaceState(null, "", `#/settings${shown.open ? `/${name}` : ""}`);
  });
  return shown;
}

/** Return the value as shown; of a secret, whether it is set. */
function valued({ value, secret }) {
  if (secret || value === "") return make("span", { class: "dim" }, secret ? value : "empty");
  return make("code", {}, said(typeof value === "number" ? plainNumber(value) : String(value)));
}

function origin({ origin: from }) {
  if (from === "default") return make("span", { class: "dim" }, "by default");
  if (from === "flag") return "given as a flag";
  return from === known.file ? "config.toml" : make("code", {}, from);
}

/** Return how to set it: the line of the file, the variables, and the default. */
function ways({ name, variables, line, secret, value, default: usual }) {
  const command = secret ? `cofio config set ${name}` : `cofio config set ${name} ${quoted(String(value))}`;
  return terms({
    "In config.toml": line ? copyable(line) : "Not there: the file is in this folder.",
    "Or by a command": line ? copyable(command) : null,
    [`Or by a variable${variables.length > 1 ? ", the first wins" : ""}`]: variables.map((each) => copyable(each)),
    "By default": secret || usual === "" ? null : make("code", {}, String(usual)),
  });
}

/** Quote a word for the shell. */
const quoted = (text) => (/^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function changing() {
  return make("section", { class: "changing", "aria-label": "To change one" },
    make("p", {}, "Nothing is changed here. Open one for its line and its variable, put it into ", copyable(known.file),
      known.there ? "" : " (which is not there yet)", " and start the service again. Flags win over variables, ",
      "variables over the file, and that over the defaults."),
    known.settings.some((each) => each.waits) ? null : restart());
}

// ── the doctor ─────────────────────────────────────────────────────────────────────────────────────────────────────

function drawDoctor() {
  const found = make("div", { class: "found-checks" });
  const run = doing(async () => {
    fill(find("told"), "Looking …");
    fill(found, make("p", { class: "dim" }, "Looking …"));
    await examine(found);
  });
  fill(find("acts"), button("Examine", run, "primary"));
  fill(find("part"), found);
  if (examined) return drawChecks(found);
  fill(found, make("div", { class: "empty" },
    make("p", { class: "lead" }, "No checks yet"),
    make("p", {}, "The doctor looks at the home and its files, the service, the store, the embedder, the model, what ",
      "waits, and the hooks of every client here. It changes nothing, and runs no hook."),
    make("p", { class: "dim" }, "For a proof with the hooks themselves, on the command line: ",
      copyable("cofio doctor"))));
}

async function examine(found) {
  try {
    const { checks } = await get("doctor");
    if (!caller.mayAll) return; // the page was left
    examined = { checks, at: new Date() };
    if (found.isConnected) drawChecks(found);
  } catch (error) {
    if (!found.isConnected) return;
    fill(found, trouble(error));
    fill(find("told"), "That did not work.");
  }
}

function drawChecks(found) {
  const { checks, at } = examined;
  const all = verdict(checks);
  fill(find("told"), all);
  const urgent = ["wrong", "warning", "ok"].flatMap((state) => checks.filter((each) => each.state === state));
  fill(found,
    make("p", { class: "verdict" }, make("strong", {}, all), " ",
      make("span", { class: "dim" }, `Looked at ${CLOCK.format(at)}.`)),
    checkList(urgent));
}

function verdict(checks) {
  const told = Object.entries(WANTS).map(([state, what]) => {
    const count = checks.filter((each) => each.state === state).length;
    return count ? `${counted(count, "thing")} ${what}` : "";
  }).filter(Boolean);
  return told.length ? `${told.join(", ")}.` : "All is well.";
}
