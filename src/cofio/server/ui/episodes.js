/** Matching episodes: captured conversations by turn. Each opens in place with the whole turn. */

import { get, path, post } from "./api.js";
import { truncate, formatCount, fill, make, newId, userText, time } from "./dom.js";
import { trouble } from "./app-shell.js";

const HITS = 10; // requested
const LEAST = 0.05; // minimum score shown
const LETTERS = 280; // characters of a passage in its row

/**
 * Search episodes and draw them; an empty query clears them. `isCurrent()` returns whether the result is still wanted.
 */
export async function drawEpisodes(place, query, within, isCurrent) {
  if (!query) return hide(place);
  try {
    const { episodes } = await post("episodes/search", { query, k: HITS, min_score: LEAST, ...within });
    if (!isCurrent()) return;
    const heading = newId("episodes");
    place.hidden = false;
    place.setAttribute("aria-labelledby", heading);
    fill(place, make("h2", { id: heading }, "Episodes: what was said"),
      make("p", { class: "dim", role: "status" }, formatCount(episodes.length, "episode", "episodes"), ", best first"),
      ...episodes.map(row));
  } catch (error) {
    if (!isCurrent()) return;
    place.hidden = false;
    fill(place, trouble(error));
  }
}

function hide(place) {
  place.hidden = true;
  fill(place);
}

function row(hit) {
  const content = make("div", {}, make("p", { class: "dim" }, "Looking it up …"));
  const summary = make("summary", {},
    make("span", { class: "dim" }, time(hit.at), hit.session ? [" · session ", userText(hit.session)] : null),
    make("span", { class: "number" }, ` ${hit.score.toFixed(2)} `),
    userText(truncate(hit.text, LETTERS)));
  const element = make("details", { class: "episode" }, summary, content);
  element.addEventListener("toggle", () => element.open && load(hit.episode, content), { once: true });
  return element;
}

async function load(id, place) {
  try {
    const { text, project, source } = await get(path("episodes", String(id)));
    const origin = [project, source].filter(Boolean).join(" · ");
    fill(place, make("p", { class: "dim" }, `Episode ${id}`, origin ? [" · ", userText(origin)] : null),
      userText(text, { class: "long" }));
  } catch (error) {
    fill(place, trouble(error));
  }
}
