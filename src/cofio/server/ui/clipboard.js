/** Copy buttons. If the browser blocks copying, the text is selected instead. */

import { button, fill, make, srOnly } from "./dom.js";

const LONG = 60; // characters; a longer text is not read aloud as the name of a button
const PAUSE = 2_000; // milliseconds for which a button confirms copying

/** Return a command or another short text with its copy button. */
export function copyable(text, about = "command") {
  const code = make("code", { class: "text" }, text);
  return make("span", { class: `copyable ${about}` }, code, copying(text, code, text.length > LONG ? "it" : text));
}

/** Return a copy button with this label; `shown` holds the text. `done` is called after copying. */
export function copying(text, source, called = "it", done = () => {}) {
  const copy = async () => {
    const status = make("span", { class: "sr", role: "status" }); // created before it has text, and removed soon
    press.after(status);
    const copied = await copyText(text, source);
    fill(press, copied ? "Copied" : "Press Ctrl+C");
    fill(status, copied ? "Copied" : "Marked: copy it with your keys");
    if (copied) done();
    setTimeout(() => (fill(press, ...name), status.remove()), PAUSE);
  };
  const press = button("", copy, "copy");
  const name = ["Copy", srOnly(` ${called}`)];
  fill(press, ...name);
  return make("span", { class: "copying" }, press);
}

/** Return whether the text was copied: only pages on a secure origin may write to the clipboard. */
async function copyText(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}

/** Return a hint of the service; text between backticks can be copied. */
export function advice(text) {
  const parts = text.split("`").map((part, number) => (number % 2 ? copyable(part) : part && make("span", {}, part)));
  return make("p", { class: "advice" }, ...parts);
}
