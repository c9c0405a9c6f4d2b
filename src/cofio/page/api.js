/**
 * The service, as every page calls it: JSON in, JSON out. What it refuses is thrown, with what to do about it.
 *
 * The key, where the service wants one, is kept for this tab alone, and until that is closed.
 */

const ROOT = new URL("../", import.meta.url);
const KEPT = "cofio.key";

/** What went wrong, and what to do. */
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

/** Whoever wants to know that the service does not take our key, or wants one. */
export const locked = new EventTarget();

export const get = (path, query = {}) => ask("GET", path, { query });
export const post = (path, body = {}) => ask("POST", path, { body });
export const remove = (path, query = {}) => ask("DELETE", path, { query });

/** A path whose parts may hold anything. */
export const path = (...parts) => parts.map((each) => encodeURIComponent(each)).join("/");

async function ask(method, where, { query = {}, body = null }) {
  const response = await sent(method, where, query, body);
  const told = await response.json().catch(() => null);
  if (response.ok && told !== null) return told;
  const { message, hint, code } = told?.error ?? {};
  const refusal = new Refusal(message ?? `The service answered ${response.status}.`, hint, code, response.status);
  if (response.status === 401) locked.dispatchEvent(new CustomEvent("locked", { detail: refusal }));
  throw refusal;
}

async function sent(method, where, query, body) {
  const url = new URL(where, ROOT);
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
      credentials: "omit",
      redirect: "error",
    });
  } catch {
    throw new Refusal("The service does not answer.", "See whether it runs: cofio status.");
  }
}

/** A header holds bytes; the service takes a key as UTF-8. */
function asBytes(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}
