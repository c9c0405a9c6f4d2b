/**
 * Box to paste a conversation into: shows a preview first, and learns only on request.
 *
 * The preview shows what the gate decides per sentence, then the decision per fact, with the memory concerned.
 */

import { get, path, post, remove } from "./api.js";
import { DONE, summariseActions, memory, tabled } from "./captures.js";
import { difference } from "./diff.js";
import { button, fill, make, newId, userText } from "./dom.js";
import { field } from "./forms.js";
import { doing, notify, undoing } from "./app-shell.js";

const WAYS = { skip: "Passed over", pattern: "Kept", model: "In doubt" };
const EXAMPLE = "User: We switched from Prisma to Drizzle. Never deploy on a Friday.\nAssistant: Noted.";
const CONTEXTS = [
  ["stop", "The end of a turn, as hooks hand it over"],
  ["pre_compact", "Before a compaction: the model reads all of it"],
  ["analysis", "The report of an agent that watches something"],
];

/** Return the form with the preview below it. `refresh` is called after learning. */
export function trying(refresh) {
  const words = field({ name: "messages", label: "A conversation, or plain notes", kind: "area", needed: true });
  words.input.rows = 9;
  words.input.placeholder = EXAMPLE;
  const labels = [
    field({ name: "project", label: "Project", hint: "What is learned holds there; empty: everywhere." }),
    field({ name: "source", label: "Source", hint: "Where it was said: client/project." }, "page"),
  ];
  const context = choice("Handed over as", CONTEXTS);
  const about = { role: "region", "aria-live": "polite", "aria-label": "What would be learned" };
  const out = make("div", { class: "tried", ...about });
  const form = make("form", { class: "paste", novalidate: true }, words,
    make("div", { class: "fields" }, ...labels, context),
    make("div", { class: "actions" }, make("button", { class: "primary" }, "See what would be learned")),
    make("p", { class: "hint" }, "Nothing is stored by looking. Secrets are taken out before anything is read: "
      + "what you see below is what would be kept."), reader());
  form.addEventListener("submit", doing(async () => {
    const place = Object.fromEntries(labels.map((label) => [label.name, label.read()]));
    const body = { messages: words.read(), context: context.input.value, ...place };
    fill(out, make("p", { class: "calm" }, "Reading …"));
    fill(out, ...await renderResult(body, await post("capture", { ...body, dry_run: true }), refresh));
    form.oninput = () => outdated(out);
  }, out));
  return make("div", { class: "columns" }, form, out);
}

function choice(label, options) {
  const id = newId("choice");
  const input = make("select", { id }, ...options.map(([value, text]) => make("option", { value }, text)));
  const element = make("div", { class: "field" }, make("label", { for: id }, label), input);
  element.input = input;
  return element;
}

/** Return who reads: a language model, or the judgement model alone. */
function reader() {
  const line = make("p", { class: "hint" });
  const describeModel = ({ enabled, provider, model, status }) => {
    if (!enabled) return "No language model is set: the judgement model in the package reads it.";
    const silent = status === "unhealthy" ? ", which does not answer now" : "";
    return `What may be worth keeping is put to ${model} of ${provider}${silent}.`;
  };
  get("extract/status").then((reply) => fill(line, describeModel(reply)), () => {}); // only a hint
  return line;
}

/** Mark the preview as outdated after an edit. */
function outdated(out) {
  for (const element of out.querySelectorAll(".learn")) {
    fill(element, make("p", { class: "dim" }, "The text has changed since. Look again before all of it is learned."));
  }
}

// ── what would be learned ──────────────────────────────────────────────────────────────────────────────────────────

async function renderResult(body, learned, refresh) {
  const cards = await Promise.all(learned.actions.map((action) => fact(action, body, refresh)));
  const any = learned.actions.some((action) => action.action !== "rejected") || learned.knowledge.length > 0;
  return [
    make("h2", {}, summariseActions(learned, any)),
    learned.reason ? make("p", { class: "dim" }, userText(learned.reason)) : null,
    any ? make("div", { class: "actions learn" }, button("Learn all of it", learning(body, refresh), "primary")) : null,
    cards.length ? make("ul", { class: "cards" }, ...cards) : null,
    learned.knowledge.length
      ? make("ul", { class: "outcome" }, ...learned.knowledge.map((change) => tabled(change, true))) : null,
    make("h2", { class: "small" }, "What the gate thinks of each sentence"),
    learned.sentences.length ? sentences(learned.sentences) : make("p", { class: "calm" }, "The text is empty."),
  ];
}

