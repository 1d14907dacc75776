// A map of an array's chunks, coloured on the server, however many there are.

import { address, ask } from "./api.js";
import { h, name, replace } from "./dom.js";
import { bytes, count, plural, shortId } from "./format.js";
import { amend, current, failure, link } from "./router.js";

const CLOSER = 48; // rows and columns of a window after looking closer
const LARGEST = 22; // pixels of a cell

const edge = (cell, length, cells) => Math.ceil((cell * length) / cells);

class ChunkMap {
  constructor(section, { at, path, grid, names, signal, from = null, keep = true }) {
    Object.assign(this, { section, at, path, grid, names, signal, from, keep });
    this.state = keep ? pick(current().parameters) : {};
    if (from) this.state.by = "change";
    this.controls = h("div", { class: "controls" });
    this.image = h("img", { class: "picture", alt: "" });
    this.cursor = h("i", { class: "cursor", hidden: true });
    this.padding = h("i", { class: "padding", hidden: true });
    this.frame = h("div", { class: "frame map", tabindex: 0, role: "application", "aria-label": "Chunk map: arrows move, Enter shows a chunk or looks closer, Escape looks from afar", onclick: (event) => this.click(event), onmousemove: (event) => this.hover(event), onmouseleave: () => this.say(""), onkeydown: (event) => this.key(event) }, this.image, this.padding, this.cursor);
    this.status = h("p", { class: "quiet status", "aria-live": "polite" });
    this.legend = h("ul", { class: "legend" });
    this.chosen = h("div", { class: "chunk" });
    this.section.append(this.controls, h("div", { class: "map-body" }, h("div", {}, this.frame, this.status), this.legend), this.chosen);
    this.cell = [0, 0];
  }

  question() {
    const { by, map_axes, chunk_at, window } = this.state;
    return { at: this.at, path: this.path, by, map_axes, chunk_at, window, from: this.from };
  }

  change(changes) {
    this.state = { ...this.state, ...changes };
    if (this.keep) amend(Object.fromEntries(Object.keys(changes).map((key) => [key, this.state[key] ?? null])));
    return this.draw();
  }

  async draw() {
    this.section.dataset.state = "loading";
    const own = (this.latest = (this.latest ?? 0) + 1);
    try {
      const found = await ask("chunk-map", this.question(), this.signal);
      if (own !== this.latest) return;
      this.found = found;
      this.image.src = address("chunk-map.png", this.question());
      await this.image.decode().catch(() => null);
      if (own !== this.latest) return;
      this.paint();
      if (this.state.chunk) await this.showChunk(this.state.chunk.split(",").map(Number));
      this.section.dataset.state = "ready";
    } catch (error) {
      if (!this.signal.aborted) replace(this.chosen, failure(error));
    }
  }

  paint() {
    const { width, height, window, rows, columns } = this.found;
    const room = Math.max(160, Math.min(560, this.section.clientWidth - 40));
    const across = Math.min(LARGEST, room / width);
    const down = Math.max(1, Math.min(LARGEST, 380 / height));
    this.frame.style.width = `${Math.round(width * across)}px`;
    this.frame.style.height = `${Math.round(height * down)}px`;
    this.frame.classList.toggle("fine", across < 6 || down < 6);
    this.frame.style.setProperty("--across", `${100 / width}%`);
    this.frame.style.setProperty("--down", `${100 / height}%`);
    const whole = window[0] === 0 && window[1] === rows && window[2] === 0 && window[3] === columns;
    this.image.alt = `Chunks in rows ${window[0]} to ${window[1] - 1} and columns ${window[2]} to ${window[3] - 1}`;
    replace(this.controls, this.colourPicker(), this.axisPicker(), this.sliders(), whole ? null : h("button", { type: "button", onclick: () => this.change({ window: null }) }, "Whole map"));
    replace(this.legend, this.found.legend.filter((each) => each.chunks || each.label === "missing").map((each) => this.legendItem(each)));
    this.cover();
    this.say("");
  }

