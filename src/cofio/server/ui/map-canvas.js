/**
 * Canvas rendering of the map: density glow, points, group names, and the point under the pointer.
 *
 * Tens of thousands of small discs are too slow as arcs or image copies. They are written into the pixel buffer, each
 * from a stamp made once per size; everything above them is drawn normally.
 */

import { hue, mixed } from "./map-colours.js";

const SMALLEST = 2; // pixels, the radius of a point
const LARGEST = 5;
const FILLED = 0.1; // share of the window covered by all points of the whole map
const GRAIN = 256; // width of the glow in pixels
const SOFT = [0.18, 0.26]; // density of the glow, in a light and in a dark scheme
const NAMED = "600 12.5px system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif";
const APART = 8; // pixels between names
const MOST_ABOVE = 46; // pixels from the centre of a group to its name
const FEWER = 1.7; // zoom up to which a name has only its first two words
const DARK = matchMedia("(prefers-color-scheme: dark)");

export class Canvas {
  constructor(canvas, glow) {
    Object.assign(this, { canvas, glow, names: [], drawnAt: 0 });
    this.pen = canvas.getContext("2d");
    this.inks = { dots: [], ground: [255, 255, 255], text: "#000", halo: "#fff", accent: "#000" };
    glow.width = glow.height = GRAIN;
  }

  /** Set the resolution of the canvas to that of the screen. */
  resize(width, height) {
    this.sharp = Math.min(devicePixelRatio || 1, 3);
    Object.assign(this.canvas, { width: Math.round(width * this.sharp), height: Math.round(height * this.sharp) });
    this.pixels = this.pen.createImageData(this.canvas.width, this.canvas.height);
    this.words = new Uint32Array(this.pixels.data.buffer);
    this.labels = null;
  }

  /** Clear the canvas and release its buffers. */
  clear() {
    this.canvas.width = this.canvas.height = 0;
    this.glow.getContext("2d").clearRect(0, 0, GRAIN, GRAIN);
    this.words = this.pixels = this.labels = null;
    for (const name of ["points", "view"]) delete this.canvas.dataset[name];
    this.canvas.setAttribute("aria-label", "Map of memories");
  }

  /** Read the colours of these classes from the scheme, and compute the glow. */
  paint(dots, { of, classes }) {
    const style = getComputedStyle(document.documentElement);
    this.inks = {
      dots: classes.map((colour) => hue(colour.hue)),
      ground: hue("--surface"),
      line: hue("--text"),
      text: style.getPropertyValue("--text"),
      halo: style.getPropertyValue("--surface"),
      accent: style.getPropertyValue("--accent"),
    };
    this.stamps = new Map();
    this.labels = null;
    this.#lay(dots, of);
  }

  /** Draw everything. `lit` and `chosen` hold a flag per point; null if unused. */
  draw({ dots, view, of, lit, chosen, marked, brush }) {
    this.radius = radius(dots.count, view);
    this.words.fill(0);
    this.#stampAll(dots, view, of, lit, chosen);
    this.pen.putImageData(this.pixels, 0, 0);
    this.pen.setTransform(this.sharp, 0, 0, this.sharp, 0, 0);
    this.#name(dots, view);
    for (const place of marked) this.#ring(view.across(dots.x[place]), view.down(dots.y[place]));
    if (brush) this.#outline(brush);
    this.#place(dots, view);
  }

