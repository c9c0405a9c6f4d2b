/** Boxes beside the rows: evaluate a value, active seasons, preview of a sentence. */

import { get, post } from "./api.js";
import { box, button, fill, make, plainNumber, said, time } from "./dom.js";
import { caller, doing, trouble } from "./app-shell.js";
import { field } from "./forms.js";
import { belief } from "./rows.js";
import { TABLES, adds, measured, says } from "./knowledge-labels.js";

const results = () => make("div", { class: "results", role: "status" });

// ── does this fire? ────────────────────────────────────────────────────────────────────────────────────────────────

export function fires(acts) {
  const fields = [
    field({ name: "source", label: "Source", needed: true }),
    field({ name: "metric", label: "Metric", needed: true }),
    field({ name: "value", label: "Value", kind: "quantity", needed: true }),
  ];
  const out = results();
  const ask = doing(async () => {
    const [source, metric, number] = fields.map((each) => each.read());
    const { value, unit } = number || { value: null, unit: "" };
    const { firing } = await post("knowledge/evaluate", { source, metric, value, unit });
    fill(out, ...crossed(firing, `${source} ${metric} ${measured(value, unit)}`, acts));
  }, out);
  return box("Does this trigger?", make("form", { class: "ask", novalidate: true, onsubmit: ask },
    ...fields, make("button", { class: "primary" }, "Check")), out);
}

function crossed(firing, anomaly, acts) {
  if (!firing.length) return [make("p", { class: "calm" }, "No threshold triggers.")];
  const list = firing.map((each) => make("li", {},
    make("p", { class: "fired" }, said(says("thresholds", each.threshold))),
    make("p", { class: "dim" }, each.by === 0 ? "just reached" : `crossed by ${plainNumber(each.by)}`),
    belief(each.threshold.confidence)));
  const about = firing.map((each) => `thresholds/${each.threshold.id}`);
  const judge = button("Judge it", () => acts.judge({ anomaly, about }));
  return [make("ul", { class: "found" }, ...list), caller.mayWrite ? judge : null];
}

// ── what is on now ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the box, with `.draw(active)` for the loaded seasons. */
export function onNow() {
  const out = make("div", { class: "results" });
  const shown = box("On now", out);
  shown.draw = (active) => fill(out, active.length
    ? make("ul", { class: "found" }, ...active.map((each) => make("li", {},
      make("p", {}, said(each.seasonal.pattern)),
      make("p", { class: "dim" }, adds("seasonal", each.seasonal)),
      make("p", { class: "dim" }, "ends ", time(each.until)))))
    : make("p", { class: "calm" }, "No season is on."));
  shown.fail = (error) => fill(out, trouble(error));
  return shown;
}

export const seasonsOn = async () => (await get("knowledge/active")).active;

// ── what would be read ─────────────────────────────────────────────────────────────────────────────────────────────

export function reads(acts) {
  const words = field({ name: "text", label: "What an agent says", kind: "area", needed: true });
  words.input.placeholder = "Flag AAPL if volume exceeds 5M.";
  const out = results();
  const ask = doing(async () => {
    const { readings } = await post("knowledge/read", { text: words.read() });
    fill(out, readings.length ? make("ul", { class: "found" }, ...readings.map((each) => reading(each, acts)))
      : make("p", { class: "calm" }, "Nothing would be read from it."));
  }, out);
  return box("What would be read from this?", make("form", { class: "ask", novalidate: true, onsubmit: ask },
    words, make("button", { class: "primary" }, "Read")), out);
}

function reading(told, acts) {
  const where = TABLES[told.table].many.toLowerCase();
  const sure = told.confidence.toFixed(2);
  const what = told.denied ? `would be taken away from ${where}` : `would be kept in ${where}, at ${sure}`;
  const can = caller.mayWrite && !told.denied;
  return make("li", {},
    make("p", { class: told.denied ? "denied" : "" }, said(sentence(told))),
    make("p", { class: "dim" }, what),
    can ? button("Keep it", () => acts.keep(told.table, filled(told)), "link") : null);
}

/** Return what a reading says, if it is complete. */
function sentence({ table, fields, text }) {
  if (table === "thresholds" && fields.value === undefined) return text;
  return says(table, { unit: "", ...fields }) || text;
}

const filled = ({ fields, confidence }) => ({ ...fields, confidence });
