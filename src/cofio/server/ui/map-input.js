/** Mouse, touch and keyboard input of the map. Positions are canvas pixels. */

const SLIP = 4; // pixels that a click may move
const WHEEL = 0.0016; // zoom factor per pixel of scrolling
const STEP = 80; // pixels per arrow key press
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * Listen on the canvas. `acts`: tap, point, leave, brush, brushed, walk, open, choose, letGo; `choosing()` returns
 * whether a plain drag selects.
 */
export function hands(canvas, view, callbacks) {
  const focused = new Map(); // active pointers with their positions
  let drag = null; // current gesture: { from, path, kind }

  const at = (event) => {
    const { left, top } = canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    focused.set(event.pointerId, at(event));
    callbacks.leave();
    if (focused.size > 1) {
      if (drag?.kind === "brush") callbacks.brush(null);
      drag = { kind: "pinch" };
      return;
    }
    const kind = callbacks.choosing() || event.shiftKey ? "brush" : "pan";
    drag = { kind, from: at(event), path: [at(event)], isBox: event.shiftKey, hasMoved: false };
  });

  canvas.addEventListener("pointermove", (event) => {
    const now = at(event);
    if (!focused.has(event.pointerId)) return event.pointerType === "mouse" && callbacks.point(...now);
    const before = focused.get(event.pointerId);
    if (drag?.kind === "pinch") pinch(event.pointerId, before, now);
    focused.set(event.pointerId, now);
    if (!drag?.from) return;
    drag.hasMoved ||= Math.hypot(now[0] - drag.from[0], now[1] - drag.from[1]) > SLIP;
    if (!drag.hasMoved) return;
    if (drag.kind === "pan") return move(now);
    drag.path.push(now);
    callbacks.brush(outline());
  });

  /** Make up for the first pixels, which were ignored. */
  function move(now) {
    const last = drag.path[0];
    view.pan(now[0] - last[0], now[1] - last[1]);
    drag.path[0] = now;
    callbacks.leave();
  }

  function pinch(id, before, now) {
    const [other] = [...focused].filter(([pointer]) => pointer !== id).map(([, spot]) => spot);
    if (!other) return;
    const apart = (spot) => Math.max(1, Math.hypot(spot[0] - other[0], spot[1] - other[1]));
    view.nearer(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    view.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  }

  function outline() {
    if (!drag.isBox) return drag.path;
    const [[left, top], [right, bottom]] = [drag.from, drag.path[drag.path.length - 1]];
    return [[left, top], [right, top], [right, bottom], [left, bottom]];
  }

  canvas.addEventListener("pointerup", (event) => {
    if (!focused.delete(event.pointerId)) return;
    const done = drag;
    if (focused.size === 0) drag = null;
    else if (done?.kind === "pinch") return void (drag = settle());
    if (!done?.from) return;
    const isMore = event.ctrlKey || event.metaKey;
    if (!done.hasMoved) return callbacks.tap(...at(event), isMore || event.shiftKey);
    if (done.kind !== "brush") return;
    drag = done;
    const selection = outline();
    drag = null;
    callbacks.brushed(selection, isMore);
  });

  /** Continue with the remaining finger: it moves the map, and is not a tap. */
  function settle() {
    const [spot] = focused.values();
    return { kind: "pan", from: spot, path: [spot], isBox: false, hasMoved: true };
  }

  canvas.addEventListener("pointercancel", (event) => {
    focused.delete(event.pointerId);
    drag = null;
    callbacks.brush(null);
  });
  canvas.addEventListener("pointerleave", () => focused.size === 0 && callbacks.leave());
  canvas.addEventListener("dblclick", (event) => !callbacks.choosing() && view.flyNearer(2, ...at(event)));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const pixels = event.deltaY * [1, 16, 400][event.deltaMode];
    const most = event.ctrlKey ? 60 : 240; // a touchpad pinch arrives as small steps
    const steps = Math.max(-most, Math.min(most, pixels)) * (event.ctrlKey ? 5 : 1);
    view.nearer(Math.exp(-steps * WHEEL), ...at(event));
  }, { passive: false });

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (keyed(event)) event.preventDefault();
  });

  function keyed(event) {
    const { key } = event;
    if (Object.hasOwn(ARROWS, key) && event.shiftKey) callbacks.walk(...ARROWS[key]);
    else if (Object.hasOwn(ARROWS, key)) view.pan(...ARROWS[key].map((step) => -step * STEP));
    else if (key === "+" || key === "=") view.flyNearer(1.5);
    else if (key === "-" || key === "−" || key === "_") view.flyNearer(1 / 1.5);
    else if (key === "0") view.fit();
    else if (key === "Enter") callbacks.open();
    else if (key === " ") callbacks.choose();
    else if (key === "Escape") callbacks.letGo();
    else return false;
    return true;
  }
}