  legendItem(each) {
    const swatch = h("span", { class: `swatch${each.colour ? "" : " none"}`, style: each.colour ? { background: each.colour } : {} });
    const label = each.id ? h("a", { href: link("/commits", { commit: each.id }) }, name(each.label || shortId(each.id))) : each.label;
    return h("li", { dataset: { label: each.label, chunks: each.chunks } }, swatch, h("span", { class: "what" }, label), h("span", { class: "number quiet" }, count(each.chunks)));
  }

  colourPicker() {
    if (this.from) return null;
    const option = (value, text) => h("option", { value, selected: value === (this.state.by ?? "kind") }, text);
    const select = h("select", { "aria-label": "Colour chunks by", id: "by", onchange: () => this.change({ by: select.value }) }, option("kind", "kind"), option("commit", "the commit that wrote it"));
    return h("label", {}, h("span", {}, "Colour by"), select);
  }

  axisPicker() {
    if (this.grid.length < 2) return null;
    const pairs = [["wrapped", "all, wrapped"]];
    this.grid.forEach((_, one) => this.grid.forEach((__, other) => { if (one !== other) pairs.push([`${one},${other}`, `${this.label(one)} × ${this.label(other)}`]); }));
    const now = this.found.axes ? this.found.axes.join(",") : "wrapped";
    const select = h("select", { "aria-label": "Dimensions of the map", onchange: () => this.change({ map_axes: select.value, chunk_at: null, window: null }) }, pairs.map(([value, text]) => h("option", { value, selected: value === now }, text)));
    return h("label", {}, h("span", {}, "Map"), select);
  }

  label(axis) {
    return this.names?.[axis] ?? `dimension ${axis}`;
  }

  sliders() {
    if (!this.found.axes) return null;
    return this.grid.map((length, axis) => {
      if (this.found.axes.includes(axis) || length < 2) return null;
      const place = this.found.at[axis];
      const text = (value) => (value < 0 ? "all" : `${value} of ${count(length)}`);
      const output = h("output", {}, text(place ?? -1));
      const slider = h("input", { type: "range", min: -1, max: length - 1, step: 1, value: place ?? -1, "aria-label": `Chunk along ${this.label(axis)}; the first position is all of them`, onchange: () => this.change({ chunk_at: this.found.at.map((each, other) => (other === axis ? (slider.value < 0 ? "*" : slider.value) : each ?? "*")).join(",") }), oninput: () => { output.textContent = text(Number(slider.value)); } });
      return h("label", { class: "slider" }, name(this.label(axis)), slider, output);
    });
  }

  // First and last row and column, exclusive, of what a cell stands for.
  extent([row, column]) {
    const { window: [r0, r1, c0, c1], height, width } = this.found;
    return [r0 + edge(row, r1 - r0, height), r0 + edge(row + 1, r1 - r0, height), c0 + edge(column, c1 - c0, width), c0 + edge(column + 1, c1 - c0, width)];
  }

  index(row, column) {
    if (this.found.axes) return this.grid.map((_, axis) => (axis === this.found.axes[0] ? row : axis === this.found.axes[1] ? column : this.found.at[axis] ?? 0));
    let position = row * this.found.columns + column;
    const index = [];
    for (let axis = this.grid.length - 1; axis >= 0; axis -= 1) {
      index.unshift(position % this.grid[axis]);
      position = Math.floor(position / this.grid[axis]);
    }
    return position ? null : index;
  }

  // Whether cells stand for several chunks.
  isCoarse() {
    const { window: [r0, r1, c0, c1], height, width } = this.found;
    return r1 - r0 > height || c1 - c0 > width;
  }

