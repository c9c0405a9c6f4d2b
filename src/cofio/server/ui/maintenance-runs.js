/** Usage of memories, chore runs, and the schedule. */

import { get, path } from "./api.js";
import { box, button, fill, make, plainNumber, said, terms, time, unseen } from "./dom.js";
import { trouble, undoing } from "./app-shell.js";

const BRIEF = 100; // in characters
const FEW = 8; // memories per view, and runs
const CHORES = { consolidate: "Merging duplicates", prune: "Archiving unused memories", backup: "Backup" };
const OUTCOMES = { running: "runs", done: "done", failed: "failed", died: "was cut off", began: "begins" };
const USES = {
  most: ["Recalled most", "Nothing was recalled yet."],
  never: ["Never recalled, the oldest first", "Everything was recalled at least once."],
  stale: ["Not recalled for 90 days", "Every recalled memory was used since then."],
};

// ── use ────────────────────────────────────────────────────────────────────────────────────────────────────────────

export function usage() {
  const lists = Object.entries(USES).map(([view, [title, none]]) => used(view, title, none));
  return make("div", { class: "uses" }, ...lists);
}

function used(view, title, none) {
  const out = make("div", { class: "results" }, make("p", { class: "calm" }, "Looking …"));
  let most = FEW;
  const load = async () => {
    const { memories } = await get("maintenance/usage", { view, limit: most + 1 });
    const more = () => {
      most += 5 * FEW;
      load().catch((error) => fill(out, trouble(error)));
    };
    fill(out,
      memories.length ? make("ol", { class: "found" }, ...memories.slice(0, most).map((each) => use(view, each)))
        : make("p", { class: "calm" }, none),
      memories.length > most && most < 1_000 - 5 * FEW ? button("Show more", more) : null);
  };
  load().catch((error) => fill(out, trouble(error)));
  return box(title, out);
}

function use(view, told) {
  const count = told.retrieval_count === 1 ? "once" : `${plainNumber(told.retrieval_count)} times`;
  const since = view === "never" ? ["kept ", time(told.created_at)]
    : [`recalled ${count}, last `, told.last_retrieved_at ? time(told.last_retrieved_at) : "unknown"];
  return make("li", {},
    make("a", { class: "used", href: `memories#/${told.id}` }, said(told.text)),
    make("p", { class: "dim" }, ...since));
}

// ── what ran ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the boxes about runs, with `.refresh()`. */
export function whatRan(acts) {
  const planned = make("div", { class: "results" });
  const ran = make("div", { class: "results" });
  let shown = FEW;
  let latest = 0; // the last request: replies for earlier ones are dropped
  const refresh = async () => {
    const mine = ++latest;
    try {
      const { runs, schedules } = await get("maintenance/runs", { limit: shown + 1 });
      const dones = await Promise.all(runs.slice(0, shown).map((each) => changeset(each)));
      if (mine !== latest) return;
      fill(planned, ...scheduled(schedules));
      const more = () => {
        shown += 5 * FEW;
        refresh();
      };
      const held = document.activeElement?.closest(".run")?.dataset.id;
      fill(ran, runs.length
        ? make("ol", { class: "found" }, ...runs.slice(0, shown).map((each, place) => run(each, dones[place], acts)))
        : make("p", { class: "calm" }, "Nothing ran yet. What you approve here is in the history of each memory."),
      runs.length > shown ? button("Show more", more) : null);
      if (held) ran.querySelector(`[data-id="${held}"] button`)?.focus();
    } catch (error) {
      if (mine === latest) fill(ran, trouble(error));
    }
  };
  return { boxes: [box("By itself", planned), box("What ran", ran)], refresh };
}

const changeset = async (run) => (run.changeset ? get(path("changes", String(run.changeset))).catch(() => null) : null);

function scheduled(schedules) {
  const known = Object.entries(schedules);
  if (!known.length) {
    return [make("p", { class: "calm" }, "Nothing is scheduled. "),
      make("p", { class: "dim" }, "To have the service do it: ", make("code", {}, "MAINTENANCE_ENABLED=true"))];
  }
  const when = Object.fromEntries(known.map(([chore, cron]) => [CHORES[chore] ?? chore, often(cron)]));
  return [terms(when, { class: "schedule" }), make("p", { class: "dim" }, "Times are UTC.")];
}

/** Return a simple schedule in words; others as cron expression. */
function often(cron) {
  const [minute, hour, day, month, weekday] = cron.trim().split(/\s+/);
  const plain = /^\d+$/.test(minute) && /^\d+$/.test(hour) && day === "*" && month === "*";
  const at = `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  const days = ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays"];
  if (plain && weekday === "*") return `every day at ${at}`;
  if (plain && /^[0-7]$/.test(weekday)) return `${days[Number(weekday)]} at ${at}`;
  return make("code", {}, cron);
}

function run(told, done, acts) {
  const { decisions, refused, note, error } = told.details;
  const counts = decisions === undefined ? [] : [`${plainNumber(decisions)} done`, `${plainNumber(refused)} left`];
  const back = done && !done.undone_by
    ? make("button", { type: "button", class: "link", onclick: undoing(told.changeset, { refresh: acts.changed }) },
      "Undo", unseen(` changeset ${told.changeset}`))
    : done ? make("span", { class: "tag" }, "undone") : null;
  const kind = { done: "stored", failed: "error", died: "error" }[told.outcome] ?? "";
  return make("li", { class: "run", "data-id": String(told.id) },
    make("p", {}, make("strong", {}, CHORES[told.chore] ?? told.chore)),
    make("p", { class: "dim" }, make("span", { class: `chip ${kind}` }, OUTCOMES[told.outcome] ?? told.outcome), " ",
      time(told.started_at), " by ", said(told.by), counts.length ? ` · ${counts.join(", ")}` : ""),
    ...remark(error ?? note ?? ""), back);
}

/** Return the details of a run, folded if long. */
function remark(text) {
  if (!text) return [];
  const shown = make("p", { class: "dim" }, said(text));
  return [text.length <= BRIEF ? shown : make("details", {}, make("summary", {}, "Why"), shown)];
}