  // ── the points ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Draw dimmed points first, then the others, newest last, then selected ones. */
  #stampAll(dots, view, of, lit, chosen) {
    const some = lit || chosen;
    const back = some ? this.#stamp("dim", this.radius * 0.8) : null;
    const plain = this.#stamp("plain", this.radius);
    const strong = lit ? this.#stamp("plain", this.radius * 1.35 + 0.6) : plain;
    const ringed = this.#stamp("ringed", this.radius + 0.4);
    const [wide, high] = [view.scale * view.wide * this.sharp, view.scale * this.sharp];
    const [left, top] = [view.across(0) * this.sharp, view.down(0) * this.sharp];
    const pass = (stamp, belongs) => {
      for (let place = dots.count - 1; place >= 0; place--) {
        if (!dots.shown[place] || !belongs(place)) continue;
        this.#put(stamp, of[place], Math.round(dots.x[place] * wide + left), Math.round(dots.y[place] * high + top));
      }
    };
    if (!some) return pass(plain, () => true);
    pass(back, (place) => !lit?.[place] && !chosen?.[place]);
    if (lit) pass(strong, (place) => lit[place] && !chosen?.[place]);
    if (chosen) pass(ringed, (place) => chosen[place]);
  }

  /** Return a disc: distance from the centre, coverage, and colour by class for each pixel. */
  #stamp(kind, radius) {
    const size = Math.round(radius * this.sharp * 4) / 4;
    const name = `${kind} ${size}`;
    if (!this.stamps.has(name)) this.stamps.set(name, this.#cut(kind, size));
    return this.stamps.get(name);
  }

  #cut(kind, size) {
    const edge = { dim: 0, plain: 0.9, ringed: 1 }[kind] * this.sharp;
    const reach = Math.ceil(size + edge);
    const [dx, dy, cover, rim] = [[], [], [], []];
    for (let down = -reach; down <= reach; down++) {
      for (let right = -reach; right <= reach; right++) {
        const apart = Math.hypot(right, down);
        const coverage = Math.min(1, Math.max(0, size + edge + 0.5 - apart));
        if (coverage <= 0.02) continue;
        const within = Math.min(1, Math.max(0, size + 0.5 - apart));
        dx.push(right);
        dy.push(down);
        rim.push(1 - within);
        cover.push(Math.round(coverage * 255 * { dim: 0.55, plain: within + (1 - within) * 0.7, ringed: 1 }[kind]));
      }
    }
    const edgeInk = kind === "ringed" ? this.inks.line : this.inks.ground;
    const inks = this.inks.dots.map((ink) => {
      const fill = kind === "dim" ? mixed(ink, this.inks.ground, 0.72) : ink;
      return Uint32Array.from(rim, (part) => packed(kind === "dim" ? fill : mixed(fill, edgeInk, part)));
    });
    return { reach, dx: Int16Array.from(dx), dy: Int16Array.from(dy), cover: Uint8Array.from(cover), inks };
  }

  #put({ reach, dx, dy, cover, inks }, kind, x, y) {
    const { width, height } = this.canvas;
    if (x < -reach || y < -reach || x >= width + reach || y >= height + reach) return;
    const { words } = this;
    const ink = inks[kind];
    const isWhole = x >= reach && y >= reach && x < width - reach && y < height - reach;
    const middle = y * width + x;
    for (let pixel = 0; pixel < ink.length; pixel++) {
      if (!isWhole && outside(x + dx[pixel], width, y + dy[pixel], height)) continue;
      const at = middle + dy[pixel] * width + dx[pixel];
      words[at] = cover[pixel] === 255 ? ink[pixel] | OPAQUE : over(words[at], ink[pixel], cover[pixel]);
    }
  }

  // ── the glow ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Blur every point: the colour is the mean of its surroundings, the density their number. */
  #lay(dots, of) {
    const fields = [0, 1, 2, 3].map(() => new Float32Array(GRAIN * GRAIN));
    const along = (value) => Math.round((0.05 + (value / dots.side) * 0.9) * (GRAIN - 1));
    for (let place = 0; place < dots.count; place++) {
      if (!dots.shown[place]) continue;
      const at = along(dots.y[place]) * GRAIN + along(dots.x[place]);
      const ink = this.inks.dots[of[place]];
      fields[3][at] += 1;
      for (let part = 0; part < 3; part++) fields[part][at] += ink[part];
    }
    const [red, green, blue, many] = fields.map((field) => blurred(field, 5));
    const most = many.reduce((one, other) => Math.max(one, other), 0) || 1;
    const pen = this.glow.getContext("2d");
    const image = pen.createImageData(GRAIN, GRAIN);
    const dense = SOFT[DARK.matches ? 1 : 0];
    for (let at = 0; at < many.length; at++) {
      if (many[at] < most * 1e-4) continue;
      const alpha = dense * (1 - Math.exp((-6 * many[at]) / most)) * 255;
      image.data.set([red[at] / many[at], green[at] / many[at], blue[at] / many[at], alpha], at * 4);
    }
    pen.putImageData(image, 0, 0);
  }

  /** Move the glow with the points; it fades out when zoomed in. */
  #place(dots, view) {
    const high = (dots.side / 0.9) * view.scale;
    const wide = high * view.wide;
    const [left, top] = [view.across(0) - 0.05 * wide, view.down(0) - 0.05 * high];
    const { style } = this.glow;
    style.opacity = String(Math.max(0, Math.min(1, 1.5 - view.zoom / 4)));
    style.visibility = view.zoom > 6 ? "hidden" : "visible";
    style.transform = `translate(${left}px, ${top}px) scale(${wide / GRAIN}, ${high / GRAIN})`;
  }

  // ── the names of groups ──────────────────────────────────────────────────────────────────────────────────────────

  /** Place the names that fit, largest group first. Names out of sight take part, so that names do not flicker. */
  #name(dots, view) {
    this.labels ??= dots.clusters.map((cluster) => [this.#write(first(cluster.name)), this.#write(cluster.name)]);
    this.names = [];
    const length = view.zoom < FEWER ? 0 : 1;
    for (const group of dots.bySize) {
      if (!dots.clusters[group].shown) continue;
      const { image, wide, high } = this.labels[group][length];
      const { x, y, high: hill } = dots.clusters[group];
      const off = Math.min(MOST_ABOVE, 1.4 * hill * view.scale) + high / 2;
      const isIn = view.shows(x, y);
      const inside = (value, most) => (isIn ? Math.max(2, Math.min(most - 2, value)) : value);
      const left = inside(view.across(x) - wide / 2, view.width - wide);
      const spots = [-off, off, 0].map((step) => (
        { group, left, top: inside(view.down(y) + step - high / 2, view.height - high), wide, high }));
      const free = spots.find((spot) => !this.names.some((other) => overlap(spot, other)));
      if (!free) continue;
      this.names.push(free);
      this.pen.drawImage(image, free.left, free.top, wide, high);
    }
  }

  /** Return a name as a cached image. */
  #write(name) {
    const image = document.createElement("canvas");
    const pen = image.getContext("2d");
    pen.font = NAMED;
    const text = shortened(name, (some) => pen.measureText(some).width <= 220);
    const [wide, high] = [Math.ceil(pen.measureText(text).width) + 12, 24];
    Object.assign(image, { width: wide * this.sharp, height: high * this.sharp });
    pen.scale(this.sharp, this.sharp);
    Object.assign(pen, { font: NAMED, textBaseline: "middle", lineJoin: "round" });
    Object.assign(pen, { strokeStyle: this.inks.halo, lineWidth: 4.5 });
    pen.globalAlpha = 0.9;
    pen.strokeText(text, 6, high / 2);
    pen.globalAlpha = 1;
    pen.fillStyle = this.inks.text;
    pen.fillText(text, 6, high / 2);
    return { image, wide, high };
  }

  /** Return the group whose name is at this position; -1 if none. */
  nameAt(across, down) {
    const isThere = ({ left, top, wide, high }) =>
      across >= left && across <= left + wide && down >= top && down <= top + high;
    return this.names.find(isThere)?.group ?? -1;
  }

  // ── what is pointed at ───────────────────────────────────────────────────────────────────────────────────────────

  #ring(across, down) {
    const { pen } = this;
    for (const [wide, ink] of [[5, this.inks.halo], [2, this.inks.text]]) {
      pen.beginPath();
      pen.arc(across, down, this.radius + 4, 0, 2 * Math.PI);
      Object.assign(pen, { strokeStyle: ink, lineWidth: wide });
      pen.stroke();
    }
  }

  #outline(spots) {
    const { pen } = this;
    pen.beginPath();
    spots.forEach(([across, down]) => pen.lineTo(across, down));
    pen.closePath();
    Object.assign(pen, { strokeStyle: this.inks.accent, fillStyle: this.inks.accent, lineWidth: 1.5 });
    pen.globalAlpha = 0.1;
    pen.fill();
    pen.globalAlpha = 1;
    pen.setLineDash([5, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }
}

