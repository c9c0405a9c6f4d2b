/** Frame of every page: the prompt for an API key, and notices. */

import { Refusal, get, key, locked, path, post } from "./api.js";
import { button, fill, find, make } from "./dom.js";

const MAY_WRITE = ["write", "admin"];

/** Permissions of the caller; filled by `enter`. */
export const caller = { user: "", mayWrite: false, mayAll: false };

/** Fill the page once the service admits the caller, and empty it when it no longer does. Asks for a key if needed. */
export async function enter(page) {
  locked.addEventListener("locked", (event) => shut(page, event.detail));
  document.querySelector(".skip").addEventListener("click", skip);
  centre(document.querySelector(".top nav [aria-current]"));
  await knock(page);
}

/** Scroll the menu to this page's name if needed; scrollIntoView would move the start of the Tab order. */
function centre(link) {
  const menu = link?.parentElement;
  if (menu) menu.scrollLeft = link.offsetLeft - menu.offsetLeft - (menu.clientWidth - link.offsetWidth) / 2;
}

/** Skip to the content without changing the address, which holds the page's state. */
function skip(event) {
  event.preventDefault();
  (find("page").hidden ? find("gate").querySelector("input, button") : find("main"))?.focus();
}

async function knock(page) {
  let health;
  try {
    health = await get("health");
  } catch (error) {
    if (error.status !== 401) shut(page, error); // otherwise the prompt is closed already
    return;
  }
  if (health.auth === "missing") return shut(page, null);
  caller.mayWrite = health.role === undefined || MAY_WRITE.includes(health.role);
  caller.user = health.user ?? "";
  caller.mayAll = health.role === undefined || health.role === "admin";
  fill(find("who"), ...known(health, page));
  find("gate").hidden = true;
  find("page").hidden = false;
  await page.show();
}

function known(health, page) {
  const about = make("a", { href: "../docs" }, "API");
  if (health.auth !== "ok") return [about];
  const leave = () => {
    key.forget();
    knock(page);
  };
  const role = make("span", { class: "dim" }, `key: ${health.role ?? "in use"}`);
  return [role, key.get() && button("Forget key", leave, "link"), about];
}

/** Ask for a key, with the reason. */
function shut(page, refusal) {
  const wrong = refusal !== null && key.get() !== "";
  if (refusal?.status === 401) key.forget();
  Object.assign(caller, { mayWrite: false, mayAll: false });
  window.onhashchange = null;
  for (const element of document.querySelectorAll("dialog")) element.close();
  page.empty();
  find("page").hidden = true;
  fill(find("notices"));
  fill(find("who"));
  const field = make("input", { id: "key", type: "password", autocomplete: "off", required: true });
  const open = (event) => {
    event.preventDefault();
    key.keep(field.value.trim());
    knock(page).then(regain);
  };
  const unreachable = refusal !== null && refusal.status !== 401 && refusal.status !== 429;
  const form = unreachable
    ? button("Try again", () => knock(page).then(regain), "primary")
    : make("form", { onsubmit: open },
      make("label", { for: "key" }, "API key"), field,
      make("button", { class: "primary" }, "Open"),
      make("p", { class: "dim" }, "It is stored for this tab only, until you close it. On the machine of the service, ",
        make("code", {}, "cofio ui"), " opens these pages without a key."));
  fill(find("gate"),
    make("h1", { id: "gate-title" }, unreachable ? "Not there" : "The service requires a key"),
    refusal && (wrong || unreachable) ? trouble(inHere(refusal)) : null, form);
  find("gate").hidden = false;
  find("gate").querySelector("input, button").focus();
}

/** Return an error for a wrong key typed here: the service's own hint is for commands and programs. */
function inHere(refusal) {
  if (refusal.status !== 401) return refusal;
  return new Refusal(refusal.message, "Check that it is complete. An admin can make another: cofio keys create NAME.");
}

// ── notices ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Show what was done, until the next notice; `undo` reverts it. */
export function notify(text, undo = null) {
  const back = undo && button("Undo", undo, "link");
  notice(make("p", {}, text), back);
}

/** Show an error with its hint. */
export const showError = (error) => notice(trouble(error));

function notice(...inside) {
  const dismiss = () => {
    fill(find("notices"));
    regain();
  };
  const close = make("button", { type: "button", class: "close", "aria-label": "Dismiss", onclick: dismiss }, "×");
  const focused = find("notices").contains(document.activeElement);
  fill(find("notices"), make("div", { class: "notice" }, ...inside, close));
  if (focused) find("notices").querySelector("button").focus();
}

/** Move the focus to where work continues, if its element is gone. */
export function regain() {
  if (document.activeElement && document.activeElement !== document.body) return;
  (document.querySelector('.head[aria-expanded="true"]') ?? find("main")).focus();
}

/** Return an error as every part of a page shows it. */
export function trouble(error) {
  const isExpected = error instanceof Refusal;
  if (!isExpected) console.error(error);
  const [message, hint] = isExpected ? [error.message, error.hint] : ["The page has an error.", "Reload it."];
  return make("div", { class: "trouble" }, make("p", {}, message), hint ? make("p", { class: "hint" }, hint) : null);
}

/** Return a listener that shows errors, and blocks its button while it runs. */
export function doing(task, target = null) {
  return async (event) => {
    event.preventDefault();
    const button = event.submitter ?? event.currentTarget;
    if (button.ariaBusy === "true") return;
    button.ariaBusy = "true"; // disabling the button would lose the focus
    try {
      await task(event);
    } catch (error) {
      if (target) fill(target, trouble(error));
      else showError(error);
    } finally {
      button.ariaBusy = null;
      if (!button.isConnected) regain();
    }
  };
}

/** Return a function that undoes a changeset; the undo can be undone in turn. */
export function undoing(changeset, callbacks) {
  return doing(async () => {
    const undone = await post(path("changes", String(changeset), "undo"));
    await callbacks.refresh();
    notify("Undone.", undoing(undone.id, callbacks));
  });
}
