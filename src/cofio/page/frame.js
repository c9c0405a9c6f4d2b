/** What stands around every page: the door, where the service wants a key, and the notices. */

import { Refusal, get, key, locked, path, post } from "./api.js";
import { button, fill, find, make } from "./dom.js";

const MAY_WRITE = ["write", "admin"];

/** What the caller may do here; filled by `enter`. */
export const caller = { mayWrite: false, mayAll: false };

/** Fill the page once the service lets us in, and empty it when it no longer does. A key is asked for if need be. */
export async function enter(page) {
  locked.addEventListener("locked", (event) => shut(page, event.detail));
  document.querySelector(".skip").addEventListener("click", skip);
  centre(document.querySelector(".top nav [aria-current]"));
  await knock(page);
}

/** Have this page's name in sight where the menu is wider than the window; scrollIntoView would have Tab begin there. */
function centre(link) {
  const menu = link?.parentElement;
  if (menu) menu.scrollLeft = link.offsetLeft - menu.offsetLeft - (menu.clientWidth - link.offsetWidth) / 2;
}

/** To the content, without a step in the address: that says where on the page one is. */
function skip(event) {
  event.preventDefault();
  (find("page").hidden ? find("gate").querySelector("input, button") : find("main"))?.focus();
}

async function knock(page) {
  let health;
  try {
    health = await get("health");
  } catch (error) {
    if (error.status !== 401) shut(page, error); // else the door is shut by now
    return;
  }
  if (health.auth === "missing") return shut(page, null);
  caller.mayWrite = health.role === undefined || MAY_WRITE.includes(health.role);
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
  return [role, button("Forget key", leave, "link"), about];
}

/** Ask for a key, and say why. */
function shut(page, refusal) {
  const wrong = refusal !== null && key.get() !== "";
  if (refusal?.status === 401) key.forget();
  Object.assign(caller, { mayWrite: false, mayAll: false });
  window.onhashchange = null;
  for (const each of document.querySelectorAll("dialog")) each.close();
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
      make("p", { class: "dim" }, "It is kept for this tab alone, and forgotten when you close it."));
  fill(find("gate"),
    make("h1", { id: "gate-title" }, unreachable ? "Not there" : "The service wants a key"),
    refusal && (wrong || unreachable) ? trouble(inHere(refusal)) : null, form);
  find("gate").hidden = false;
  find("gate").querySelector("input, button").focus();
}

/** A key that is not known, said to whoever typed it: the service's own hint is for commands and programs. */
function inHere(refusal) {
  if (refusal.status !== 401) return refusal;
  return new Refusal(refusal.message, "See that it is whole. An admin can make another: cofio keys create NAME.");
}

// ── notices ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Say what was done, until the next thing is; `undo` is what takes it back. */
export function tell(text, undo = null) {
  const back = undo && button("Undo", undo, "link");
  notice(make("p", {}, text), back);
}

/** Say what went wrong, and what to do. */
export const complain = (error) => notice(trouble(error));

function notice(...inside) {
  const gone = () => {
    fill(find("notices"));
    regain();
  };
  const close = make("button", { type: "button", class: "close", "aria-label": "Dismiss", onclick: gone }, "×");
  const held = find("notices").contains(document.activeElement);
  fill(find("notices"), make("div", { class: "notice" }, ...inside, close));
  if (held) find("notices").querySelector("button").focus();
}

/** Have the focus where the work goes on, when what had it is gone. */
export function regain() {
  if (document.activeElement && document.activeElement !== document.body) return;
  (document.querySelector('.head[aria-expanded="true"]') ?? find("main")).focus();
}

/** What went wrong, as every part of a page shows it. */
export function trouble(error) {
  const known = error instanceof Refusal;
  if (!known) console.error(error);
  const [message, hint] = known ? [error.message, error.hint] : ["The page stumbled.", "Load it again."];
  return make("div", { class: "trouble" }, make("p", {}, message), hint ? make("p", { class: "hint" }, hint) : null);
}

/** A listener that says what went wrong, and holds its button back meanwhile. */
export function doing(task, where = null) {
  return async (event) => {
    event.preventDefault();
    const button = event.submitter ?? event.currentTarget;
    if (button.ariaBusy === "true") return;
    button.ariaBusy = "true"; // a disabled one would lose the focus
    try {
      await task(event);
    } catch (error) {
      if (where) fill(where, trouble(error));
      else complain(error);
    } finally {
      button.ariaBusy = null;
      if (!button.isConnected) regain();
    }
  };
}

/** What takes a changeset back; that can be taken back in turn. */
export function undoing(changeset, acts) {
  return doing(async () => {
    const done = await post(path("changes", String(changeset), "undo"));
    await acts.refresh();
    tell("Taken back.", undoing(done.id, acts));
  });
}