  under(event) {
    const box = this.frame.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.found.height);
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.found.width);
    return [Math.max(0, Math.min(row, this.found.height - 1)), Math.max(0, Math.min(column, this.found.width - 1))];
  }

  hover(event) {
    if (this.found) this.say(this.describe(this.under(event)));
  }

  describe(cell) {
    const [r0, r1, c0, c1] = this.extent(cell);
    const chunks = (r1 - r0) * (c1 - c0);
    if (!this.isCoarse()) return `chunk ${this.index(r0, c0)?.join(", ") ?? "–"}`;
    return `rows ${count(r0)}–${count(r1 - 1)}, columns ${count(c0)}–${count(c1 - 1)}: ${plural(chunks, "place")}; click to look closer`;
  }

  say(text) {
    this.status.textContent = text || this.caption();
  }

  caption() {
    const { window: [r0, r1, c0, c1], rows, columns } = this.found;
    const part = (label, first, last, all) => (last - first === all ? plural(all, label) : `${label}s ${count(first)}–${count(last - 1)} of ${count(all)}`);
    return `${part("row", r0, r1, rows)} × ${part("column", c0, c1, columns)}`;
  }

  // Covers the cells at the end that stand for no chunk, so that they do not look like missing ones.
  cover() {
    const { padding, width, height } = this.found;
    this.padding.hidden = !padding;
    Object.assign(this.padding.style, { right: 0, bottom: 0, width: `${(padding / width) * 100}%`, height: `${100 / height}%` });
  }

  click(event) {
    if (!this.found) return;
    this.point(this.under(event));
    this.enter();
  }

  point(cell) {
    this.cell = cell;
    Object.assign(this.cursor.style, { top: `${(cell[0] / this.found.height) * 100}%`, left: `${(cell[1] / this.found.width) * 100}%`, width: `${100 / this.found.width}%`, height: `${100 / this.found.height}%` });
    this.cursor.hidden = false;
    this.say(this.describe(cell));
  }

  enter() {
    const [r0, r1, c0, c1] = this.extent(this.cell);
    if (this.isCoarse()) {
      const around = (middle, most) => { const start = Math.max(0, Math.min(middle - CLOSER / 2, most - CLOSER)); return [start, Math.min(most, start + CLOSER)]; };
      const middle = [Math.floor((r0 + r1) / 2), Math.floor((c0 + c1) / 2)];
      const rows = around(middle[0], this.found.rows);
      const columns = around(middle[1], this.found.columns);
      this.cursor.hidden = true;
      this.cell = [middle[0] - rows[0], middle[1] - columns[0]]; // where the keyboard goes on
      return this.change({ window: [...rows, ...columns].join(",") });
    }
    const index = this.index(r0, c0);
    if (!index) return null;
    this.state.chunk = index.join(",");
    if (this.keep) amend({ chunk: this.state.chunk });
    return this.showChunk(index);
  }

  async showChunk(index) {
    try {
      const found = await ask("chunk", { at: this.at, path: this.path, index: index.join(",") }, this.signal);
      const rows = [["Kind", h("span", {}, h("span", { class: `swatch ${found.kind}` }), found.kind)], found.kind === "missing" ? null : ["Size", bytes(found.bytes)], found.object ? ["Object", h("code", {}, h("bdi", {}, found.object))] : null, found.object ? ["From byte", count(found.offset)] : null, found.commit ? ["Written by", h("a", { href: link("/commits", { commit: found.commit }) }, h("code", {}, found.commit))] : null];
      replace(this.chosen, h("h3", {}, `Chunk ${index.join(", ")}`), h("dl", { class: "facts", id: "chunk-facts" }, rows.filter(Boolean).map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])));
    } catch (error) {
      if (!this.signal.aborted) replace(this.chosen, failure(error));
    }
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -this.found?.width], End: [0, this.found?.width] };
    if (!this.found) return;
    if (event.key in moves) {
      const step = this.cursor.hidden ? [0, 0] : moves[event.key];
      this.point([Math.max(0, Math.min(this.cell[0] + step[0], this.found.height - 1)), Math.max(0, Math.min(this.cell[1] + step[1], this.found.width - 1))]);
    } else if (event.key === "Enter") this.enter();
    else if (event.key === "Escape") this.change({ window: null });
    else return;
    event.preventDefault();
  }
}

function pick(parameters) {
  return Object.fromEntries(["by", "map_axes", "chunk_at", "window", "chunk"].map((key) => [key, parameters[key]]));
}

export async function drawChunks(section, options) {
  if (options.grid.some((each) => each === 0)) {
    section.append(h("p", { class: "quiet" }, "The array has no chunks."));
    return;
  }
  await new ChunkMap(section, options).draw();
}
