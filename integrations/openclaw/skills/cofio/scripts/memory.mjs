/**
 * Implementation of the skill's two scripts: call the cofio service, and print the result in plain words.
 *
 *     node memory.mjs recall [WORDS]      node memory.mjs extract [WORDS]
 */

import { closeSync, constants, openSync, readFileSync, statSync } from "node:fs";
import { request as plainly } from "node:http";
import { request as securely } from "node:https";
import { homedir } from "node:os";
import { join } from "node:path";
import { projectOf, sourceOf } from "./project.mjs"; // a copy of the plugin's

const PATIENCE_MS = 10_000;
const LONGEST = 200_000; // characters of a conversation

const acts = {
  /** Return the memories, which the service formats as plain data in a tag. */
  async recall(words) {
    const { status, told } = await ask("/recall", { prompt: words.slice(0, 10_000), project: await projectOf(process.cwd()) });
    if (status !== 200) return refused("Nothing is recalled", status, told);
    return visible(told.text ?? "") || "Nothing about that is remembered.";
  },

  /** Submit a conversation, to be read in the background by the model or, without one, by patterns. */
  async extract(words) {
    const said = (words || readFileSync(0, "utf8")).trim().slice(-LONGEST);
    if (!said) return "Nothing is kept: give the conversation as an argument or on standard input.";
    const project = await projectOf(process.cwd());
    const about = { messages: said, project, source: sourceOf(project), client: "openclaw" };
    let { status, told } = await ask("/memory/extract", { ...about, context: "after_agent", async: true });
    if (status === 501) ({ status, told } = await ask("/capture", { ...about, context: "after_agent" }));
    if (status !== 202 && status !== 200) return refused("Nothing is kept", status, told);
    return "It is kept and will be learned from.";
  },
};

/** Send one request and return the reply as JSON. */
function ask(path, body) {
  const { url, key } = address();
  if (!url) return Promise.reject(new Error("the service does not run"));
  const raw = Buffer.from(JSON.stringify(body));
  const headers = { "Content-Type": "application/json", "Content-Length": raw.length, "X-Cofio-Client": "openclaw-skill" };
  if (key) headers["X-API-Key"] = key;
  const options = { method: "POST", headers, agent: false, signal: AbortSignal.timeout(PATIENCE_MS) };
  const request = url.startsWith("https:") ? securely : plainly;
  return new Promise((resolve, reject) => {
    const failed = (error) => reject(new Error(`${url} does not answer (${error.code ?? error.message})`));
    const asking = request(`${url}${path}`, options, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("error", failed);
      response.on("end", () => resolve({ status: response.statusCode, told: object(Buffer.concat(parts).toString()) }));
    });
    asking.on("error", failed);
    asking.end(raw);
  });
}

/** Return URL and key of the service: from the variables, or else from the file in its home. */
function address() {
  const home = variable("COFIO_HOME") || join(homedir(), ".cofio");
  const [url = "", key = "", , store = "", , lock = ""] = read(join(home, "hook.at")).split("\n");
  const named = bare(variable("COFIO_URL", "FAISS_URL"));
  const known = !named || named === bare(url); // the key in the file is only for the service that it names
  const down = known && store !== "" && !served(lock, bare(url));
  return {
    url: down ? "" : named || bare(url),
    key: variable("COFIO_API_KEY", "FAISS_API_KEY") || (known ? key.trim() : ""),
  };
}

/** Return whether a process of this user holds the service's lock and serves at this address, as the plugin does. */
function served(lock, url) {
  try {
    const { ino, uid } = statSync(lock);
    const held = process.platform === "darwin" ? locked(lock) : read("/proc/locks");
    const { pid, url: at } = object(read(lock));
    const holds = (line) => new RegExp(`: FLOCK +ADVISORY +WRITE ${Number(pid)} [0-9a-f]+:[0-9a-f]+:${ino} `).test(line);
    return uid === process.getuid() && Boolean(url) && at === url && (held === true || (held !== false && holds(held)));
  } catch {
    return false;
  }
}

function locked(path) {
  try {
    closeSync(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | 0x10)); // O_SHLOCK
    return false;
  } catch (error) {
    return ["EAGAIN", "EWOULDBLOCK"].includes(error.code);
  }
}

function refused(what, status, told) {
  const { message = "", hint = "" } = told.error ?? {};
  return visible(`${what}: the service refuses (${status}). ${message} ${hint}`).trim();
}

/** Return the text without terminal control characters. */
function visible(text) {
  return String(text).replace(/[^\P{C}\n]/gu, "").trim();
}

function variable(...names) {
  return names.map((name) => (process.env[name] ?? "").trim()).find(Boolean) ?? "";
}

function bare(url) {
  return url.trim().replace(/\/+$/, "");
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function object(text) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

const [act = "", ...words] = process.argv.slice(2);
try {
  console.log(await acts[act](words.join(" ").trim()));
} catch (error) {
  console.log(`The memory is not there: ${error.message}. Go on without it.`);
}
