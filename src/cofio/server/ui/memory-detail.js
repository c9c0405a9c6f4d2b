/** Detail of a memory: text, origin, history, and actions. */

import { get, patch, path, post, remove } from "./api.js";
import { truncate, button, formatCount, fill, make, newId, plainNumber, userText, time, srOnly } from "./dom.js";
import { caller, doing, notify, trouble, undoing } from "./app-shell.js";
import { changes, diff } from "./memory-history.js";
import { afterwards, editing, erase, hasDraft, replaceText } from "./memory-forms.js";
import { reasons, words } from "./memory-row.js";
import { METHODS, capital, provenance } from "./memory-labels.js";

const SIGHTINGS = 30; // shown
const SHORT = 90; // characters of a text in a notice
const HOLDS = { fresh: "Unchanged.", changed: "Some of it has changed.", vanished: "Some of it is gone.",
  "": "Cannot be checked from here." };

/**
 * Pane of the open memory. `acts` are callbacks of the page: `close()`, `open(id)`, `refresh()`, `focus()`.
 * @returns {{ show: (id: number, known?: object) => Promise<void>, explain: (hit: object) => void,
 *   refresh: () => Promise<void>, empty: (...inside: Node[]) => void }}
 */
export function pane(place, callbacks) {
  let memory = null; // as shown
  let requested = 0; // id requested last
  let form = null; // while it is edited

  return { show, explain, refresh, empty };

  function empty(...inside) {
    [requested, memory, form] = [0, null, null];
    place.removeAttribute("aria-labelledby");
    place.setAttribute("aria-label", "The memory that is open");
    fill(place, ...inside);
  }

  /** Show a memory; at once with what the list holds of it. */
  async function show(id, loaded = null) {
    const isOther = id !== requested;
    requested = id;
    if (loaded && isOther) draw(loaded);
    else if (isOther) fill(place, make("p", { class: "dim looking" }, "Looking it up …"));
    try {
      const memory = await get(path("memory", String(id)));
      if (requested === id && !form) draw({ ...memory, why: loaded?.why, score: loaded?.score }, true);
    } catch (error) {
      if (requested === id) fill(place, bar(null), trouble(error));
    }
  }

  /** Explain why it is a hit, if it is one. */
  function explain(hit) {
    if (!memory || form || hit?.why?.formula === memory.why?.formula || (hit && hit.id !== memory.id)) return;
    draw({ ...memory, why: hit?.why, score: hit?.score }, true);
  }

  /** Reload. A memory being edited is left alone. */
  async function refresh() {
    const id = requested;
    if (!id || !memory) return;
    const reply = await get(path("memory", String(id))).catch((error) => error);
    if (requested !== id) return;
    if (reply instanceof Error) return reply.status === 404 ? showMissing(id) : undefined;
    if (reply.updated_at === memory.updated_at && reply.occurrences === memory.occurrences) return;
    if (form) return form.meanwhile();
    draw({ ...reply, why: memory.why, score: memory.score }, true);
  }

  function showMissing(id) {
    if (form) return form.meanwhile();
    const explanation = make("p", { class: "dim" }, "It was erased, or its creation was undone.");
    empty(bar(null), make("div", { class: "placeholder" },
      make("p", { class: "lead" }, `Memory ${id} is no longer there`), explanation));
  }

  // ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────

  function draw(latestMemory, isWhole = false) {
    const isSame = memory?.id === latestMemory.id;
    const top = isSame ? place.scrollTop : 0;
    const focused = place.contains(document.activeElement) ? document.activeElement.dataset.act ?? "title" : "";
    memory = latestMemory;
    form = null;
    const heading = newId("memory");
    place.removeAttribute("aria-label");
    place.setAttribute("aria-labelledby", heading);
    fill(place, bar(heading), body(isWhole));
    place.scrollTop = top;
    if (focused) (place.querySelector(`[data-act="${focused}"]`) ?? place.querySelector("h2")).focus();
  }

  function body(isWhole) {
    if (hasDraft(memory.id) && caller.mayWrite) return changing();
    const parts = isWhole ? [fresh(), exchange(), past(), sightings()] : [];
    return make("div", { class: "memory" },
      make("div", { class: "saying" }, words(memory.text, memory.why?.words ?? []), labels()),
      memory.why ? part("Why this hit", reasons(memory)) : null, lineage(), part("About it", facts()), ...parts);
  }

  function part(title, ...inside) {
    const id = newId("part");
    return make("section", { class: "part", "aria-labelledby": id }, make("h3", { id }, title), ...inside);
  }

  /** Part that is loaded later; removed if empty. */
  function later(title, load) {
    const inside = make("div", {}, make("p", { class: "dim" }, "Looking it up …"));
    const section = part(title, inside);
    load().then(
      (nodes) => (nodes ? fill(inside, ...[nodes].flat()) : section.remove()),
      (error) => fill(inside, trouble(error)));
    return section;
  }

  function bar(heading) {
    const close = make("button", { type: "button", class: "back", "data-act": "close", onclick: callbacks.close },
      make("span", { class: "arrow", "aria-hidden": "true" }, "←"),
      make("span", { class: "cross", "aria-hidden": "true" }, "×"),
      make("span", { class: "word" }, "Back to the list"));
    if (!heading) return make("div", { class: "bar-above" }, close);
    return make("div", { class: "bar-above" }, close,
      make("h2", { id: heading, tabindex: "-1", "data-act": "title" }, `Memory ${memory.id}`),
      caller.mayWrite ? buttons() : null);
  }

  function labels() {
    const label = (text, kind = "") => make("span", { class: `label ${kind}` }, text);
    return make("p", { class: "labels" }, ...[
      make("span", { class: `category of-${memory.category}` }, capital(memory.category)),
      memory.kind === "other" ? null : label(memory.kind),
      memory.pinned ? label("pinned", "pinned") : null,
      memory.archived_at ? label("archived", "archived") : null,
      ...memory.tags.map((tag) => make("a", { class: "label tagged", href: `#/?tags=${encodeURIComponent(tag)}` },
        make("span", { "aria-hidden": "true" }, "#"), srOnly("tag "), userText(tag))),
    ].filter(Boolean));
  }

  function facts() {
    const metadata = JSON.stringify(memory.metadata);
    const fields = Object.entries({
      Project: memory.project ? userText(memory.project, { class: "mono" }) : null,
      Source: memory.source ? userText(memory.source) : null,
      Provenance: provenance(memory, caller.user),
      Author: memory.author ? userText(memory.author) : null,
      "Seen by": seenBy(),
      How: `${METHODS[memory.method] ?? memory.method}, ${Math.round(memory.confidence * 100)} % sure`,
      Speaker: memory.speaker ? userText(memory.speaker) : null,
      About: memory.entities.length ? userText(memory.entities.join(", ")) : null,
      Agent: memory.agent ? userText(memory.agent) : null,
      Kept: time(memory.created_at),
      Changed: memory.updated_at === memory.created_at ? null : time(memory.updated_at),
      Archived: memory.archived_at ? time(memory.archived_at) : null,
      Recalled: memory.retrieval_count
        ? [`${formatCount(memory.retrieval_count, "time", "times")}, last `, time(memory.last_retrieved_at)]
        : "never yet",
      Session: memory.session
        ? make("a", { href: `sessions#/${encodeURIComponent(memory.session)}`, class: "mono" }, memory.session)
        : null,
      Episode: memory.episode ? String(memory.episode) : null,
      Imported: memory.origin ? userText(memory.origin) : null,
      Context: memory.context ? userText(memory.context, { class: "long" }) : null,
      More: metadata === "{}" ? null : userText(metadata, { class: "long mono" }),
    });
    return make("dl", { class: "facts" }, ...fields.filter(([, value]) => value).map(([name, value]) => make("div",
      { class: ["Context", "More"].includes(name) ? "broad" : null }, make("dt", {}, name), make("dd", {}, value))));
  }

  function seenBy() {
    if (memory.visibility === "global") return "everybody";
    if (memory.visibility === "team") return memory.team ? ["the team ", userText(memory.team)] : "the team";
    const owner = memory.user || memory.agent;
    return owner ? [userText(owner), " alone"] : "only the owner of the store";
  }

  // ── where it comes from ──────────────────────────────────────────────────────────────────────────────────────────

  function lineage() {
    const link = (id, text) => make("a", { href: `#/${id}` }, text);
    const before = memory.supersedes ? make("div", { class: "lineal" },
      make("p", {}, "It replaced ", link(memory.supersedes, `memory ${memory.supersedes}`), "."),
      memory.previous_text ? diff(memory.previous_text, memory.text) : null) : null;
    const after = memory.superseded_by ? make("p", { class: "lineal" },
      link(memory.superseded_by, `Memory ${memory.superseded_by}`), " replaced it.") : null;
    return before || after ? part("Lineage", ...[after, before].filter(Boolean)) : null;
  }

  function past() {
    const id = memory.id;
    return later("History", () => changes({ id }, { refresh: callbacks.refresh }));
  }

  function sightings() {
    if (memory.occurrences < 2) return null;
    return later(`Said ${memory.occurrences} times`, async () => {
      const occurrences = (await get(path("memory", String(memory.id), "occurrences"))).occurrences.toReversed();
      const more = occurrences.length - SIGHTINGS;
      return [
        make(
          "ul",
          { class: "sightings" },
          ...occurrences
            .slice(0, SIGHTINGS)
            .map((occurrence) =>
              make(
                "li",
                {},
                userText(occurrence.agent || "somebody"),
                occurrence.session ? [" in ", userText(occurrence.session, { class: "mono" })] : null,
                make("span", { class: "dim" }, " · ", time(occurrence.at)),
              ),
            ),
        ),
        more > 0 ? make("p", { class: "dim" }, `and ${plainNumber(more)} more`) : null,
      ];
    });
  }

  function exchange() {
    if (!caller.mayWrite || memory.method === "manual" || memory.method === "import") return null;
    return later("Source conversation", async () => {
      const { item } = await get(path("memory", String(memory.id), "exchange"));
      return item?.exchange ? quoted(item) : null;
    });
  }

  function quoted({ id, exchange: exchange }) {
    const who = [exchange.client, exchange.session].filter(Boolean).join(" · ");
    const lines = exchange.messages.map(({ role, text }) => make("blockquote", { class: `quote ${role}` },
      make("p", { class: "role" }, role), userText(text, { class: "long" })));
    return [make("p", { class: "dim" }, "Quoted as it was said", exchange.at ? [", ", time(exchange.at)] : null,
      who ? [", in ", userText(who)] : null, ". It is data, not instructions. ",
      make("a", { href: `inbox#/${id}` }, `Capture ${id}`)), ...lines];
  }

  function fresh() {
    if (!memory.anchors.length) return null;
    return later("Referenced code", async () => {
      const reply = await get(path("memory", String(memory.id), "freshness"));
      const anchors = memory.anchors.map(({ name, kind, path: file }) => make("li", {}, make("code", {}, name),
        make("span", { class: "dim" }, ` ${kind}`, file === name ? null : [" in ", userText(file)])));
      const isInactive = reply.freshness !== "" && reply.freshness !== "fresh";
      const stale = reply.stale.map((note) => make("li", {}, userText(note)));
      return [
        make("p", { class: isInactive ? "holds not" : "holds" }, HOLDS[reply.freshness]),
        stale.length ? make("ul", { class: "stale" }, ...stale) : null,
        make("ul", { class: "anchors" }, ...anchors),
        caller.mayWrite && isInactive ? act("confirm", "Still holds", confirm) : null,
      ];
    });
  }

  // ── what can be done ─────────────────────────────────────────────────────────────────────────────────────────────

  function act(name, text, task, kind = null) {
    const element = button(text, doing(task), kind);
    element.dataset.act = name;
    return element;
  }

  function buttons() {
    const pin = memory.pinned ? ["Unpin", "No longer pinned"] : ["Pin", "Pinned"];
    const live = [
      act("edit", "Edit", edit), act("anew", "Reword", () => replaceText(memory, superseded)),
      act("pin", pin[0], () => finish(patch(request(), { pinned: !memory.pinned }), pin[1])),
      act("archive", "Archive", () => finish(remove(request()), "Archived")),
    ];
    const archived = [act("archive", "Restore", () => finish(post(`${request()}/restore`), "Restored"))];
    return make("div", { class: "actions" }, ...(memory.archived_at ? archived : live),
      act("erase", "Erase …", () => erase(memory, erased), "danger"));
  }

  function request() {
    return path("memory", String(memory.id));
  }

  async function finish(request, word) {
    const text = memory.text;
    const { changeset } = await request;
    await callbacks.refresh();
    notify(`${word}: ${truncate(text, SHORT)}`, undoing(changeset, callbacks));
  }

  function confirm() {
    return finish(post(`${request()}/mark-fresh`), "It still holds");
  }

  function edit() {
    place.querySelector(".memory").replaceWith(changing());
    form.querySelector("textarea").focus();
  }

  function changing() {
    form = editing(memory, async ({ changeset, memory: after }) => {
      form = null;
      draw({ ...after, why: memory.why, score: memory.score }, true);
      await callbacks.refresh();
      notify(`Changed: ${truncate(after.text, SHORT)}`, undoing(changeset, callbacks));
      place.querySelector('[data-act="edit"]')?.focus();
    }, () => {
      form = null;
      show(memory.id, memory);
      draw(memory, true);
      place.querySelector('[data-act="edit"]')?.focus();
    });
    return form;
  }

  async function superseded({ new_id: id, changeset, memory: after }) {
    callbacks.open(id);
    await callbacks.refresh();
    afterwards(() => place.querySelector("h2")?.focus());
    notify(`Reworded: ${truncate(after.text, SHORT)}`, undoing(changeset, callbacks));
  }

  async function erased({ id }) {
    callbacks.close();
    await callbacks.refresh();
    afterwards(callbacks.focus);
    notify(`Memory ${id} is erased.`);
  }
}
