/** Memories as points of the map: stored in columns, with a grid for fast look-up. */

const IN_A_CELL = 3; // points per cell if evenly spread
const CUT = 120; // characters of a text sent by the service
const MOST_CELLS = 256; // cells per side

/** Points of GET /map. `shown` marks those that are visible. */
export class Dots {
  constructor({ total, side, categories, projects, clusters, points }) {
    const count = points.id.length;
    Object.assign(this, { count, total, side, categories, projects });
    this.clusters = clusters.map(({ words, x, y }) => ({ name: clusterName(words), x, y, shown: 0 }));
    this.id = Float64Array.from(points.id);
    this.x = Float32Array.from(points.x);
    this.y = Float32Array.from(points.y);
    this.cluster = Int32Array.from(points.cluster);
    this.category = Uint16Array.from(points.category);
    this.project = Uint16Array.from(points.project);
    this.at = Float64Array.from(points.created_at, (date) => Date.parse(date));
    this.created = points.created_at;
    this.text = points.text.map((text) => (text.length < CUT ? text : `${text}…`));
    this.gone = new Uint8Array(count); // archived since the map was loaded
    this.shown = new Uint8Array(count).fill(1);
    this.place = new Map(points.id.map((id, place) => [id, place]));
    this.bySize = [...clusters.keys()].sort((one, other) => clusters[other].count - clusters[one].count);
    for (const [number, cluster] of this.clusters.entries()) cluster.high = this.#height(number, cluster.y);
    this.newest = points.id.reduce((most, id) => Math.max(most, id), 0);
    this.#file();
  }

  /** Return the mean vertical distance of a group's members from its centre. */
  #height(number, middle) {
    let [sum, count] = [0, 0];
    for (let place = 0; place < this.count; place++) {
      if (this.cluster[place] !== number) continue;
      sum += (this.y[place] - middle) ** 2;
      count++;
    }
    return Math.sqrt(sum / Math.max(count, 1));
  }

  /** Sort the points into cells: those of cell c are in `filed` from `begins[c]` to `begins[c + 1]`. */
  #file() {
    this.cells = Math.max(1, Math.min(MOST_CELLS, Math.round(Math.sqrt(this.count / IN_A_CELL))));
    const cellOf = Uint32Array.from(this.x, (x, place) => this.#along(this.y[place]) * this.cells + this.#along(x));
    this.begins = new Uint32Array(this.cells * this.cells + 1);
    for (const cell of cellOf) this.begins[cell + 1]++;
    for (let cell = 0; cell < this.cells * this.cells; cell++) this.begins[cell + 1] += this.begins[cell];
    const next = this.begins.slice();
    this.filed = new Uint32Array(this.count);
    cellOf.forEach((cell, place) => (this.filed[next[cell]++] = place));
  }

  #along(value) {
    return Math.max(0, Math.min(this.cells - 1, Math.floor((value / (this.side + 1)) * this.cells)));
  }

  /** Return the nearest visible point within reach, where x is scaled by `wide`; -1 if none. */
  nearest(x, y, reach, wide = 1) {
    let best = -1;
    let least = reach * reach;
    for (const place of this.#around(x, y, reach / Math.min(wide, 1))) {
      const apart = ((this.x[place] - x) * wide) ** 2 + (this.y[place] - y) ** 2;
      if (this.shown[place] && apart <= least) [best, least] = [place, apart];
    }
    return best;
  }

  /** Return the nearest neighbours of a point, nearest first. */
  beside(place, count) {
    const apart = (other) => (this.x[other] - this.x[place]) ** 2 + (this.y[other] - this.y[place]) ** 2;
    for (let reach = this.side / this.cells; ; reach *= 2) {
      const near = [...this.#around(this.x[place], this.y[place], reach)]
        .filter((other) => other !== place && this.shown[other] && apart(other) <= reach * reach);
      if (near.length < count && reach < 2 * this.side) continue;
      return near.sort((one, other) => apart(one) - apart(other)).slice(0, count);
    }
  }

  *#around(x, y, reach) {
    const [left, right] = [this.#along(x - reach), this.#along(x + reach)];
    const [top, bottom] = [this.#along(y - reach), this.#along(y + reach)];
    for (let row = top; row <= bottom; row++) {
      const [from, to] = [row * this.cells + left, row * this.cells + right + 1];
      for (let at = this.begins[from]; at < this.begins[to]; at++) yield this.filed[at];
    }
  }

  /** Return the visible point reached from another in a direction; -1 if none. */
  towards(place, right, down) {
    let best = -1;
    let least = Infinity;
    for (let other = 0; other < this.count; other++) {
      if (!this.shown[other] || other === place) continue;
      const [dx, dy] = [this.x[other] - this.x[place], this.y[other] - this.y[place]];
      const ahead = dx * right + dy * down;
      const aside = Math.abs(dx * down) + Math.abs(dy * right);
      if (ahead <= 0 || aside > ahead) continue;
      if (ahead + 2 * aside < least) [best, least] = [other, ahead + 2 * aside];
    }
    return best;
  }

  /** Return the visible points within an outline: [[x, y], …]. */
  within(outline) {
    const [left, right] = extent(outline.map(([x]) => x));
    const [top, bottom] = extent(outline.map(([, y]) => y));
    return this.those((place) => {
      const [x, y] = [this.x[place], this.y[place]];
      return x >= left && x <= right && y >= top && y <= bottom && encloses(outline, x, y);
    });
  }

  /** Return the visible points that satisfy a condition. */
  those(holds) {
    const indexes = [];
    for (let place = 0; place < this.count; place++) if (this.shown[place] && holds(place)) indexes.push(place);
    return indexes;
  }

  /** Return the bounding box of points: [left, top, right, bottom]. */
  box(places = null) {
    const of = (column) => extent(places ? places.map((place) => column[place]) : column);
    const [[left, right], [top, bottom]] = [of(this.x), of(this.y)];
    return [left, top, right, bottom];
  }
}

/** Return the name of a group: its words, without characters that change the text direction. */
function clusterName(words) {
  return words.map((word) => word.replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g, "")).join(" · ") || "no words";
}

function extent(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

/** Return whether a spot is inside an outline: a ray to the right crosses it an odd number of times. */
function encloses(outline, x, y) {
  let inside = false;
  let [lastX, lastY] = outline[outline.length - 1];
  for (const [nextX, nextY] of outline) {
    const crosses = (nextY > y) !== (lastY > y) && x < ((lastX - nextX) * (y - nextY)) / (lastY - nextY) + nextX;
    if (crosses) inside = !inside;
    [lastX, lastY] = [nextX, nextY];
  }
  return inside;
}
