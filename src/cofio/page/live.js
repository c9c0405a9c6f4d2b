/**
 * Hears from the service that something has moved: memories, what was recalled, the inbox.
 *
 * The browser's own EventSource can send no key, so the stream is read with fetch, as every other answer is. A tab that
 * nobody looks at lets go of it: a browser has six connections to a service, and all its tabs share them.
 */

import { stream } from "./api.js";

const PAUSES = [1_000, 2_000, 5_000, 15_000]; // milliseconds before each further try

/**
 * Call `moved(what)` with a set of names when something has; `isLive(truth)` when the stream comes or goes.
 * @returns {() => void} what ends it
 */
export function listen(moved, isLive = () => {}) {
  const ending = new AbortController();
  follow(moved, isLive, ending.signal);
  return () => ending.abort();
}

async function follow(moved, isLive, signal) {
  for (let tries = 0; !signal.aborted; tries++) {
    if (document.hidden) {
      await seen(signal);
      continue; // with something missed, perhaps
    }
    const ending = whileSeen(signal);
    try {
      for await (const { event, data } of stream("events", ending.signal)) {
        if (event === "here") isLive(true);
        if (event === "here" && tries > 0) moved(new Set(["memories", "recalls", "inbox"])); // whatever was missed
        if (event === "moved") moved(new Set(JSON.parse(data).what));
        if (event === "here") tries = 0;
      }
    } catch (error) {
      if (signal.aborted || error.status === 401 || error.status === 403) return ending.abort();
    }
    if (ending.signal.aborted) continue; // nobody looks
    ending.abort();
    isLive(false);
    await pause(PAUSES[Math.min(tries, PAUSES.length - 1)], signal);
  }
}

/** What ends with this signal, and once the tab is no longer seen. */
function whileSeen(signal) {
  const ending = new AbortController();
  const until = { signal: ending.signal };
  signal.addEventListener("abort", () => ending.abort(), until);
  document.addEventListener("visibilitychange", () => document.hidden && ending.abort(), until);
  return ending;
}

/** Wait for somebody to look at the tab. */
function seen(signal) {
  return new Promise((done) => {
    const back = () => document.hidden || done();
    document.addEventListener("visibilitychange", back, { signal });
    signal.addEventListener("abort", done, { once: true });
  });
}

function pause(time, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, time);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
