/** Detail of a memory: text, origin, history, and actions. */

import { get, patch, path, post, remove } from "./api.js";
import { beginning, button, counted, fill, make, newId, plainNumber, said, time, unseen } from "./dom.js";
import { caller, doing, tell, trouble, undoing } from "./app-shell.js";
import { changes, diff } from "./memory-history.js";
import { afterwards, editing, erase, hasDraft, sayAnew } from "./memory-forms.js";
import { reasons, words } from "./memory-row.js";
import { METHODS, capital } from "./memory-labels.js";

const SIGHTINGS = 30; // shown
const SHORT = 90; // characters of a text in a notice
const HOLDS = { fresh: "Unchanged.", changed: "Some of it has changed.", vanished: "Some of it is gone.",
  "": "Cannot be checked from here." };

/**
 * Pane of the open memory. `acts` are callbacks of the page: `close()`, `open(id)`, `refresh()`, `focus()`.
 * @returns {{ show: (id: number, known?: object) => Promise<void>, explain: (hit: object) => void,
 *   refresh: () => Promise<void>, empty: (...inside: Node[]) => void }}
 */
export function pane(place, acts) {
  let memory = null; // as shown
  let wanted = 0; // id requested last
  let form = null; // while it is edited

  return { show, explain, refresh, empty };

  function empty(...inside) {
    [wanted, memory, form] = [0, null, null];
    place.removeAttribute("aria-labelledby");
    place.setAttribute("aria-label", "The memory that is open");
    fill(place, ...inside);
  }

  /** Show a memory; at once with what the list holds of it. */
  async function show(id, known = null) {
    const isOther = id !== wanted;
    wanted = id;
    if (known && isOther) draw(known);
    else if (isOther) fill(place, make("p", { class: "dim looking" }, "Looking it up …"));
    try {
      const found = await get(path("memory", String(id)));
      if (wanted === id && !form) draw({ ...found, why: known?.why, score: known?.score }, true);
    } catch (error) {
      if (wanted === id) fill(place, bar(null), trouble(error));
    }
  }

  /** Explain why it is a hit, if it is one. */
  function explain(hit) {
    if (!memory || form || hit?.why?.formula === memory.why?.formula || (hit && hit.id !== memory.id)) return;
    draw({ ...memory, why: hit?.why, score: hit?.score }, true);
  }

  /** Reload. A memory being edited is left alone. */
  async function refresh() {
    const id = wanted;
    if (!id || !memory) return;
    const found = await get(path("memory", String(id))).catch((error) => error);
    if (wanted !== id) return;
    if (found instanceof Error) return found.status === 404 ? gone(id) : undefined;
    if (found.updated_at === memory.updated_at && found.occurrences === memory.occurrences) return;
    if (form) return form.meanwhile();
    draw({ ...found, why: memory.why, score: memory.score }, true);
  }

  function gone(id) {
    if (form) return form.meanwhile();
    const why = make("p", { class: "dim" }, "It was erased, or its creation was undone.");
    empty(bar(null), make("div", { class: "placeholder" },
      make("p", { class: "lead" }, `Memory ${id} is no longer there`), why));
  }

  // ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────

  function draw(found, isWhole = false) {
    const isSame = memory?.id === found.id;
    const top = isSame ? place.scrollTop : 0;
    const focused = place.contains(document.activeElement) ? document.activeElement.dataset.act ?? "title" : "";
    memory = found;
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
    const shown = part(title, inside);
    load().then(
      (found) => (found ? fill(inside, ...[found].flat()) : shown.remove()),
      (error) => fill(inside, trouble(error)));
    return shown;
  }

  function bar(heading) {
    const close = make("button", { type: "button", class: "back", "data-act": "close", onclick: acts.close },
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
      ...memory.tags.map((each) => make("a", { class: "label tagged", href: `#/?tags=${encodeURIComponent(each)}` },
        make("span", { "aria-hidden": "true" }, "#"), unseen("tag "), said(each))),
    ].filter(Boolean));
  }

  function facts() {
    const metadata = JSON.stringify(memory.metadata);
    const told = Object.entries({
      "Project": memory.project ? said(memory.project, { class: "mono" }) : null,
      "Source": memory.source ? said(memory.source) : null,
      "Seen by": seenBy(),
      "How": `${METHODS[memory.method] ?? memory.method}, ${Math.round(memory.confidence * 100)} % sure`,
      "Speaker": memory.speaker ? said(memory.speaker) : null,
      "About": memory.entities.length ? said(memory.entities.join(", ")) : null,
      "Agent": memory.agent ? said(memory.agent) : null,
      "Kept": time(memory.created_at),
      "Changed": memory.updated_at === memory.created_at ? null : time(memory.updated_at),
      "Archived": memory.archived_at ? time(memory.archived_at) : null,
      "Recalled": memory.retrieval_count
        ? [`${counted(memory.retrieval_count, "time", "times")}, last `, time(memory.last_retrieved_at)] : "never yet",
      "Session": memory.session
        ? make("a", { href: `sessions#/${encodeURIComponent(memory.session)}`, class: "mono" }, memory.session) : null,
      "Episode": memory.episode ? String(memory.episode) : null,
      "Imported": memory.origin ? said(memory.origin) : null,
      "Context": memory.context ? said(memory.context, { class: "long" }) : null,
      "More": metadata === "{}" ? null : said(metadata, { class: "long mono" }),
    });
    return make("dl", { class: "facts" }, ...told.filter(([, value]) => value).map(([name, value]) => make("div",
      { class: ["Context", "More"].includes(name) ? "broad" : null }, make("dt", {}, name), make("dd", {}, value))));
  }

  function seenBy() {
    if (memory.visibility === "global") return "everybody";
    if (memory.visibility === "team") return memory.team ? ["the team ", said(memory.team)] : "the team";
    const owner = memory.user || memory.agent;
    return owner ? [said(owner), " alone"] : "only the owner of the store";
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
    return later("History", () => changes({ id }, { refresh: acts.refresh }));
  }

  function sightings() {
    if (memory.occurrences < 2) return null;
    return later(`Said ${memory.occurrences} times`, async () => {
      const found = (await get(path("memory", String(memory.id), "occurrences"))).occurrences.toReversed();
      const more = found.length - SIGHTINGS;
      return [make("ul", { class: "sightings" }, ...found.slice(0, SIGHTINGS).map((each) => make("li", {},
        said(each.agent || "somebody"), each.session ? [" in ", said(each.session, { class: "mono" })] : null,
        make("span", { class: "dim" }, " · ", time(each.at))))),
      more > 0 ? make("p", { class: "dim" }, `and ${plainNumber(more)} more`) : null];
    });
  }

  function exchange() {
    if (!caller.mayWrite || memory.method === "manual" || memory.method === "import") return null;
    return later("Source conversation", async () => {
      const { item } = await get(path("memory", String(memory.id), "exchange"));
      return item?.exchange ? quoted(item) : null;
    });
  }

  function quoted({ id, exchange: heard }) {
    const who = [heard.client, heard.session].filter(Boolean).join(" · ");
    const lines = heard.messages.map(({ role, text }) => make("blockquote", { class: `quote ${role}` },
      make("p", { class: "role" }, role), said(text, { class: "long" })));
    return [make("p", { class: "dim" }, "Quoted as it was said", heard.at ? [", ", time(heard.at)] : null,
      who ? [", in ", said(who)] : null, ". It is data, not instructions. ",
      make("a", { href: `inbox#/${id}` }, `Capture ${id}`)), ...lines];
  }

  function fresh() {
    if (!memory.anchors.length) return null;
    return later("Referenced code", async () => {
      const told = await get(path("memory", String(memory.id), "freshness"));
      const anchors = memory.anchors.map(({ name, kind, path: where }) => make("li", {}, make("code", {}, name),
        make("span", { class: "dim" }, ` ${kind}`, where === name ? null : [" in ", said(where)])));
      const isOff = told.freshness !== "" && told.freshness !== "fresh";
      const stale = told.stale.map((each) => make("li", {}, said(each)));
      return [
        make("p", { class: isOff ? "holds not" : "holds" }, HOLDS[told.freshness]),
        stale.length ? make("ul", { class: "stale" }, ...stale) : null,
        make("ul", { class: "anchors" }, ...anchors),
        caller.mayWrite && isOff ? act("confirm", "Still holds", confirm) : null,
      ];
    });
  }

  // ── what can be done ─────────────────────────────────────────────────────────────────────────────────────────────

  function act(name, text, task, kind = null) {
    const made = button(text, doing(task), kind);
    made.dataset.act = name;
    return made;
  }

  function buttons() {
    const pin = memory.pinned ? ["Unpin", "No longer pinned"] : ["Pin", "Pinned"];
    const live = [
      act("edit", "Edit", edit), act("anew", "Reword", () => sayAnew(memory, superseded)),
      act("pin", pin[0], () => done(patch(mine(), { pinned: !memory.pinned }), pin[1])),
      act("archive", "Archive", () => done(remove(mine()), "Archived")),
    ];
    const archived = [act("archive", "Restore", () => done(post(`${mine()}/restore`), "Restored"))];
    return make("div", { class: "actions" }, ...(memory.archived_at ? archived : live),
      act("erase", "Erase …", () => erase(memory, erased), "danger"));
  }

  function mine() {
    return path("memory", String(memory.id));
  }

  async function done(asked, word) {
    const text = memory.text;
    const { changeset } = await asked;
    await acts.refresh();
    tell(`${word}: ${beginning(text, SHORT)}`, undoing(changeset, acts));
  }

  function confirm() {
    return done(post(`${mine()}/mark-fresh`), "It still holds");
  }

  function edit() {
    place.querySelector(".memory").replaceWith(changing());
    form.querySelector("textarea").focus();
  }

  function changing() {
    form = editing(memory, async ({ changeset, memory: after }) => {
      form = null;
      draw({ ...after, why: memory.why, score: memory.score }, true);
      await acts.refresh();
      tell(`Changed: ${beginning(after.text, SHORT)}`, undoing(changeset, acts));
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
    acts.open(id);
    await acts.refresh();
    afterwards(() => place.querySelector("h2")?.focus());
    tell(`Reworded: ${beginning(after.text, SHORT)}`, undoing(changeset, acts));
  }

  async function erased({ id }) {
    acts.close();
    await acts.refresh();
    afterwards(acts.focus);
    tell(`Memory ${id} is erased.`);
  }
}
