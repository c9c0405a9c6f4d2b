/** Texts to take along: a button copies them. Where the browser keeps us from it, they are marked instead. */

import { button, fill, make, unseen } from "./dom.js";

const LONG = 60; // characters; a longer text is not read out as the name of a button
const PAUSE = 2_000; // milliseconds for which a button says that it has copied

/** A command or another short text, with the button that copies it. */
export function copyable(text, about = "command") {
  const shown = make("code", { class: "text" }, text);
  return make("span", { class: `copyable ${about}` }, shown, copying(text, shown, text.length > LONG ? "it" : text));
}

/** The button that copies a text, called so; `shown` is what it stands in. `done` is called once it is copied. */
export function copying(text, shown, called = "it", done = () => {}) {
  const copy = async () => {
    const told = make("span", { class: "sr", role: "status" }); // there before it says something, and not for long
    press.after(told);
    const copied = await taken(text, shown);
    fill(press, copied ? "Copied" : "Press Ctrl+C");
    fill(told, copied ? "Copied" : "Marked: copy it with your keys");
    if (copied) done();
    setTimeout(() => (fill(press, ...name), told.remove()), PAUSE);
  };
  const press = button("", copy, "copy");
  const name = ["Copy", unseen(` ${called}`)];
  fill(press, ...name);
  return make("span", { class: "copying" }, press);
}

/** Whether it is in the clipboard: only a page that came over a safe way may write there by itself. */
async function taken(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(shown);
    return document.execCommand("copy");
  }
}

/** What to do, as the service says it: what stands between backticks can be copied. */
export function advice(text) {
  const parts = text.split("`").map((part, number) => (number % 2 ? copyable(part) : part && make("span", {}, part)));
  return make("p", { class: "advice" }, ...parts);
}
