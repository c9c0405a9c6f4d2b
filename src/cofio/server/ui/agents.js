/**
 * Agents page: active agents, API keys, the audit log, and how to connect an agent.
 *
 * The address holds the state: #/work, #/keys, #/log, #/log/3 for the entries of key 3, #/connect.
 */

import { get } from "./api.js";
import { ways } from "./connect.js";
import { auditLog } from "./audit-log.js";
import { checkList } from "./doctor.js";
import { formatCount, fill, find, make, menu, plainNumber, userText, time } from "./dom.js";
import { caller, enter, trouble } from "./app-shell.js";
import { keyList, making } from "./keys.js";

const PARTS = {
  work: { called: "At work", what: "Agents that store and recall memories, and clients with hooks." },
  keys: { called: "Keys", what: "API keys, their permissions and expiry." },
  log: { called: "Audit log", what: "Changes made with keys, and refused requests." },
  connect: { called: "Connect", what: "How to connect an agent." },
};
const DRAWN = { work, keys, log: auditLog, connect: async (part) => fill(part, ways(isOpen)) };

const view = { part: "work", rest: "" };
let isOpen = false; // whether the service requires no key
let latest = 0; // the last requested part

enter({ show, empty });

async function show() {
  isOpen = (await get("health")).auth === "open";
  window.onhashchange = draw;
  await draw();
}

function empty() {
  latest++;
  for (const name of ["acts", "door", "parts", "part", "what", "status"]) fill(find(name));
}

/** Return the parts that the caller may see. */
const offered = () => Object.keys(PARTS).filter((key) => caller.mayAll || key === "connect");

function read() {
  const [, part = "", rest = ""] = location.hash.split("/");
  const selectedPart = offered().includes(part) ? part : offered()[0];
  Object.assign(view, { part: selectedPart, rest });
}

async function draw() {
  const request = ++latest;
  read();
  drawParts();
  fill(find("what"), PARTS[view.part].what);
  fill(find("acts"), caller.mayAll ? making(isOpen, refresh) : null);
  fill(find("door"), caller.mayAll ? (isOpen ? opened() : null) : bounded());
  const part = make("div", { class: `part ${view.part}` });
  const notify = (text) => request === latest && fill(find("status"), text);
  try {
    await DRAWN[view.part](part, { rest: view.rest, isOpen, refresh, tell: notify });
  } catch (error) {
    fill(part, trouble(error));
  }
  if (request === latest) find("part").replaceChildren(part);
}

/** Redraw the current part; the focus stays. */
async function refresh() {
  const focused = document.activeElement?.closest("[data-id]")?.dataset.id;
  await draw();
  if (focused) find("part").querySelector(`[data-id="${focused}"] button`)?.focus();
}

function drawParts() {
  find("parts").hidden = offered().length < 2;
  menu(find("parts"), offered().map((name) => [`#/${name}`, name === view.part, PARTS[name].called]));
}

// ── the door ───────────────────────────────────────────────────────────────────────────────────────────────────────

function opened() {
  return make("section", { class: "box door", "aria-labelledby": "door-title" },
    make("h2", { id: "door-title" }, "This service is open"),
    make("p", {}, "It requires no key: every program that you run on this machine may read, change and delete ",
      "everything. Programs of other users are refused. Making the first key closes it: from then on it requires a ",
      "key from everyone. Your own commands and hooks send the key of their home by themselves. To make one here, ",
      "open this page with ", make("code", {}, "cofio ui agents"), "."));
}

function bounded() {
  return make("section", { class: "box door", "aria-labelledby": "door-title" },
    make("h2", { id: "door-title" }, "Keys and the rest are for admins"),
    make("p", {}, `Your key may ${caller.mayWrite ? "read and write" : "read"}. To see who is at work, to make and `,
      "revoke keys, and to read their log takes one with the role admin: ask whoever runs the service."));
}

// ── at work ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function work(part, { tell: notify }) {
  const [agents, clients] = await Promise.all([get("agents"), hooks()]);
  fill(part,
    make("section", { class: "block", "aria-labelledby": "work-title" },
      make("h2", { id: "work-title" }, "Using these memories"), atWork(agents.agents)),
    make("section", { class: "block", "aria-labelledby": "hooks-title" },
      make("h2", { id: "hooks-title" }, "On the service’s machine"), clients));
  notify(formatCount(agents.agents.length, "agent"));
}

/** Return the state of each client's hooks; hidden from callers elsewhere. */
async function hooks() {
  try {
    return checkList((await get("doctor", { about: "clients" })).checks);
  } catch (error) {
    if (error.status !== 403 && error.status !== 501) return trouble(error);
    return make("p", { class: "dim" }, `${error.message} ${error.hint.replaceAll("`", "")}`);
  }
}

function atWork(agents) {
  if (!agents.length) {
    return make("div", { class: "empty" },
      make("p", { class: "lead" }, "No agents yet"),
      make("p", {}, "Agents appear here once they store or recall a memory."),
      make("p", {}, make("a", { href: "#/connect" }, "Connect an agent")));
  }
  return make("ul", { class: "rows agents" }, ...agents.map(agentItem));
}

function agentItem({ name, memories, kept_at, recalls, recalled_at }) {
  return make("li", { class: "agent" },
    make("p", { class: "name" }, memories ? link(name) : userText(name)),
    figure(memories, "kept", "the last", kept_at), figure(recalls, "was given", "asked", recalled_at));
}

/** Its name, with the way to what it kept. */
const link = (name) => make("a", { href: `memories#/?source=${encodeURIComponent(name)}` }, userText(name));

function figure(count, word, last, at) {
  return make("p", { class: "figure" },
    make("span", {}, `${word} `, make("strong", {}, plainNumber(count))),
    make("span", { class: "dim" }, ...(at ? [`${last} `, time(at)] : ["never"])));
}

// ── keys ───────────────────────────────────────────────────────────────────────────────────────────────────────────

async function keys(part, at) {
  const known = (await get("keys")).keys;
  fill(part, keyList(known, at));
  at.tell(formatCount(known.length, "key"));
}
