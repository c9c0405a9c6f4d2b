/**
 * A recorded plugin host: it loads the plugin as OpenClaw does, keeps what it registers, and fires what it is told to.
 *
 *     node host.mjs PLUGIN      one JSON object a line on standard input, one answer a line on standard output
 */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const hooks = {};
const made = [];
const lines = [];
const capabilities = [];
const { default: plugin } = await import(pathToFileURL(process.argv[2]).href);

function api(config) {
  const log = (level) => (message) => lines.push(`${level}: ${message}`);
  return {
    id: plugin.id,
    registrationMode: "full",
    pluginConfig: config,
    logger: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    registerMemoryCapability: (capability) => capabilities.push(capability),
    registerTool: (make, options) => made.push({ make, names: options?.names ?? [] }),
    on: (name, hook) => (hooks[name] ??= []).push(hook),
  };
}

const acts = {
  register({ config, without }) {
    const host = api(config);
    for (const name of without ?? []) delete host[name];
    const returned = plugin.register(host);
    const names = made.flatMap((each) => each.names);
    return { isPromise: typeof returned?.then === "function", hooks: Object.keys(hooks).sort(), names };
  },

  async fire({ name, event, context }) {
    const results = await Promise.all((hooks[name] ?? []).map((hook) => hook(event, context)));
    return results.find((each) => each !== undefined) ?? null;
  },

  fire_and_forget({ name, event, context }) {
    for (const hook of hooks[name] ?? []) void hook(event, context);
  },

  tools: ({ context }) => offered(context).map(({ name, parameters }) => ({ name, parameters })),

  call: ({ name, given, context }) =>
    offered(context)
      .find((each) => each.name === name)
      .execute("call-1", given, new AbortController().signal),

  guidance: ({ tools }) => capabilities.flatMap((each) => each.promptBuilder({ availableTools: new Set(tools) })),
  flush: () => capabilities.map((each) => each.flushPlanResolver({})),
  log: () => lines,
  import: async ({ path, name, given }) => (await import(pathToFileURL(path).href))[name](...given),
};

function offered(context) {
  return made.flatMap(({ make }) => make(context ?? {}) ?? []);
}

for await (const line of createInterface({ input: process.stdin })) {
  const told = JSON.parse(line);
  const start = performance.now();
  let answer;
  try {
    answer = { answer: (await acts[told.do](told)) ?? null };
  } catch (error) {
    answer = { thrown: error instanceof Error ? error.message : String(error) };
  }
  process.stdout.write(`${JSON.stringify({ ...answer, ms: performance.now() - start })}\n`);
}
