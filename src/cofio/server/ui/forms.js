/** Forms for rows and verdicts. Each is a modal dialog: the browser keeps the focus within it. */

import { Refusal, get, path, post } from "./api.js";
import { button, fill, make, newId, userText } from "./dom.js";
import { doing, regain, trouble } from "./app-shell.js";
import { CLAIMS, TABLES, VERDICTS, mentions, quantity, says } from "./knowledge-labels.js";

const OFFERED = 200; // claims of each table to select from

/** Show a dialog with a form. It closes when `save` succeeds, and shows the error otherwise. */
export function dialog(title, save, word, ...inside) {
  const name = newId("dialog");
  const wrong = make("div", { role: "alert" });
  const close = () => element.close();
  const submit = doing(async (event) => {
    fill(wrong);
    await save(event);
    element.close();
  }, wrong);
  const remove = () => {
    element.remove();
    regain();
  };
  const element = make("dialog", { "aria-labelledby": name, onclose: remove },
    make("form", { onsubmit: submit, novalidate: true },
      make("h2", { id: name }, title), ...inside, wrong,
      make("div", { class: "actions" },
        make("button", { class: "primary" }, word),
        button("Cancel", close))));
  document.body.append(element);
  element.showModal();
  return element;
}

// ── fields ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return a field with its label: `.name`, `.read()` for its value, `.hear(given)` on changes of other fields. */
export function field({ name, label, kind = "text", needed = false, hint = "", choices = null, begins = null }, value) {
  const id = newId(name);
  const below = hint ? newId("hint") : null;
  const first = value ?? (begins ? begins() : "");
  const common = { id, name, required: needed, "aria-describedby": below };
  const input = choices ? make("select", common, ...choices.map((choice) => make("option", { value: choice }, choice)))
    : kind === "area" ? make("textarea", { ...common, rows: 3 })
    : kind === "tick" ? make("input", { ...common, type: "checkbox" })
    : make("input", { ...common, type: "text", autocomplete: "off" });
  if (kind === "tick") input.checked = first === true;
  else if (!choices || first !== "") input.value = first;
  const help = make("small", { id: below, class: "hint" }, typeof hint === "string" ? hint : "");
  const star = needed ? make("span", { class: "needed", "aria-hidden": "true" }, " *") : null;
  const text = make("label", { for: id }, label, star);
  const inside = kind === "tick" ? [input, text] : [text, input];
  const element = make("div", { class: `field ${kind}` }, ...inside, below ? help : null);
  element.name = name;
  element.input = input;
  element.read = () => read(input, kind, needed && label);
  element.hear = (values) => typeof hint === "function" && fill(help, hint(values));
  return element;
}

/** Return the values as the service takes them; "" for an empty field. Raise for an empty required field. */
function read(input, kind, needed) {
  if (kind === "tick") return input.checked;
  const text = input.value.trim();
  if (text === "" && needed) {
    input.focus();
    throw new Refusal(`“${needed}” is empty.`, "Fill it in.");
  }
  if (text === "" || kind === "text" || kind === "area") return text;
  if (kind === "quantity") return quantity(text);
  const { value, unit } = quantity(text);
  const percent = unit === "%" && kind === "share";
  return percent ? value / 100 : value;
}

/** Connect fields that depend on each other. */
function together(fields) {
  const hear = () => {
    const values = Object.fromEntries(fields.map((field) => [field.name, field.input.value]));
    for (const field of fields) field.hear(values);
  };
  for (const field of fields) field.input.addEventListener("input", hear);
  hear();
  return fields;
}

// ── keeping ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the form of a row: new, prefilled, or editing an existing one. */
export function keep(table, row, done) {
  const { one, fields } = TABLES[table];
  const isEdit = Boolean(row?.id);
  const initial = { ...row, value: row?.value === undefined ? undefined : String(row.value) };
  const main = together(fields.filter((spec) => !spec.more).map((spec) => field(spec, initial[spec.name])));
  const more = [...fields.filter((field) => field.more), ...moreFields(isEdit, row)].map(
    (spec) => field(spec, spec.name === "confidence" && isEdit ? undefined : initial[spec.name]));
  const save = async () => {
    const body = sent([...main, ...more], isEdit ? row : null);
    await done(await post(path("knowledge", table), body));
  };
  const [title, word] = isEdit ? [`Change this ${one}`, "Change"] : [`Keep a ${one}`, "Keep"];
  dialog(title, save, word, make("div", { class: "fields" }, ...main),
    make("details", {}, make("summary", {}, "More"), make("div", { class: "fields" }, ...more)));
}

