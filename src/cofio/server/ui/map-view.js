/**
 * Visible part of the map: its centre, and pixels per unit.
 *
 * The axes have no meaning, so the map is stretched to the window by the factor `wide`.
 */

const CLOSEST = 60; // maximum zoom
const FARTHEST = 0.7;
const MARGIN = 44; // pixels of padding around the content
const [NARROWEST, WIDEST] = [0.5, 1.6];
const LASTS = 260; // milliseconds of an animated move
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

export class View {
  /** `changed()` is called whenever the visible part changes. */
  constructor(changed) {
    Object.assign(this, { x: 0, y: 0, scale: 1, wide: 1, whole: 1, width: 1, height: 1, box: [0, 0, 1, 1] });
    Object.assign(this, { changed, flight: 0 });
  }

  /** Return the zoom: 1 for the whole map. */
  get zoom() {
    return this.scale / this.whole;
  }

  /** Return whether the whole map is visible, as at first. */
  get isWhole() {
    const { x, y } = this.#fitting(this.box);
    const off = Math.hypot((this.x - x) * this.wide, this.y - y) * this.scale;
    return Math.abs(this.zoom - 1) < 0.01 && off < 2;
  }

  /** Set the size of the window and the bounding box of the content. */
  frame(width, height, box) {
    const zoom = this.zoom;
    const [left, top, right, bottom] = box;
    const fills = ((width - 2 * MARGIN) * (bottom - top)) / Math.max((height - 2 * MARGIN) * (right - left), 1);
    const wide = Math.max(NARROWEST, Math.min(WIDEST, fills || 1));
    Object.assign(this, { width, height, box, wide });
    this.whole = this.#fitting(box).scale;
    this.scale = this.whole * zoom;
  }

  #fitting([left, top, right, bottom]) {
    const across = (this.width - 2 * MARGIN) / Math.max((right - left) * this.wide, 1);
    const along = (this.height - 2 * MARGIN) / Math.max(bottom - top, 1);
    const scale = Math.max(Math.min(across, along, this.width / 400), 1e-4);
    return { x: (left + right) / 2, y: (top + bottom) / 2, scale };
  }

  /** Convert from map to window coordinates, and back. */
  across = (x) => (x - this.x) * this.scale * this.wide + this.width / 2;
  down = (y) => (y - this.y) * this.scale + this.height / 2;
  spot = (across, down) => [
    this.x + (across - this.width / 2) / (this.scale * this.wide),
    this.y + (down - this.height / 2) / this.scale,
  ];

  /** Show this part at once. */
  set({ x, y, scale }) {
    const [left, top, right, bottom] = this.box;
    this.x = Math.max(left, Math.min(right, x));
    this.y = Math.max(top, Math.min(bottom, y));
    this.scale = Math.max(this.whole * FARTHEST, Math.min(this.whole * CLOSEST, scale));
    this.changed();
  }

  /** Move by pixels. */
  pan(right, down) {
    this.#land();
    this.set({ x: this.x - right / (this.scale * this.wide), y: this.y - down / this.scale, scale: this.scale });
  }

  /** Zoom by a factor; the point under the pointer stays. */
  nearer(times, across = this.width / 2, down = this.height / 2) {
    this.#land();
    this.set(this.#nearer(times, across, down));
  }

  #nearer(times, across, down) {
    const [x, y] = this.spot(across, down);
    const scale = Math.max(this.whole * FARTHEST, Math.min(this.whole * CLOSEST, this.scale * times));
    return { x: x - (across - this.width / 2) / (scale * this.wide), y: y - (down - this.height / 2) / scale, scale };
  }

  /** Zoom by a factor, animated. */
  flyNearer(times, across = this.width / 2, down = this.height / 2) {
    this.fly(this.#nearer(times, across, down));
  }

  /** Show everything, or everything within a box. */
  fit(box = this.box) {
    this.fly(this.#fitting(box));
  }

  /** Bring a spot into view; do nothing if it is visible. */
  reach(x, y) {
    if (!this.shows(x, y, MARGIN)) this.fly({ x, y, scale: this.scale });
  }

  /** Return whether a spot is in the window, with a margin. */
  shows(x, y, within = 0) {
    const [across, down] = [this.across(x), this.down(y)];
    return across > within && across < this.width - within && down > within && down < this.height - within;
  }

  /** Animate the move; jump for users who prefer reduced motion. */
  fly(target) {
    this.#land();
    const from = { x: this.x, y: this.y, scale: this.scale };
    if (CALM.matches) return this.set(target);
    const began = performance.now();
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - began) / LASTS));
      this.set(between(from, target, 1 - (1 - part) ** 3));
      this.flight = part < 1 ? requestAnimationFrame(step) : 0;
    };
    this.flight = requestAnimationFrame(step);
  }

  #land() {
    cancelAnimationFrame(this.flight);
    this.flight = 0;
  }
}

/** Interpolate: the scale grows exponentially, and the centre follows, so that the target stays in view. */
function between(from, to, part) {
  const scale = from.scale * (to.scale / from.scale) ** part;
  const same = Math.abs(to.scale / from.scale - 1) < 1e-3;
  const along = same ? part : (1 / from.scale - 1 / scale) / (1 / from.scale - 1 / to.scale);
  return { x: from.x + (to.x - from.x) * along, y: from.y + (to.y - from.y) * along, scale };
}
