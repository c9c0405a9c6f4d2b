/** Audit log: newest first, by page; optionally of one key, named in the address. */

import { get } from "./api.js";
import { button, formatCount, fill, make, newId, userText, time } from "./dom.js";
import { doing } from "./app-shell.js";

const PAGE = 50;

/** Fill the part with the log. `rest` is the id of a key; "" for all. */
export async function auditLog(part, { rest, tell: notify }) {
  const about = /^\d{1,18}$/.test(rest) ? rest : "";
  const list = make("ol", { class: "rows deeds" });
  const foot = make("div", { class: "foot" });
  let count = 0;
  const load = async (after) => {
    const page = await get("keys/log", { key: about, limit: PAGE, after });
    list.append(...page.entries.map(line));
    count += page.entries.length;
    fill(foot, page.next ? button("Show more", doing(() => load(page.next)), "further") : null);
    notify(`${formatCount(count, "line")}${page.next ? ", and more" : ""}`);
  };
  const { keys } = await get("keys");
  await load();
  fill(part, narrowing(keys, about), count ? list : nothing(about), foot);
}

function narrowing(keys, about) {
  const id = newId("about");
  const all = [make("option", { value: "" }, "any key, or none"),
    ...keys.map((key) => make("option", { value: String(key.id) }, `${key.name} (key ${key.id})`))];
  const select = make("select", { id }, ...all);
  select.value = about;
  select.addEventListener("change", () => (location.hash = select.value ? `#/log/${select.value}` : "#/log"));
  return make("div", { class: "field narrowing" }, make("label", { for: id }, "Done with"), select);
}

function nothing(about) {
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "Nothing yet"),
    make("p", {}, about ? "Nothing was changed with this key, and nothing was refused."
      : "It has a line for every key made or revoked, for what is changed with a key, and for what is refused. On an "
        + "open service callers cannot be identified, and nothing is logged."));
}

function line({ at, act, outcome, key, name, what, address }) {
  const who = [name ? userText(name) : null, key ? ` (key ${key})` : null].filter(Boolean);
  return make("li", { class: "deed" },
    make("p", { class: "when" }, time(at)),
    make("div", { class: "act" },
      make("p", {}, make("code", {}, act),
        outcome === "refused" ? make("span", { class: "tag refused" }, "refused") : null),
      what ? make("p", { class: "dim" }, userText(what)) : null),
    make("p", { class: "by" }, ...(who.length ? who : ["unknown"])),
    make("p", { class: "from dim" }, address || "on this machine"));
}