function moreFields(isEdit, row) {
  const sure = isEdit
    ? `Now ${row.confidence.toFixed(2)}. Given by hand, its count of verdicts starts anew.`
    : "0 to 1; left out, 0.5.";
  const id = { name: "id", label: "Id", hint: "Default: derived from the row." };
  return [
    { name: "confidence", label: "Confidence", kind: "share", hint: sure },
    ...(isEdit ? [] : [id]),
    { name: "why", label: "Why", hint: "Shown in the history." },
  ];
}

/** Return the fields as the service takes them. A cleared field of an existing row is cleared there. */
function sent(fields, row) {
  const values = Object.fromEntries(fields.map((field) => [field.name, field.read()]));
  const left = (name) => values[name] === "" && (!row || ["confidence", "why", "lasts", "value"].includes(name));
  const body = Object.fromEntries(Object.entries(values).filter(([name]) => !left(name)));
  if (body.value) Object.assign(body, { value: body.value.value, unit: body.unit || body.value.unit });
  return row ? { ...body, id: row.id } : body;
}

// ── judging ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the form of a verdict. `about` are claims selected from the start. */
export function judge({ anomaly = "", verdict = "confirmed", note = "", about = [] }, done) {
  const hint = "A name for it, such as AAPL 2026-02-20.";
  const anomalyField = field({ name: "anomaly", label: "What was judged", needed: true, hint }, anomaly);
  const words = field({ name: "note", label: "What was found out", kind: "area" }, note);
  const group = newId("verdict");
  const choices = Object.entries(VERDICTS).map(([name, text]) => make("label", { class: "choice" },
    make("input", { type: "radio", name: group, value: name, checked: name === verdict }), text));
  const ticked = claims(about);
  const save = async () => {
    const chosen = choices.map((radio) => radio.firstChild).find((radio) => radio.checked);
    await done(await post("knowledge/feedback",
      { anomaly: anomalyField.read(), verdict: chosen?.value ?? "", note: words.read(), about: ticked.read() }));
  };
  const question = make(
    "fieldset",
    {},
    make("legend", {}, "Was it one?"),
    make("div", { class: "choices" }, ...choices),
  );
  dialog("Judge an anomaly", save, "Judge", anomalyField, question, ticked, words);
}

/** Return a list of claims to select; selected ones stay in sight. */
function claims(about) {
  const selected = new Set(about);
  const claims = new Map(about.map((ref) => [ref, { table: ref.split("/")[0], row: null }]));
  const narrow = make("input", { type: "search", placeholder: "Narrow them", "aria-label": "Narrow the claims" });
  const list = make("ul", { class: "claims" });
  const fits = (ref, { table, row }) => {
    const text = narrow.value.trim();
    return selected.has(ref) || !text || (row && mentions(table, row, text));
  };
  const tick = (ref, { table, row }) => {
    const input = make("input", { type: "checkbox", value: ref, checked: selected.has(ref) });
    input.addEventListener("change", () => (input.checked ? selected.add(ref) : selected.delete(ref)));
    return make("li", {}, make("label", { class: "choice" }, input,
      make("span", {}, row ? userText(says(table, row)) : null, make("small", { class: "dim" }, ref))));
  };
  const draw = () => {
    const matches = [...claims].filter(([ref, row]) => fits(ref, row));
    const none = make("li", { class: "dim" }, claims.size ? "None of them." : "There are no claims yet.");
    fill(list, matches.length ? matches.map(([ref, row]) => tick(ref, row)) : none);
  };
  narrow.addEventListener("input", draw);
  draw();
  const load = async (table) => {
    const { rows } = await get(path("knowledge", table), { limit: OFFERED });
    for (const row of rows) claims.set(`${table}/${row.id}`, { table, row });
  };
  Promise.all(CLAIMS.map(load)).then(draw, (error) => list.before(trouble(error)));
  const element = make("fieldset", {}, make("legend", {}, "Which claims had raised it?"), narrow, list);
  element.read = () => [...selected];
  return element;
}
