/**
 * Client of the HTTP API: JSON in, JSON out. Errors are thrown with their hints.
 *
 * The API key, if the service requires one, is stored for this tab only, until it is closed.
 */

const ROOT = new URL("../", import.meta.url);
const KEPT = "cofio.key";

/** Error with a hint. */
export class Refusal extends Error {
  constructor(message, hint = "", code = "", status = 0) {
    super(message);
    Object.assign(this, { hint, code, status });
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEPT) ?? "",
  keep: (text) => sessionStorage.setItem(KEPT, text),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** Callback for a missing or invalid key. */
export const locked = new EventTarget();

export const get = (path, query = {}) => ask("GET", path, { query });
export const post = (path, body = {}) => ask("POST", path, { body });
export const patch = (path, body = {}) => ask("PATCH", path, { body });
export const remove = (path, query = {}) => ask("DELETE", path, { query });

/** Yield the events of a stream as `{ event, data }`, until it ends or is aborted. */
export async function* stream(address, signal) {
  const used = key.get();
  const response = await sent("GET", address, {}, null, signal);
  if (!response.ok) throw refused(response, await response.json().catch(() => null), used);
  let text = "";
  for await (const bytes of parts(response.body.pipeThrough(new TextDecoderStream()))) {
    const blocks = (text + bytes).split("\n\n");
    text = blocks.pop();
    yield* blocks.map(event).filter((message) => message.event);
  }
}

async function* parts(readable) {
  const reader = readable.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

function event(block) {
  const fields = block.split("\n").map((line) => line.split(/: ?(.*)/s, 2));
  return Object.fromEntries(fields.filter(([name]) => name === "event" || name === "data"));
}

/** Return a path with encoded parts. */
export const path = (...parts) => parts.map((part) => encodeURIComponent(part)).join("/");

/** Return the decoded part of a path; "" if invalid. */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

async function ask(method, address, { query = {}, body = null }) {
  const used = key.get();
  const response = await sent(method, address, query, body);
  const reply = await response.json().catch(() => null);
  if (response.ok && reply !== null) return reply;
  throw refused(response, reply, used);
}

/** Return the error. Report an invalid key, unless another one is in use by now. */
function refused(response, reply, used) {
  const { message, hint, code } = reply?.error ?? {};
  const refusal = new Refusal(message ?? `The service answered ${response.status}.`, hint, code, response.status);
  const isOurs = response.status === 401 && used === key.get();
  if (isOurs) locked.dispatchEvent(new CustomEvent("locked", { detail: refusal }));
  return refusal;
}

async function sent(method, address, query, body, signal = null) {
  const url = new URL(address, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  const headers = { "X-Cofio-Client": "page" };
  if (key.get()) headers["X-API-Key"] = asBytes(key.get());
  if (body !== null) headers["Content-Type"] = "application/json";
  try {
    return await fetch(url, {
      method,
      headers,
      body: body === null ? null : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      signal,
    });
  } catch {
    throw new Refusal("The service does not answer.", "See whether it runs: cofio status.");
  }
}

/** Encode the key as UTF-8 bytes, as header values are bytes. */
function asBytes(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}
