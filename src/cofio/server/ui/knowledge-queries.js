/** Boxes beside the rows: evaluate a value, active seasons, preview of a sentence. */

import { get, post } from "./api.js";
import { box, button, fill, make, plainNumber, userText, time } from "./dom.js";
import { caller, doing, trouble } from "./app-shell.js";
import { field } from "./forms.js";
import { belief } from "./rows.js";
import { TABLES, adds, measured, says } from "./knowledge-labels.js";

const results = () => make("div", { class: "results", role: "status" });

// ── does this fire? ────────────────────────────────────────────────────────────────────────────────────────────────

export function fires(callbacks) {
  const fields = [
    field({ name: "source", label: "Source", needed: true }),
    field({ name: "metric", label: "Metric", needed: true }),
    field({ name: "value", label: "Value", kind: "quantity", needed: true }),
  ];
  const out = results();
  const ask = doing(async () => {
    const [source, metric, number] = fields.map((field) => field.read());
    const { value, unit } = number || { value: null, unit: "" };
    const { firing } = await post("knowledge/evaluate", { source, metric, value, unit });
    fill(out, ...renderFiring(firing, `${source} ${metric} ${measured(value, unit)}`, callbacks));
  }, out);
  return box("Does this trigger?", make("form", { class: "ask", novalidate: true, onsubmit: ask },
    ...fields, make("button", { class: "primary" }, "Check")), out);
}

function renderFiring(firing, anomaly, callbacks) {
  if (!firing.length) return [make("p", { class: "calm" }, "No threshold triggers.")];
  const list = firing.map((hit) => make("li", {},
    make("p", { class: "fired" }, userText(says("thresholds", hit.threshold))),
    make("p", { class: "dim" }, hit.by === 0 ? "just reached" : `crossed by ${plainNumber(hit.by)}`),
    belief(hit.threshold.confidence)));
  const about = firing.map((hit) => `thresholds/${hit.threshold.id}`);
  const judge = button("Judge it", () => callbacks.judge({ anomaly, about }));
  return [make("ul", { class: "found" }, ...list), caller.mayWrite ? judge : null];
}

// ── what is on now ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the box, with `.draw(active)` for the loaded seasons. */
export function onNow() {
  const out = make("div", { class: "results" });
  const element = box("On now", out);
  element.draw = (active) => fill(out, active.length
    ? make("ul", { class: "found" }, ...active.map((season) => make("li", {},
      make("p", {}, userText(season.seasonal.pattern)),
      make("p", { class: "dim" }, adds("seasonal", season.seasonal)),
      make("p", { class: "dim" }, "ends ", time(season.until)))))
    : make("p", { class: "calm" }, "No season is on."));
  element.fail = (error) => fill(out, trouble(error));
  return element;
}

export const seasonsOn = async () => (await get("knowledge/active")).active;

// ── what would be read ─────────────────────────────────────────────────────────────────────────────────────────────

export function reads(callbacks) {
  const words = field({ name: "text", label: "What an agent says", kind: "area", needed: true });
  words.input.placeholder = "Flag AAPL if volume exceeds 5M.";
  const out = results();
  const ask = doing(async () => {
    const { readings } = await post("knowledge/read", { text: words.read() });
    fill(out, readings.length ? make("ul", { class: "found" }, ...readings.map((match) => reading(match, callbacks)))
      : make("p", { class: "calm" }, "Nothing would be read from it."));
  }, out);
  return box("What would be read from this?", make("form", { class: "ask", novalidate: true, onsubmit: ask },
    words, make("button", { class: "primary" }, "Read")), out);
}

function reading(row, callbacks) {
  const tableName = TABLES[row.table].many.toLowerCase();
  const sure = row.confidence.toFixed(2);
  const effect = row.denied ? `would be taken away from ${tableName}` : `would be kept in ${tableName}, at ${sure}`;
  const can = caller.mayWrite && !row.denied;
  return make("li", {},
    make("p", { class: row.denied ? "denied" : "" }, userText(sentence(row))),
    make("p", { class: "dim" }, effect),
    can ? button("Keep it", () => callbacks.keep(row.table, filled(row)), "link") : null);
}

/** Return what a reading says, if it is complete. */
function sentence({ table, fields, text }) {
  if (table === "thresholds" && fields.value === undefined) return text;
  return says(table, { unit: "", ...fields }) || text;
}

const filled = ({ fields, confidence }) => ({ ...fields, confidence });
