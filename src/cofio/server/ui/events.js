/**
 * Event stream of changes: memories, recalls, the inbox.
 *
 * EventSource cannot send a key, so the stream is read with fetch, like every other reply. A hidden tab closes it: a
 * browser has six connections to a service, shared by all tabs.
 */

import { stream } from "./api.js";

const PAUSES = [1_000, 2_000, 5_000, 15_000]; // milliseconds before each further retry

/**
 * Call `moved(what)` with a set of names on changes; `isLive(truth)` when the stream connects or disconnects.
 * @returns {() => void} stops listening
 */
export function listen(onChange, isLive = () => {}) {
  const ending = new AbortController();
  follow(onChange, isLive, ending.signal);
  return () => ending.abort();
}

async function follow(onChange, isLive, signal) {
  for (let tries = 0; !signal.aborted; tries++) {
    if (document.hidden) {
      await whenVisible(signal);
      continue; // changes may have been missed
    }
    const ending = whileSeen(signal);
    try {
      for await (const { event, data } of stream("events", ending.signal)) {
        if (event === "here") isLive(true);
        if (event === "here" && tries > 0) onChange(new Set(["memories", "recalls", "inbox"])); // some were missed
        if (event === "moved") onChange(new Set(JSON.parse(data).what));
        if (event === "here") tries = 0;
      }
    } catch (error) {
      if (signal.aborted || error.status === 401 || error.status === 403) return ending.abort();
    }
    if (ending.signal.aborted) continue; // the tab is hidden
    ending.abort();
    isLive(false);
    await pause(PAUSES[Math.min(tries, PAUSES.length - 1)], signal);
  }
}

/** Return a signal that aborts with this one, and when the tab is hidden. */
function whileSeen(signal) {
  const ending = new AbortController();
  const until = { signal: ending.signal };
  signal.addEventListener("abort", () => ending.abort(), until);
  document.addEventListener("visibilitychange", () => document.hidden && ending.abort(), until);
  return ending;
}

/** Wait until the tab is visible. */
function whenVisible(signal) {
  return new Promise((resolve) => {
    const back = () => document.hidden || resolve();
    document.addEventListener("visibilitychange", back, { signal });
    signal.addEventListener("abort", resolve, { once: true });
  });
}

function pause(time, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
