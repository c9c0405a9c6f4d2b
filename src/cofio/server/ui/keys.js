/** Keys: the list, creation with the secret shown once, and revocation. */

import { Refusal, key as own, path, post, remove } from "./api.js";
import { copyable, copying } from "./clipboard.js";
import { button, formatCount, fill, make, newId, userText, time, srOnly } from "./dom.js";
import { dialog, field } from "./forms.js";
import { doing, notify } from "./app-shell.js";

const ROLES = {
  read: "read only: search, recall, lists, history",
  write: "also adds and edits memories: for people and agents",
  admin: "everything, for all users: keys, upkeep, settings",
};
const DAY = 86_400_000; // milliseconds
const LASTS = [["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"],
  ["date", "on a date …"]];

// ── the list ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the valid keys, and below them the invalid ones. */
export function keyList(keys, at) {
  const standing = keys.filter(isInForce);
  const past = keys.filter((key) => !isInForce(key));
  return make("div", { class: "block" },
    standing.length ? rows(standing, keys, at) : nothing(at.isOpen),
    past.length ? make("details", { class: "past" },
      make("summary", {}, `${formatCount(past.length, "that opens", "that open")} nothing any more`),
      rows(past, keys, at)) : null);
}

const rows = (some, all, at) => make("ul", { class: "rows keys" }, ...some.map((key) => item(key, all, at)));

function nothing(isOpen) {
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "No key is in force"),
    make("p", {}, isOpen ? "The service is open to this machine." : "The service's own key (COFIO_API_KEY) opens it."));
}

const isInForce = (key) => !key.revoked_at && !(key.expires_at && new Date(key.expires_at) <= new Date());

/** Return whether this tab uses the key. */
const isOwn = (key) => own.get().startsWith(key.hint);

function item(key, all, at) {
  const revoke = () => revoking(key, all.filter(isInForce).length === 1, at);
  return make("li", { class: "key", "data-id": String(key.id) },
    make("div", { class: "whose" },
      make("p", { class: "name" }, userText(key.name), make("span", { class: `tag ${key.role}` }, key.role),
        isOwn(key) ? make("span", { class: "tag" }, "this tab’s") : null),
      make("p", { class: "dim" }, ...bounds(key))),
    make("p", { class: "state" }, ...state(key)),
    make("p", { class: "used dim" }, key.last_used_at ? ["used ", time(key.last_used_at)] : "never used"),
    make("div", { class: "actions" },
      make("a", { href: `#/log/${key.id}` }, "Log", srOnly(` of ${key.name}`)),
      key.revoked_at ? null : make("button", { type: "button", class: "danger", onclick: revoke },
        "Revoke", srOnly(` ${key.name}`))));
}

/** Return the owner, the reach, and the first characters of the key. */
function bounds(key) {
  const owners = ["user", "agent", "team"].filter((name) => key[name]);
  const ownerNodes = owners.flatMap((name) => [`${name} `, userText(key[name]), ", "]);
  const only = key.prefixes.flatMap((prefix) => [make("code", {}, prefix), " "]);
  const within = only.length ? ["only ", ...only, "· "] : [];
  return [...(ownerNodes.length ? ownerNodes.slice(0, -1) : ["sees everything"]), " · ", ...within,
    make("code", {}, `${key.hint}…`), ` · key ${key.id}, made `, time(key.created_at), " by ",
    userText(key.created_by || "nobody")];
}

function state(key) {
  if (key.revoked_at) return ["revoked ", time(key.revoked_at)];
  if (!isInForce(key)) return ["expired ", time(key.expires_at)];
  return key.expires_at ? ["ends ", time(key.expires_at)] : ["in force"];
}

// ── making one ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the button that creates a key; the first must be an admin key, as another role would lock this page. */
export function making(isOpen, refresh) {
  return button(isOpen ? "Make the first key" : "Make a key", () => asking(isOpen, refresh), "primary");
}

function asking(first, refresh) {
  let created = null;
  const called = "Holder or purpose: ada’s laptop, ci.";
  const name = field({ name: "name", label: "Name", needed: true, hint: called });
  const [roles, role] = choice(first ? "admin" : "write");
  const user = field({ name: "user", label: "User", hint: "Reads and writes this user’s own memories." });
  const agent = field({ name: "agent", label: "Agent", hint: "Without a user: this agent’s own memories." });
  const team = field({ name: "team", label: "Team", hint: "Also reads this team’s memories." });
  const such = "Such as ci/web, comma-separated. Empty: all.";
  const prefixes = field({ name: "prefixes", label: "Only these sources", hint: such });
  const bound = make("div", { class: "fields" }, user, agent, team, prefixes);
  const [expiry, expires] = ending();
  const warning = make("div", {});
  const hear = () => {
    bound.hidden = role() === "admin";
    fill(warning, first ? closing(role()) : null);
  };
  roles.addEventListener("change", hear);
  hear();
  const save = async () => {
    const bounds = { user: user.read(), agent: agent.read(), team: team.read(), prefixes: splitList(prefixes.read()) };
    created = await post("keys",
      { name: name.read(), role: role(), ...(role() === "admin" ? {} : bounds), expires_at: expires() });
    if (!element.open) showSecret(created, first, refresh); // cancelled, but created all the same
  };
  const element = dialog(first ? "Make the first key" : "Make a key", save, "Make the key",
    name, roles, bound, expiry, warning);
  element.addEventListener("close", () => created && showSecret(created, first, refresh));
}

const splitList = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

