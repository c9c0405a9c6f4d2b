/**
 * Maintenance page: proposed merges and archivals, contradictions, usage, and runs.
 *
 * The address holds the view: #/repeats, #/unused, #/contradictions, #/use, #/calls. Results stay while switching
 * views.
 */

import { fill, find, make, menu, debounce } from "./dom.js";
import { caller, enter } from "./app-shell.js";
import { listen } from "./events.js";
import { modelCalls } from "./llm-calls.js";
import { contradictions } from "./contradictions.js";
import { repeats, unused } from "./proposals.js";
import { usage, runHistory } from "./maintenance-runs.js";

const VIEWS = {
  repeats: ["Repeats", "Duplicates are merged into one memory. Each merge is previewed.", repeats],
  unused: ["Unused", "Memories not recalled for long are archived, never erased.", unused],
  contradictions: [
    "Contradictions",
    "Pairs of memories that contradict each other. You choose which holds.",
    contradictions,
  ],
  use: ["Use", "Memories recalled most, never, and not for long.", usage],
  calls: ["Model calls", "What was sent to the language model, and how much of the daily budget is used.", modelCalls],
};

let view = "repeats";
let nodes = {}; // nodes of each view
let ran = null;
let leave = () => {}; // stops listening

const callbacks = { changed: () => ran?.refresh() };

enter({ show, empty });

async function show() {
  leave();
  if (!caller.mayAll) return fill(find("look"), notForYou());
  window.onhashchange = arrive;
  ran = runHistory(callbacks);
  fill(find("history"), ...ran.boxes);
  const onChange = debounce(() => ran?.refresh(), 300);
  leave = listen((changed) => changed.has("memories") && onChange());
  arrive();
  await ran.refresh();
}

function empty() {
  leave();
  [nodes, ran] = [{}, null];
  for (const name of ["what", "views", "look", "history"]) fill(find(name));
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
  menu(find("views"), Object.entries(VIEWS).map(([name, [title]]) => [`#/${name}`, name === view, title]));
  const [, says, build] = VIEWS[view];
  fill(find("what"), says);
  nodes[view] ??= build(callbacks);
  fill(find("look"), nodes[view]);
}