/** Return the radius of a point: smaller for more points, larger when zoomed in. */
function radius(count, view) {
  const own = Math.sqrt((FILLED * view.width * view.height) / (Math.max(count, 1) * Math.PI));
  return Math.min(LARGEST + 2, Math.min(LARGEST, Math.max(SMALLEST, own)) * view.zoom ** 0.3);
}

// ── pixels, as one number each: alpha, blue, green, red ────────────────────────────────────────────────────────────

const OPAQUE = 0xff000000;
const packed = ([red, green, blue]) => (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red);
const outside = (x, width, y, height) => x < 0 || x >= width || y < 0 || y >= height;

/** Blend ink over a pixel, with a coverage of 0 to 255. */
function over(pixel, ink, cover) {
  const below = pixel >>> 24;
  if (below === 0) return (ink & 0xffffff) | (cover << 24);
  const alpha = cover + Math.round((below * (255 - cover)) / 255);
  const part = Math.round((cover * 256) / alpha);
  const remainder = 256 - part;
  const outer = ((((pixel & 0xff00ff) * remainder) >>> 8) & 0xff00ff) + ((((ink & 0xff00ff) * part) >>> 8) & 0xff00ff);
  const inner = (((pixel >> 8) & 0xff) * remainder + ((ink >> 8) & 0xff) * part) >> 8;
  return (alpha << 24) | (inner << 8) | (outer & 0xff00ff);
}

/** Blur a field: three times horizontally and three times vertically. */
function blurred(field, reach) {
  let [from, to] = [field, new Float32Array(field.length)];
  for (const [step, line] of [[1, GRAIN], [GRAIN, 1]]) {
    for (let time = 0; time < 3; time++) {
      for (let start = 0; start < GRAIN; start++) spread(from, to, start * line, step, reach);
      [from, to] = [to, from];
    }
  }
  return from;
}

function spread(from, to, start, step, reach) {
  let sum = 0;
  const at = (place) => (place >= 0 && place < GRAIN ? from[start + place * step] : 0);
  for (let place = -reach; place < reach; place++) sum += at(place);
  for (let place = 0; place < GRAIN; place++) {
    sum += at(place + reach) - at(place - reach - 1);
    to[start + place * step] = sum;
  }
}

const overlap = (one, other) =>
  one.left < other.left + other.wide + APART && other.left < one.left + one.wide + APART &&
  one.top < other.top + other.high && other.top < one.top + one.high;

/** Return the first two words. */
const first = (name) => name.split(" · ").slice(0, 2).join(" · ");

/** Return as many of the words as fit. */
function shortened(name, fits) {
  const words = name.split(" · ");
  while (words.length > 1 && !fits(words.join(" · "))) words.pop();
  let text = words.join(" · ");
  while (text.length > 1 && !fits(text)) text = `${text.slice(0, -2)}…`;
  return text;
}
