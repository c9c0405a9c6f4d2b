/**
 * Settings page: each setting with its value and origin, and the doctor. Read-only.
 *
 * The address holds the state: #/settings, #/settings/port for an open setting, #/doctor.
 */

import { get } from "./api.js";
import { checkList } from "./doctor.js";
import { advice, copyable } from "./clipboard.js";
import {
  button,
  formatCount,
  fill,
  find,
  make,
  menu,
  newId,
  plainNumber,
  userText,
  debounce,
  definitionList,
} from "./dom.js";
import { caller, doing, enter, trouble } from "./app-shell.js";

const PARTS = {
  settings: { called: "Settings", what: "Configuration of the service, read when it starts." },
  doctor: { called: "Doctor", what: "Checks of the installation on the service’s machine." },
};
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const WANTS = { wrong: "to mend", warning: "to look at" };

const view = { part: "settings", name: "", text: "", group: "", onlySet: false };
let loaded = null; // settings as loaded
let examined = null; // last result of the doctor
let latest = 0; // the last requested part

enter({ show, empty });

async function show() {
  window.onhashchange = draw;
  await draw();
}

function empty() {
  latest++;
  loaded = examined = null;
  for (const name of ["acts", "parts", "part", "what", "status"]) fill(find(name));
}

function read() {
  const [, part = "", name = ""] = location.hash.split("/");
  Object.assign(view, { part: Object.hasOwn(PARTS, part) ? part : "settings", name });
}

