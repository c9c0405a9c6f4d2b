/** Language model calls: numbers, sessions, and the texts sent. */

import { get, path } from "./api.js";
import { box, formatCount, fill, make, plainNumber, userText, time } from "./dom.js";
import { trouble } from "./app-shell.js";

const FEW = 20; // calls listed
const PERIODS = { 1: "Today", 7: "In 7 days", 30: "In 30 days" };

/** Draw the view: today's budget, totals of three periods, and the newest calls. */
export function modelCalls() {
  const out = make("div", { class: "uses" }, make("p", { class: "calm" }, "Looking …"));
  const load = async () => {
    const usage = await get("llm/usage", { limit: FEW });
    const calls = usage.calls.map(call);
    fill(
      out,
      box("Budget", make("div", { class: "results" }, budget(usage))),
      ...usage.periods.map((period) => box(PERIODS[period.days], make("div", { class: "results" }, sums(period)))),
      box(
        "Newest calls",
        make(
          "div",
          { class: "results" },
          calls.length
            ? make("ol", { class: "found" }, ...calls)
            : make("p", { class: "calm" }, "No call was made yet."),
        ),
      ),
    );
  };
  load().catch((error) => fill(out, trouble(error)));
  return out;
}

function budget({ today, limits, spent, resets_at }) {
  const of = (limit) => (limit ? `of ${plainNumber(limit)}` : "without a limit");
  return make(
    "p",
    { class: spent ? null : "calm" },
    `${formatCount(today.calls, "call")} ${of(limits.calls)}, `,
    `${formatCount(today.tokens, "token")} ${of(limits.tokens)}. `,
    ...(spent ? ["The daily limit is reached; captures wait until ", time(resets_at), "."] : []),
  );
}

function sums({ models, sessions }) {
  if (!models.length) return make("p", { class: "calm" }, "No calls.");
  return make(
    "ol",
    { class: "found" },
    ...models.map((model) => sum(`${model.provider}, ${model.model}`, model)),
    ...sessions.map((session) =>
      sum([session.client, session.session, session.project].filter(Boolean).join(" · ") || "no session", session),
    ),
  );
}

function sum(name, { calls, failed, characters, input_tokens, output_tokens }) {
  const parts = [
    formatCount(calls, "call"),
    failed ? `${plainNumber(failed)} failed` : "",
    formatCount(characters, "character"),
    `${formatCount(input_tokens, "token")} in, ${plainNumber(output_tokens)} out`,
  ];
  return make("li", {}, userText(name), make("p", { class: "dim" }, parts.filter(Boolean).join(", ")));
}

/** Return one call; its texts are loaded when it is opened. */
function call(entry) {
  const texts = make("div", { class: "results" });
  const open = async (event) => {
    if (!event.target.open || texts.firstChild) return;
    try {
      const details = await get(path("llm", "usage", entry.id));
      const parts = [details.request, details.reply]
        .filter(Boolean)
        .map((text) => make("pre", { class: "text" }, userText(text)));
      fill(texts, parts.length ? parts : make("p", { class: "calm" }, "Its texts are not kept any more."));
    } catch (error) {
      fill(texts, trouble(error));
    }
  };
  const name = `${entry.model}, ${entry.purpose || "no purpose"}, ${entry.outcome}`;
  return make("li", {}, make("details", { ontoggle: open },
    make("summary", {}, userText(name), ` · ${formatCount(entry.characters, "character")} · `, time(entry.at)), texts));
}
