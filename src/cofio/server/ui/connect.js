/** Instructions for connecting an agent to this service, to copy. */

import { copyable } from "./clipboard.js";
import { make, newId } from "./dom.js";

const ROOT = new URL("../", import.meta.url).href;
const BARE = ROOT.replace(/\/$/, "");

/** Return the ways as sections. An open service needs no key on its machine. */
export function ways(isOpen) {
  const header = isOpen ? "" : ' -H "X-API-Key: $COFIO_API_KEY"';
  return make("div", { class: "ways" },
    way("By itself, with every prompt",
      ["In Claude Code, Codex, OpenClaw and Cursor: what is known comes into each session and prompt, and what is ",
        "said is learned from. It asks what it needs to know, and ", make("code", {}, "cofio uninstall"),
        " puts every file back."],
      "cofio install", "cofio doctor"),
    way("From another machine",
      ["Make a key for that machine, and configure the service’s URL there. It has to listen on an address that ",
        "can be reached from there, and should be behind TLS."],
      `export COFIO_URL=${BARE}`, "export COFIO_API_KEY=…", "cofio install"),
    way("As tools that the agent calls (MCP)",
      ["Lets the agent search and correct memories itself. ", make("code", {}, "cofio install"),
        " has registered it already where it could."],
      "claude mcp add cofio -- cofio mcp", "codex mcp add cofio -- cofio mcp"),
    way("As tools, without cofio on that machine",
      ["The same tools over HTTP, for every client that speaks MCP."],
      `claude mcp add --transport http cofio ${ROOT}mcp${isOpen ? "" : ' --header "X-API-Key: $COFIO_API_KEY"'}`,
      `codex mcp add cofio --url ${ROOT}mcp${isOpen ? "" : " --bearer-token-env-var COFIO_API_KEY"}`),
    way("From a program",
      ["Every route is described under ", make("a", { href: "../docs" }, "API"), "."],
      `curl -s ${ROOT}search${header} -H 'Content-Type: application/json' -d '{"query": "when do we deploy?"}'`));
}

function way(title, says, ...commands) {
  const id = newId("way");
  return make("section", { class: "box way", "aria-labelledby": id },
    make("h2", { id }, title), make("p", {}, ...says),
    make("ul", { class: "commands" }, ...commands.map((command) => make("li", {}, copyable(command)))));
}
