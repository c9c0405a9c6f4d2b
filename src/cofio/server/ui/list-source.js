/** Sources of a list: the newest memories, loaded by page as they come into sight; or hits, which are complete. */

import { get } from "./api.js";

const PAGE = 100; // memories per request
const HELD = 60; // pages kept; those far from sight are dropped
const AT_ONCE = 2; // concurrent requests, so that fast scrolling waits only for what is in sight

/** Hits, best first. */
export const hits = (results) => ({
  total: results.length,
  at: (place) => results[place] ?? null,
  want: () => {},
  range: async (first, last) => results.slice(first, last + 1),
});

/**
 * Memories of a scope, newest first. Later ones are not added until a reload: nothing moves while reading.
 * @param {object} within the scope, as GET /memories takes it
 * @param {object} callbacks `arrived(memories)` is called with loaded memories, `failed(error)` on errors
 */
export async function newest(within, callbacks) {
  const pages = new Map();
  const pending = new Set(); // pages being loaded
  const failed = new Set();
  let sight = [0, 0]; // pages in sight
  let top = 0; // id of the newest one
  let turn = 0; // number of reloads: replies from before the last one are dropped

  const source = { total: 0, at, want, range, reload };
  const ask = (about) => get("memories", { limit: PAGE, ...within, ...about });
  const page = async (number) => (await ask({ after: top + 1, skip: number * PAGE || "" })).memories;
  await reload(false);
  return source;

  function at(place) {
    return pages.get(Math.floor(place / PAGE))?.[place % PAGE] ?? null;
  }

  function want(first, last) {
    const now = [Math.floor(first / PAGE), Math.max(0, Math.floor(last / PAGE))];
    if (String(now) !== String(sight)) failed.clear();
    sight = now;
    fetchMissing();
  }

  function fetchMissing() {
    const [first, last] = sight;
    for (const number of [...numbers(first, last), last + 1, first - 1]) {
      const isThere = number >= 0 && number * PAGE < source.total;
      if (!isThere || pages.has(number) || pending.has(number) || failed.has(number)) continue;
      if (pending.size >= AT_ONCE) return;
      fetchOne(number);
    }
  }

  async function fetchOne(number) {
    const request = turn;
    pending.add(number);
    try {
      const memories = await page(number);
      if (request !== turn) return;
      hold(number, memories);
      callbacks.arrived(memories);
    } catch (error) {
      if (request !== turn) return;
      failed.add(number);
      callbacks.failed(error);
    } finally {
      if (request === turn) {
        pending.delete(number);
        fetchMissing();
      }
    }
  }

  function hold(number, memories) {
    pages.set(number, memories);
    if (memories.length < PAGE) source.total = Math.min(source.total, number * PAGE + memories.length);
    const far = (page) => Math.abs(page - (sight[0] + sight[1]) / 2);
    if (pages.size > HELD) pages.delete([...pages.keys()].sort((one, other) => far(other) - far(one))[0]);
  }

  async function range(first, last) {
    const pageNumbers = numbers(Math.floor(first / PAGE), Math.floor(last / PAGE));
    const all = await Promise.all(pageNumbers.map((number) => pages.get(number) ?? page(number)));
    return all.flat().slice(first % PAGE, (first % PAGE) + last - first + 1);
  }

  /** Reload everything; with `isKept`, up to the same newest memory. Returns how many came since. */
  async function reload(isKept) {
    const request = ++turn;
    pending.clear();
    const first = await ask({});
    const fresh = isKept ? first.memories.filter((memory) => memory.id > top).length : 0;
    if (!isKept) top = first.memories[0]?.id ?? 0;
    const visible = numbers(...sight).filter((number) => number * PAGE < first.total - fresh);
    const loaded = await Promise.all(visible.map((number) => (number || fresh ? page(number) : first.memories)));
    if (request !== turn) return fresh;
    pages.clear();
    failed.clear();
    source.total = first.total - fresh;
    if (!fresh) pages.set(0, first.memories);
    visible.forEach((number, index) => hold(number, loaded[index]));
    callbacks.arrived([...first.memories, ...loaded.flat()]);
    return fresh;
  }
}

const numbers = (first, last) => Array.from({ length: Math.max(0, last - first + 1) }, (_, offset) => first + offset);