async function draw() {
  const request = ++latest;
  read();
  fill(find("acts"));
  if (!caller.mayAll) return fill(find("part"), bounded());
  drawParts();
  fill(find("what"), PARTS[view.part].what);
  if (view.part === "doctor") return drawDoctor();
  try {
    const reply = await get("settings");
    if (request !== latest) return;
    loaded = reply;
    drawSettings();
  } catch (error) {
    if (request === latest) fill(find("part"), trouble(error));
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
  const again = debounce(() => drawGroups(groups), 80);
  fill(find("part"), notices(), changing(), narrowing(again), groups);
  drawGroups(groups);
  const target = view.name && document.getElementById(`setting-${view.name}`);
  if (!target) return;
  target.open = true;
  target.scrollIntoView({ block: "center" });
  target.querySelector("summary").focus({ preventScroll: true });
}

/** Return what prevents the next start, and what takes effect with it. */
function notices() {
  const waits = loaded.settings.filter((setting) => setting.waits);
  return [
    loaded.problem ? make("div", { class: "trouble" }, advice(loaded.problem)) : null,
    waits.length ? make("div", { class: "note" },
      make("p", {}, `${waits.length === 1 ? "1 setting was" : `${waits.length} settings were`} changed since the `,
        "service started, and waits for the next start: ",
        ...waits.flatMap((wait) => [make("code", {}, wait.name), " "])),
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
  const names = [...new Set(loaded.settings.map((setting) => setting.group))];
  const select = make("select", { id }, make("option", { value: "" }, "everything"),
    ...names.map((name) => make("option", { value: name }, name)));
  select.value = view.group;
  select.addEventListener("change", () => {
    view.group = select.value;
    again();
  });
  return make("div", { class: "field" }, make("label", { for: id }, "About"), select);
}

/** Return the matching settings. If they are the same as before, open and focused ones stay so. */
function drawGroups(groups) {
  const fitting = loaded.settings.filter(fits);
  fill(find("status"), formatCount(fitting.length, "setting"));
  const those = fitting.map(({ name }) => name).join(" ");
  if (groups.dataset.those === those) return;
  groups.dataset.those = those;
  const names = [...new Set(fitting.map((setting) => setting.group))];
  fill(groups, names.length
    ? names.map((group) => section(group, fitting.filter((setting) => setting.group === group)))
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
  const element = make("details", { class: "setting", id: `setting-${name}` },
    make("summary", {},
      make("span", { class: "whatfor" }, make("code", { class: "name" }, name), make("span", { class: "dim" }, says)),
      make("span", { class: "value" }, valued(setting)),
      make("span", { class: "origin" }, origin(setting), waits ? make("span", { class: "tag" }, "waits") : null)),
    inside);
  element.addEventListener("toggle", () => {
    if (element.open) fill(inside, ways(setting)); // created when opened, as there are many
    if (!element.open && view.name !== name) return;
    view.name = element.open ? name : "";
    history.replaceState(null, "", `#/settings${element.open ? `/${name}` : ""}`);
  });
  return element;
}

/** Return the value as shown; of a secret, whether it is set. */
function valued({ value, secret }) {
  if (secret || value === "") return make("span", { class: "dim" }, secret ? value : "empty");
  return make("code", {}, userText(typeof value === "number" ? plainNumber(value) : String(value)));
}

function origin({ origin: from }) {
  if (from === "default") return make("span", { class: "dim" }, "by default");
  if (from === "flag") return "given as a flag";
  return from === loaded.file ? "config.toml" : make("code", {}, from);
}

/** Return how to set it: the line of the file, the variables, and the default. */
function ways({ name, variables, line, secret, value, default: usual }) {
  const command = secret ? `cofio config set ${name}` : `cofio config set ${name} ${quoted(String(value))}`;
  return definitionList({
    "In config.toml": line ? copyable(line) : "Not there: the file is in this folder.",
    "Or by a command": line ? copyable(command) : null,
    [`Or by a variable${variables.length > 1 ? ", the first wins" : ""}`]: variables.map((variable) =>
      copyable(variable),
    ),
    "By default": secret || usual === "" ? null : make("code", {}, String(usual)),
  });
}

/** Quote a word for the shell. */
const quoted = (text) => (/^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function changing() {
  return make(
    "section",
    { class: "changing", "aria-label": "To change one" },
    make(
      "p",
      {},
      "Nothing is changed here. Open one for its line and its variable, put it into ",
      copyable(loaded.file),
      loaded.there ? "" : " (which is not there yet)",
      " and start the service again. Flags win over variables, ",
      "variables over the file, and that over the defaults.",
    ),
    loaded.settings.some((setting) => setting.waits) ? null : restart(),
  );
}

// ── the doctor ─────────────────────────────────────────────────────────────────────────────────────────────────────

function drawDoctor() {
  const checks = make("div", { class: "found-checks" });
  const run = doing(async () => {
    fill(find("status"), "Looking …");
    fill(checks, make("p", { class: "dim" }, "Looking …"));
    await examine(checks);
  });
  fill(find("acts"), button("Examine", run, "primary"));
  fill(find("part"), checks);
  if (examined) return drawChecks(checks);
  fill(checks, make("div", { class: "empty" },
    make("p", { class: "lead" }, "No checks yet"),
    make("p", {}, "The doctor looks at the home and its files, the service, the store, the embedder, the model, what ",
      "waits, and the hooks of every client here. It changes nothing, and runs no hook."),
    make("p", { class: "dim" }, "For a proof with the hooks themselves, on the command line: ",
      copyable("cofio doctor"))));
}

async function examine(container) {
  try {
    const { checks } = await get("doctor");
    if (!caller.mayAll) return; // the page was left
    examined = { checks, at: new Date() };
    if (container.isConnected) drawChecks(container);
  } catch (error) {
    if (!container.isConnected) return;
    fill(container, trouble(error));
    fill(find("status"), "That did not work.");
  }
}

function drawChecks(container) {
  const { checks, at } = examined;
  const all = verdict(checks);
  fill(find("status"), all);
  const urgent = ["wrong", "warning", "ok"].flatMap((state) => checks.filter((check) => check.state === state));
  fill(container,
    make("p", { class: "verdict" }, make("strong", {}, all), " ",
      make("span", { class: "dim" }, `Looked at ${CLOCK.format(at)}.`)),
    checkList(urgent));
}

function verdict(checks) {
  const counts = Object.entries(WANTS).map(([state, word]) => {
    const count = checks.filter((check) => check.state === state).length;
    return count ? `${formatCount(count, "thing")} ${word}` : "";
  }).filter(Boolean);
  return counts.length ? `${counts.join(", ")}.` : "All is well.";
}
