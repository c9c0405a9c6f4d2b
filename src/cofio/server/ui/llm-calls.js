/** Language model calls: numbers, sessions, and the texts sent. */

import { get, path } from "./api.js";
import { box, counted, fill, make, plainNumber, said, time } from "./dom.js";
import { trouble } from "./app-shell.js";

const FEW = 20; // calls listed
const PERIODS = { 1: "Today", 7: "In 7 days", 30: "In 30 days" };

/** Draw the view: today's budget, totals of three periods, and the newest calls. */
export function modelCalls() {
  const out = make("div", { class: "uses" }, make("p", { class: "calm" }, "Looking …"));
  const load = async () => {
    const usage = await get("llm/usage", { limit: FEW });
    const calls = usage.calls.map(call);
    fill(out,
      box("Budget", make("div", { class: "results" }, budget(usage))),
      ...usage.periods.map((period) => box(PERIODS[period.days], make("div", { class: "results" }, sums(period)))),
      box("Newest calls", make("div", { class: "results" },
        calls.length ? make("ol", { class: "found" }, ...calls) : make("p", { class: "calm" }, "No call was made yet."))));
  };
  load().catch((error) => fill(out, trouble(error)));
  return out;
}

function budget({ today, limits, spent, resets_at }) {
  const of = (limit) => (limit ? `of ${plainNumber(limit)}` : "without a limit");
  return make("p", { class: spent ? null : "calm" },
    `${counted(today.calls, "call")} ${of(limits.calls)}, ${counted(today.tokens, "token")} ${of(limits.tokens)}. `,
    ...(spent ? ["The daily limit is reached; captures wait until ", time(resets_at), "."] : []));
}

function sums({ models, sessions }) {
  if (!models.length) return make("p", { class: "calm" }, "No calls.");
  return make("ol", { class: "found" },
    ...models.map((each) => sum(`${each.provider}, ${each.model}`, each)),
    ...sessions.map((each) => sum([each.client, each.session, each.project].filter(Boolean).join(" · ") || "no session", each)));
}

function sum(name, { calls, failed, characters, input_tokens, output_tokens }) {
  const parts = [counted(calls, "call"), failed ? `${plainNumber(failed)} failed` : "",
    counted(characters, "character"), `${counted(input_tokens, "token")} in, ${plainNumber(output_tokens)} out`];
  return make("li", {}, said(name), make("p", { class: "dim" }, parts.filter(Boolean).join(", ")));
}

/** Return one call; its texts are loaded when it is opened. */
function call(each) {
  const texts = make("div", { class: "results" });
  const open = async (event) => {
    if (!event.target.open || texts.firstChild) return;
    try {
      const told = await get(path("llm", "usage", each.id));
      const parts = [told.request, told.reply].filter(Boolean).map((text) => make("pre", { class: "text" }, said(text)));
      fill(texts, parts.length ? parts : make("p", { class: "calm" }, "Its texts are not kept any more."));
    } catch (error) {
      fill(texts, trouble(error));
    }
  };
  const name = `${each.model}, ${each.purpose || "no purpose"}, ${each.outcome}`;
  return make("li", {}, make("details", { ontoggle: open },
    make("summary", {}, said(name), ` · ${counted(each.characters, "character")} · `, time(each.at)), texts));
}
