/** Usage of memories, chore runs, and the schedule. */

import { get, path } from "./api.js";
import { box, button, fill, make, plainNumber, userText, definitionList, time, srOnly } from "./dom.js";
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
      memories.length ? make("ol", { class: "found" }, ...memories.slice(0, most).map((memory) => use(view, memory)))
        : make("p", { class: "calm" }, none),
      memories.length > most && most < 1_000 - 5 * FEW ? button("Show more", more) : null);
  };
  load().catch((error) => fill(out, trouble(error)));
  return box(title, out);
}

function use(view, memory) {
  const count = memory.retrieval_count === 1 ? "once" : `${plainNumber(memory.retrieval_count)} times`;
  const since = view === "never" ? ["kept ", time(memory.created_at)]
    : [`recalled ${count}, last `, memory.last_retrieved_at ? time(memory.last_retrieved_at) : "unknown"];
  return make("li", {},
    make("a", { class: "used", href: `memories#/${memory.id}` }, userText(memory.text)),
    make("p", { class: "dim" }, ...since));
}

// ── what ran ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the boxes about runs, with `.refresh()`. */
export function runHistory(callbacks) {
  const planned = make("div", { class: "results" });
  const ran = make("div", { class: "results" });
  let limit = FEW;
  let latest = 0; // the last request: replies for earlier ones are dropped
  const refresh = async () => {
    const request = ++latest;
    try {
      const { runs, schedules } = await get("maintenance/runs", { limit: limit + 1 });
      const dones = await Promise.all(runs.slice(0, limit).map((run) => changeset(run)));
      if (request !== latest) return;
      fill(planned, ...scheduled(schedules));
      const more = () => {
        limit += 5 * FEW;
        refresh();
      };
      const focused = document.activeElement?.closest(".run")?.dataset.id;
      fill(
        ran,
        runs.length
          ? make(
              "ol",
              { class: "found" },
              ...runs.slice(0, limit).map((entry, place) => run(entry, dones[place], callbacks)),
            )
          : make("p", { class: "calm" }, "Nothing ran yet. What you approve here is in the history of each memory."),
        runs.length > limit ? button("Show more", more) : null,
      );
      if (focused) ran.querySelector(`[data-id="${focused}"] button`)?.focus();
    } catch (error) {
      if (request === latest) fill(ran, trouble(error));
    }
  };
  return { boxes: [box("By itself", planned), box("What ran", ran)], refresh };
}

const changeset = async (run) => (run.changeset ? get(path("changes", String(run.changeset))).catch(() => null) : null);

function scheduled(schedules) {
  const chores = Object.entries(schedules);
  if (!chores.length) {
    return [make("p", { class: "calm" }, "Nothing is scheduled. "),
      make("p", { class: "dim" }, "To have the service do it: ", make("code", {}, "MAINTENANCE_ENABLED=true"))];
  }
  const when = Object.fromEntries(chores.map(([chore, cron]) => [CHORES[chore] ?? chore, often(cron)]));
  return [definitionList(when, { class: "schedule" }), make("p", { class: "dim" }, "Times are UTC.")];
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

function run(entry, done, callbacks) {
  const { decisions, refused, note, error } = entry.details;
  const counts = decisions === undefined ? [] : [`${plainNumber(decisions)} done`, `${plainNumber(refused)} left`];
  const back =
    done && !done.undone_by
      ? make(
          "button",
          { type: "button", class: "link", onclick: undoing(entry.changeset, { refresh: callbacks.changed }) },
          "Undo",
          srOnly(` changeset ${entry.changeset}`),
        )
      : done
        ? make("span", { class: "tag" }, "undone")
        : null;
  const kind = { done: "stored", failed: "error", died: "error" }[entry.outcome] ?? "";
  return make("li", { class: "run", "data-id": String(entry.id) },
    make("p", {}, make("strong", {}, CHORES[entry.chore] ?? entry.chore)),
    make("p", { class: "dim" }, make("span", { class: `chip ${kind}` }, OUTCOMES[entry.outcome] ?? entry.outcome), " ",
      time(entry.started_at), " by ", userText(entry.by), counts.length ? ` · ${counts.join(", ")}` : ""),
    ...remark(error ?? note ?? ""), back);
}

/** Return the details of a run, folded if long. */
function remark(text) {
  if (!text) return [];
  const element = make("p", { class: "dim" }, userText(text));
  return [text.length <= BRIEF ? element : make("details", {}, make("summary", {}, "Why"), element)];
}
