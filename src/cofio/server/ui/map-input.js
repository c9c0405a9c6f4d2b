/** Mouse, touch and keyboard input of the map. Positions are canvas pixels. */

const SLIP = 4; // pixels that a click may move
const WHEEL = 0.0016; // zoom factor per pixel of scrolling
const STEP = 80; // pixels per arrow key press
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * Listen on the canvas. `acts`: tap, point, leave, brush, brushed, walk, open, choose, letGo; `choosing()` returns
 * whether a plain drag selects.
 */
export function hands(canvas, view, acts) {
  const held = new Map(); // active pointers with their positions
  let drag = null; // current gesture: { from, path, kind }

  const at = (event) => {
    const { left, top } = canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, at(event));
    acts.leave();
    if (held.size > 1) {
      if (drag?.kind === "brush") acts.brush(null);
      drag = { kind: "pinch" };
      return;
    }
    const kind = acts.choosing() || event.shiftKey ? "brush" : "pan";
    drag = { kind, from: at(event), path: [at(event)], isBox: event.shiftKey, hasMoved: false };
  });

  canvas.addEventListener("pointermove", (event) => {
    const now = at(event);
    if (!held.has(event.pointerId)) return event.pointerType === "mouse" && acts.point(...now);
    const before = held.get(event.pointerId);
    if (drag?.kind === "pinch") pinch(event.pointerId, before, now);
    held.set(event.pointerId, now);
    if (!drag?.from) return;
    drag.hasMoved ||= Math.hypot(now[0] - drag.from[0], now[1] - drag.from[1]) > SLIP;
    if (!drag.hasMoved) return;
    if (drag.kind === "pan") return move(now);
    drag.path.push(now);
    acts.brush(outline());
  });

  /** Make up for the first pixels, which were ignored. */
  function move(now) {
    const last = drag.path[0];
    view.pan(now[0] - last[0], now[1] - last[1]);
    drag.path[0] = now;
    acts.leave();
  }

  function pinch(id, before, now) {
    const [other] = [...held].filter(([each]) => each !== id).map(([, spot]) => spot);
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
    if (!held.delete(event.pointerId)) return;
    const done = drag;
    if (held.size === 0) drag = null;
    else if (done?.kind === "pinch") return void (drag = rest());
    if (!done?.from) return;
    const isMore = event.ctrlKey || event.metaKey;
    if (!done.hasMoved) return acts.tap(...at(event), isMore || event.shiftKey);
    if (done.kind !== "brush") return;
    drag = done;
    const chosen = outline();
    drag = null;
    acts.brushed(chosen, isMore);
  });

  /** Continue with the remaining finger: it moves the map, and is not a tap. */
  function rest() {
    const [spot] = held.values();
    return { kind: "pan", from: spot, path: [spot], isBox: false, hasMoved: true };
  }

  canvas.addEventListener("pointercancel", (event) => {
    held.delete(event.pointerId);
    drag = null;
    acts.brush(null);
  });
  canvas.addEventListener("pointerleave", () => held.size === 0 && acts.leave());
  canvas.addEventListener("dblclick", (event) => !acts.choosing() && view.flyNearer(2, ...at(event)));
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
    if (Object.hasOwn(ARROWS, key) && event.shiftKey) acts.walk(...ARROWS[key]);
    else if (Object.hasOwn(ARROWS, key)) view.pan(...ARROWS[key].map((each) => -each * STEP));
    else if (key === "+" || key === "=") view.flyNearer(1.5);
    else if (key === "-" || key === "−" || key === "_") view.flyNearer(1 / 1.5);
    else if (key === "0") view.fit();
    else if (key === "Enter") acts.open();
    else if (key === " ") acts.choose();
    else if (key === "Escape") acts.letGo();
    else return false;
    return true;
  }
}