function sentences(judged) {
  const counts = Object.entries(WAYS).map(([way, word]) => [
    judged.filter((sentence) => sentence.way === way).length,
    word,
  ]);
  const tally = counts.filter(([count]) => count).map(([count, word]) => `${count} ${word.toLowerCase()}`).join(", ");
  const line = ({ text, role, way, reason }) => make("li", { class: `sentence by-${way}` },
    make("p", {}, userText(text)),
    make("p", { class: "verdict" }, make("span", { class: `chip by-${way}` }, WAYS[way] ?? way),
      make("span", { class: "dim" }, `${role === "user" ? "User" : "Assistant"} · `, userText(reason))));
  return [make("p", { class: "dim" }, tally), make("ol", { class: "sentences" }, ...judged.map(line))];
}

/** Return a fact with its decision, the memory concerned, and the difference. */
async function fact(action, body, refresh) {
  const [, would] = DONE[action.action] ?? [action.action, action.action];
  const about = action.old_id ?? action.existing_id;
  const old = about ? await get(path("memory", String(about))).catch(() => null) : null;
  const sort = [...new Set([action.kind, action.category])].filter((label) => label !== "other").join(" · ");
  const why = action.action === "noop" ? "" : action.error ?? action.reason;
  const card = make("li", { class: "card" },
    make("div", { class: "card-head" },
      make("span", { class: `chip ${action.action}` }, would), make("span", { class: "dim" }, sort)),
    ...meant(action, old), why ? make("p", { class: "dim" }, userText(why)) : null);
  card.append(make("div", { class: "actions" }, ...choices(action, body, card, refresh)));
  return card;
}

function meant(action, old) {
  const text = make("p", { class: "text" }, userText(action.text));
  if (!old) return [text];
  if (action.action === "update") {
    return [make("p", { class: "text words" }, make("bdi", {}, ...difference(old.text, action.text))),
      make("p", { class: "dim" }, "in the place of ", memory(old.id))];
  }
  if (action.action === "delete") {
    return [text, make("p", { class: "text words" }, make("del", {}, userText(old.text))),
      make("p", { class: "dim" }, "archives ", memory(old.id))];
  }
  return [text, make("p", { class: "dim" }, memory(old.id), " says: ", userText(old.text))];
}

/** Return the actions for this fact alone. */
function choices(action, { source, project }, card, refresh) {
  const place = { ...(source ? { source } : {}), ...(project ? { project } : {}) };
  const { text, kind, category } = action;
  const ways = {
    add: ["Keep this one", () => post("memory/add", { text, kind, category, ...place, why: "kept by hand" })],
    update: ["Keep this one", () => post("memory/supersede",
      { old_id: action.old_id, new_text: text, kind, category, ...place, why: "kept by hand" })],
    delete: ["Archive that memory", () => remove(path("memory", String(action.old_id)), { why: "archived by hand" })],
  };
  const [word, act] = ways[action.action] ?? [];
  if (!act) return [];
  return [button(word, doing(async () => {
    const outcome = await act();
    settle(card, outcome, action, refresh);
    refresh();
  }))];
}

/** Return the card after its action, with an undo. */
function settle(card, outcome, action, refresh) {
  const id = outcome.new_id ?? outcome.id;
  const word = outcome.action === "noop" ? "Known already" : action.action === "delete" ? "Archived" : "Kept";
  const actions = card.querySelector(".actions");
  const taken = () => {
    card.classList.remove("done");
    line.replaceWith(actions);
    actions.querySelector("button").focus();
    return refresh();
  };
  const line = make("p", { class: "done-line" }, make("strong", {}, word), " · ", memory(id), " ",
    outcome.action === "noop" ? null : button("Undo", undoing(outcome.changeset, { refresh: taken }), "link"));
  card.classList.add("done");
  actions.replaceWith(line);
  (line.querySelector("button") ?? line.querySelector("a")).focus();
}

/** Hand it over for good: what was shown is what is sent. */
function learning(body, refresh) {
  return doing(async (event) => {
    const container = event.currentTarget.closest(".learn");
    const out = container.closest(".tried");
    const result = await post("capture", { ...body, wait: true });
    for (const element of out.querySelectorAll(".card .actions")) element.remove();
    const waits = result.state === "pending";
    const word = waits ? "Handed over: it is read in its turn." : `Learned: ${summariseActions(result).toLowerCase()}.`;
    fill(
      container,
      make("p", {}, make("strong", {}, word), " ", make("a", { href: `#/${result.id}` }, "See the capture")),
    );
    container.querySelector("a").focus();
    refresh();
    const back = result.changeset ? undoing(result.changeset, { refresh }) : null;
    notify(word, back);
  });
}
