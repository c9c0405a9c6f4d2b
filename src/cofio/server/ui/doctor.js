/** Doctor results: each check with its state as a sign and a word, and what to do. */

import { advice } from "./clipboard.js";
import { make, userText } from "./dom.js";

const STATES = { ok: ["✓", "fine"], warning: ["!", "look at this"], wrong: ["✗", "to mend"] };
const CALLED = { "claude-code": "Claude Code", "codex": "Codex", "openclaw": "OpenClaw", "cursor": "Cursor" };

/** Return the checks as a list, in the order in which they ran. */
export const checkList = (checks) => make("ul", { class: "rows checks" }, ...checks.map(item));

function item({ name, state, says, hint }) {
  const [sign, word] = STATES[state];
  return make("li", { class: `check ${state}` },
    make("span", { class: "sign", "aria-hidden": "true" }, sign),
    make("div", { class: "finding" },
      make("p", {}, make("strong", {}, CALLED[name] ?? name), " ", make("span", { class: "state" }, word)),
      make("p", { class: "saying" }, userText(says)),
      hint ? advice(hint) : null));
}
