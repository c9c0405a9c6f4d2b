/**
 * Maintenance page: proposed merges and archivals, contradictions, usage, and runs.
 *
 * The address holds the view: #/repeats, #/unused, #/contradictions, #/use, #/calls. Results stay while switching
 * views.
 */

import { fill, find, make, menu, settled } from "./dom.js";
import { caller, enter } from "./app-shell.js";
import { listen } from "./events.js";
import { modelCalls } from "./llm-calls.js";
import { contradictions } from "./contradictions.js";
import { repeats, unused } from "./proposals.js";
import { usage, whatRan } from "./maintenance-runs.js";

const VIEWS = {
  repeats: ["Repeats", "Duplicates are merged into one memory. Each merge is previewed.", repeats],
  unused: ["Unused", "Memories not recalled for long are archived, never erased.", unused],
  contradictions: ["Contradictions", "Pairs of memories that contradict each other. You choose which holds.", contradictions],
  use: ["Use", "Memories recalled most, never, and not for long.", usage],
  calls: ["Model calls", "What was sent to the language model, and how much of the daily budget is used.", modelCalls],
};

let view = "repeats";
let shown = {}; // nodes of each view
let ran = null;
let leave = () => {}; // stops listening

const acts = { changed: () => ran?.refresh() };

enter({ show, empty });

async function show() {
  leave();
  if (!caller.mayAll) return fill(find("look"), notForYou());
  window.onhashchange = arrive;
  ran = whatRan(acts);
  fill(find("history"), ...ran.boxes);
  const moved = settled(() => ran?.refresh(), 300);
  leave = listen((what) => what.has("memories") && moved());
  arrive();
  await ran.refresh();
}

function empty() {
  leave();
  [shown, ran] = [{}, null];
  for (const each of ["what", "views", "look", "history"]) fill(find(each));
}

function notForYou() {
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "Upkeep is for admins"),
    make("p", {}, "It reads every memory of the store and may change any. Your key may not."),
    make("p", { class: "dim" }, "An admin makes another: ", make("code", {}, "cofio keys create NAME --role admin")));
}

/** Show the view of the address; unknown ones are ignored. */
function arrive() {
  const [, name = ""] = location.hash.split("/");
  if (Object.hasOwn(VIEWS, name || "repeats")) view = name || "repeats";
  menu(find("views"), Object.entries(VIEWS).map(([each, [title]]) => [`#/${each}`, each === view, title]));
  const [, says, made] = VIEWS[view];
  fill(find("what"), says);
  shown[view] ??= made(acts);
  fill(find("look"), shown[view]);
}
