/**
 * Hears from the service that something has moved: memories, what was recalled, the inbox.
 *
 * The browser's own EventSource can send no key, so the stream is read with fetch, as every other answer is.
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
    try {
      for await (const { event, data } of stream("events", signal)) {
        if (event === "here") isLive(true);
        if (event === "here" && tries > 0) moved(new Set(["memories", "recalls", "inbox"])); // whatever was missed
        if (event === "moved") moved(new Set(JSON.parse(data).what));
        if (event === "here") tries = 0;
      }
    } catch (error) {
      if (signal.aborted || error.status === 401 || error.status === 403) return;
    }
    isLive(false);
    await pause(PAUSES[Math.min(tries, PAUSES.length - 1)], signal);
  }
}

function pause(time, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, time);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
