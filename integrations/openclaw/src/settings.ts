/** URL, key and deadlines of the service: from the plugin's configuration, the environment, the file `hook.at`. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { isServed } from "./lock.ts";

const RECALL_MS = 800;
const CAPTURE_MS = 300;
const LEAST_MS = 50;
const MOST_MS = 10_000;

/** The user's choices in `plugins.entries.cofio.config`. */
export interface PluginOptions {
  baseUrl: string;
  token: string;
  home: string;
  autoRecall: boolean;
  autoCapture: boolean;
  groups: boolean;
}

/** URL and key of the service, and the deadlines in milliseconds. */
export interface Address {
  url: string; // "" if no service runs
  key: string;
  recallMs: number;
  captureMs: number;
}

export function parseConfig(config: Record<string, unknown> | undefined): PluginOptions {
  const values = config ?? {};
  return {
    baseUrl: trimmed(values["baseUrl"]),
    token: trimmed(values["token"]),
    home: trimmed(values["home"]),
    autoRecall: values["autoRecall"] !== false,
    autoCapture: values["autoCapture"] !== false,
    groups: values["groups"] === true,
  };
}

/** Return whether the hooks of all clients are turned off. */
export function isOff(): boolean {
  return ["off", "0", "no", "false"].includes(variable("COFIO_HOOKS").toLowerCase());
}

/** Return the folder of cofio's files. */
export function home(choice: PluginOptions): string {
  const folder = (choice.home || variable("COFIO_HOME")).replace(/^~(?=\/|$)/, homedir());
  return folder ? resolve(folder) : join(homedir(), ".cofio");
}

/** Return the address; called each time, since the service may start, move or get a key while the gateway runs. */
export async function address(choice: PluginOptions): Promise<Address> {
  const endpoint = await readFile(join(home(choice), "hook.at"), "utf8").catch(() => "");
  const [url = "", key = "", times = "", store = "", , lock = ""] = endpoint.split("\n");
  const configured = bare(choice.baseUrl || variable("COFIO_URL", "FAISS_URL"));
  const isKnown = !configured || configured === bare(url); // the key in the file is only for the service that it names
  const isDown = isKnown && store !== "" && !(await isServed(lock, bare(url)));
  const [recall = "", capture = ""] = times.split(" ");
  return {
    url: isDown ? "" : configured || bare(url),
    key: choice.token || variable("COFIO_API_KEY", "FAISS_API_KEY") || (isKnown ? key.trim() : ""),
    recallMs: milliseconds(RECALL_MS, variable("COFIO_HOOK_RECALL_TIMEOUT_MS"), recall),
    captureMs: milliseconds(CAPTURE_MS, variable("COFIO_HOOK_CAPTURE_TIMEOUT_MS"), capture),
  };
}

/** Return the first non-empty value of these variables. */
export function variable(...names: string[]): string {
  return names.map((name) => trimmed(process.env[name])).find(Boolean) ?? "";
}

function bare(url: string): string {
  return url.trim().replace(/\/+$/, "");
}

function milliseconds(fallback: number, ...candidates: string[]): number {
  const digits = candidates.find((candidate) => /^\d+$/.test(candidate.trim()));
  return digits === undefined ? fallback : Math.max(LEAST_MS, Math.min(MOST_MS, Number(digits)));
}

function trimmed(value: unknown): string {
  return typeof value === "string" ? value.trim() : "";
}