/** Return the roles to choose from, and a function that reads the choice. */
function choice(begin) {
  const group = newId("role");
  const inputs = Object.entries(ROLES).map(([name, text]) => {
    const input = make("input", { type: "radio", name: group, value: name, checked: name === begin });
    return [input, make("label", { class: "choice role" }, input,
      make("span", {}, make("strong", {}, name), make("small", { class: "hint" }, text)))];
  });
  const element = make("fieldset", {}, make("legend", {}, "What it may do"), ...inputs.map(([, label]) => label));
  return [element, () => inputs.find(([input]) => input.checked)[0].value];
}

/** Return the expiry fields: after a period, on a date, or never. */
function ending() {
  const id = newId("ends");
  const date = make("input", { type: "date", "aria-label": "The date on which it ends", hidden: true });
  const span = make("select", { id },
    ...LASTS.map(([value, text]) => make("option", { value }, text)));
  span.addEventListener("change", () => {
    date.hidden = span.value !== "date";
    if (!date.hidden) date.focus();
  });
  const read = () => {
    if (span.value === "date" && !date.value) {
      date.focus();
      throw new Refusal("“Ends” has no date.", "Choose a date or a period.");
    }
    if (span.value === "date") return new Date(`${date.value}T23:59:59`).toISOString(); // in the reader's time zone
    return span.value ? new Date(Date.now() + Number(span.value) * DAY).toISOString() : null;
  };
  const element = make("div", { class: "field" }, make("label", { for: id }, "Ends"),
    make("div", { class: "ending" }, span, date));
  return [element, read];
}

function closing(role) {
  const text = role === "admin"
    ? "Once it exists, the service requires a key from everyone. This page can use it."
    : "Once it exists, the service requires a key from everyone, and this one opens neither this page nor the making "
      + "of further keys. Make an admin’s first; else that is left to “cofio ui” and “cofio keys create” on this machine.";
  return make("p", { class: role === "admin" ? "note" : "note bad" }, text);
}

// ── its secret, this once ──────────────────────────────────────────────────────────────────────────────────────────

/**
 * Show the new key. It is not stored: it is gone when the dialog closes, unless this tab goes on with it. Until then
 * no request is sent, as the service may require the key already.
 */
function showSecret(created, first, refresh) {
  const title = newId("made");
  let isCopied = false;
  let warned = false;
  const secret = make("code", { class: "secret", tabindex: "0", "aria-label": "The key" }, created.secret);
  const wrong = make("div", { role: "alert" });
  const done = () => element.close();
  const goOn = () => {
    own.keep(created.secret);
    element.close();
  };
  const hold = (event) => { // a single Escape does not lose it
    if (isCopied || warned) return;
    event.preventDefault();
    warned = true;
    fill(wrong, make("p", { class: "note bad" }, "You have not copied it. Press Escape again to close anyway."));
  };
  const remove = async () => {
    element.remove();
    if (first || own.get() === created.secret) return location.reload();
    await refresh();
    notify(`Made: ${created.name}.`);
  };
  const mayGoOn = first && created.role === "admin";
  const element = make("dialog", { class: "made", "aria-labelledby": title, oncancel: hold, onclose: remove },
    make("div", { class: "sheet" },
      make("h2", { id: title }, "The key of ", userText(created.name)),
      make("p", { class: "note" }, "It is shown only once. Only its digest is stored: ",
        "it cannot be shown again."),
      make("div", { class: "copyable whole" }, secret,
        copying(created.secret, secret, "the key", () => (isCopied = true))),
      ...(first ? atOnce(mayGoOn) : use()), wrong,
      make("div", { class: "actions" },
        mayGoOn ? button("Use this key here", goOn, "primary") : null,
        button(mayGoOn ? "Close without using it" : "Done", done, mayGoOn ? null : "primary"))));
  document.body.append(element);
  element.showModal();
  element.querySelector(".copy").focus();
}

/** Tell what changes with the first key. */
function atOnce(mayGoOn) {
  return [
    make("p", {}, "The service is closed from now on. Your own commands and hooks on this machine go on as before: ",
      "they send the key of their home by themselves."),
    mayGoOn ? make("p", { class: "hint" }, "“Use this key here” stores it for this tab only.") : null,
  ];
}

function use() {
  return [
    make("p", {}, "Where it is to be used, this gives it to the commands and hooks of cofio. It asks for the key, and ",
      "shows nothing."),
    make("div", { class: "commands" }, copyable("cofio config set api_key")),
    make("p", { class: "hint" }, "Other clients send it as X-API-Key, or as Authorization: Bearer. It is not for ",
      "chats or tickets."),
  ];
}

// ── revoking one ───────────────────────────────────────────────────────────────────────────────────────────────────

function revoking(key, isLast, at) {
  const request = isOwn(key);
  const save = async () => {
    await remove(path("keys", String(key.id)));
    if (request) own.forget();
  };
  let isRevoked = false;
  const notes = [
    request ? "This tab uses the key: the page will ask for another." : "",
    isLast ? "No other is in force. A service that listens on this machine alone, and has no key of its own, is open "
      + "then." : "",
  ].filter(Boolean);
  const element = dialog(`Revoke “${key.name}”?`, async () => (await save(), isRevoked = true), "Revoke",
    make("p", {}, "Requests with it are refused from now on. This cannot be undone: make another instead. It ",
      "stays in the list and in the log."),
    ...notes.map((note) => make("p", { class: "note bad" }, note)));
  element.querySelector(".primary").className = "danger";
  element.addEventListener("close", doing(async () => {
    if (!isRevoked) return;
    if (request) return location.reload();
    await at.refresh();
    notify(`Revoked: ${key.name}.`);
  }));
}
