// An array to be looked at: a slice as a picture with axes, a curve, or the values themselves.

import { address, ask } from "./api.js";
import { coastlines } from "./coast.js";
import { h, name, replace } from "./dom.js";
import { bytes, count, number, plural } from "./format.js";
import { MapView } from "./map_view.js";
import { Plot } from "./plot.js";
import { PROJECTIONS } from "./projections.js";
import { amend, current, failure, visit } from "./router.js";
import { Chart, drawSeries } from "./series.js";
import { asPython, asQuery, asSql, showCode } from "./snippets.js";
import { isMonotonic, placeText } from "./ticks.js";

export const OPTIONS = ["axes", "slice_at", "region", "flip", "scale", "low", "high", "points", "coast", "projection", "centre"];
const FRAME_MS = 140; // the least time between two pictures of an animation
const FLIPS = ["none", "columns", "rows", "both"];

const pause = (time) => new Promise((done) => setTimeout(done, time));

// The state is in the address of the page, or only here if several are on one page.
function stateOf(keep, begin) {
  if (keep) return { get: () => Object.fromEntries(OPTIONS.map((each) => [each, current().parameters[each]])), set: amend };
  let held = begin;
  return { get: () => held, set: (changes) => { held = { ...held, ...changes }; } };
}

class Instrument {
  constructor(section, { node, at, from = null, signal, keep = true, begin = {} }) {
    Object.assign(this, { section, node, at, from, signal, keep, state: stateOf(keep, begin) });
    this.plot = new Plot(this.id("plot"));
    this.controls = h("div", { class: "controls" });
    this.sliders = h("div", { class: "controls sliders" });
    this.readout = h("output", { class: "readout", id: this.id("readout") });
    this.stage = h("div", { class: "stage" });
    this.charts = h("div", { class: "charts" });
    this.below = h("div", { class: "below" });
    section.append(this.controls, this.sliders, this.stage, this.readout, this.charts, this.below);
    this.latest = 0;
    this.playing = null;
    this.series = [];
    this.listen();
  }

  // Names for elements, unless several instruments are on one page.
  id(text) {
    return this.keep ? text : null;
  }

  question(options = this.state.get()) {
    const { axes, slice_at, region, flip, scale, low, high } = options;
    return { at: this.at, path: this.node.path, from: this.from, axes, slice_at, region, flip, scale, low, high, ...this.frozen };
  }

  change(changes, { keepControls = false } = {}) {
    this.section.dataset.state = "loading";
    this.state.set(changes);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.draw({ keepControls }), 60);
  }

  async draw({ keepControls = false, quick = false } = {}) {
    const own = ++this.latest;
    const question = this.question();
    try {
      const found = await ask("preview", question, this.signal);
      if (own !== this.latest) return;
      if (found.problem) {
        replace(this.stage, h("p", { class: "notice", id: this.id("preview-problem") }, h("bdi", {}, found.problem)));
        return;
      }
      const isPicture = found.is_number && found.axes.length > 1;
      const image = isPicture ? await this.load(question) : null;
      const lines = isPicture && this.hasCoast(found) ? await coastlines() : null;
      if (own !== this.latest) return;
      Object.assign(this, { found, numbers: null });
      if (!keepControls) this.drawControls(isPicture);
      this.drawSliders(keepControls);
      if (isPicture) this.drawPicture(image, lines);
      else this.drawCurve();
      this.drawFacts();
      if (quick) return;
      if (isPicture) await this.follow(question, own);
      this.section.dataset.state = "ready";
    } catch (error) {
      if (!this.signal.aborted && own === this.latest) {
        replace(this.stage, failure(error));
        this.section.dataset.state = "ready";
      }
    }
  }

  async load(question) {
    const image = new Image();
    image.src = address("preview.png", question);
    await image.decode();
    return image;
  }

  // What may come after the picture: its numbers, and the curves at the points that were clicked.
  async follow(question, own) {
    const answer = await fetch(address("preview.bin", question), { signal: this.signal });
    const data = await answer.arrayBuffer();
    if (own !== this.latest || !answer.ok) return;
    this.numbers = this.found.value_type === "f4" ? new Float32Array(data) : new Float64Array(data);
    await this.drawPoints(question);
  }

  drawPicture(image, lines) {
    if (this.stage.firstChild !== this.plot.canvas) replace(this.stage, this.plot.canvas);
    this.plot.points = this.points();
    this.plot.show(this.found, image, { lines, title: this.title(), map: this.plot.isTurning ? this.plot.map : this.mapView() });
    const { height, width, low, high, units } = this.found;
    const projection = this.plot.map ? `, ${this.plot.map.projection.label}` : "";
    this.plot.canvas.setAttribute("aria-label", `${this.title()}${projection}: ${height} by ${width} values from ${number(low)} to ${number(high)} ${units}. Arrows move, Enter takes a point, Escape shows the whole.`);
    this.plot.canvas.classList.toggle("turns", this.plot.map !== null);
    if (!this.readout.textContent) this.say(null);
  }

  title() {
    const { long_name: long, units, dimensions, axes } = this.found;
    const own = long || this.node.path.slice(this.node.path.lastIndexOf("/") + 1);
    const places = dimensions.filter((each, axis) => !axes.includes(axis) && each.place !== null).map((each) => (each.kind === "time" ? each.place : `${each.name} ${placeText(each)}`));
    return [`${this.from ? "Difference of " : ""}${own}${units ? ` [${units}]` : ""}`, ...places].join("  ·  ");
  }

  drawCurve() {
    replace(this.charts);
    if (!this.found.line) {
      replace(this.stage);
      return;
    }
    const chart = new Chart({ curves: [this.found], labels: [this.found.long_name || this.node.path.slice(this.node.path.lastIndexOf("/") + 1)], height: 320 });
    this.series = [chart];
    replace(this.stage, chart.element);
    chart.draw();
  }

  // Points, zoom, and what is under the pointer.

  listen() {
    const { canvas } = this.plot;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => { if (this.plot.found && event.button === 0 && this.plot.cellAt(...place(event))) this.start = place(event); });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.plot.found) return;
      const at = place(event);
      this.say(this.plot.cellAt(...at));
      const isDragging = this.plot.drag || this.plot.isTurning;
      if (!this.start || (!isDragging && Math.hypot(at[0] - this.start[0], at[1] - this.start[1]) <= 5)) return;
      canvas.setPointerCapture(event.pointerId);
      if (this.plot.map) this.turn(at);
      else this.plot.drag = [...this.start, ...at];
      this.plot.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!this.start) return;
      const [start, drag, isTurning] = [this.start, this.plot.drag, this.plot.isTurning];
      this.release();
      this.dragged = Boolean(drag) || isTurning;
      if (drag) this.zoom(this.plot.cellAt(...start, { clamp: true }), this.plot.cellAt(...place(event), { clamp: true }));
      if (isTurning) {
        this.recentre(this.plot.map.centre);
        this.drawControls(true);
      }
    });
    canvas.addEventListener("click", (event) => { if (this.plot.found && !this.dragged && event.detail < 2) this.take(this.plot.cellAt(...place(event))); });
    canvas.addEventListener("pointercancel", () => this.release());
    canvas.addEventListener("pointerleave", () => this.say(null));
    canvas.addEventListener("dblclick", () => this.whole());
    canvas.addEventListener("keydown", (event) => this.key(event));
    const redraw = () => { this.plot.draw(); this.series.forEach((each) => each.draw()); };
    new ResizeObserver(redraw).observe(this.stage);
    const themes = new MutationObserver(redraw);
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    document.addEventListener("fullscreenchange", redraw);
    this.signal.addEventListener("abort", () => { this.playing = null; themes.disconnect(); document.removeEventListener("fullscreenchange", redraw); });
  }

  release() {
    this.start = this.plot.drag = null;
    this.plot.isTurning = false;
  }

  // Map projections

  // The projection that is chosen; null for rows and columns as they are.
  mapView() {
    const { projection, centre } = this.state.get();
    if (!this.canProject || !Object.hasOwn(PROJECTIONS, projection ?? "")) return null;
    const { along, axes, dimensions } = this.found;
    const key = JSON.stringify([projection, centre, axes, along]);
    if (this.map?.key !== key) {
      const isAcross = dimensions[axes[1]].kind === "longitude";
      const [latitudes, longitudes] = (isAcross ? along : [...along].reverse()).map((each) => each.numbers);
      const given = (centre ?? "").split(",").map(parseFloat);
      const isGiven = given.length === 2 && given.every(Number.isFinite);
      this.map = { key, view: new MapView(projection, isGiven ? given : null, { longitudes, latitudes, isAcross }) };
    }
    return this.map.view;
  }

  turn(at) {
    this.plot.isTurning = true;
    this.plot.map = this.plot.map.turned(this.start, at);
    this.start = at;
  }

  // Moves the centre of the map; nothing has to be read for that.
  recentre(centre) {
    this.state.set({ centre: centre.map((each) => Number(each.toFixed(1))).join(",") });
    this.plot.map = this.mapView();
    this.plot.draw();
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const { plot } = this;
    if (!plot.found) return;
    if (event.key in moves) {
      const [row, column] = plot.cursor ?? plot.middle();
      const far = event.shiftKey ? 10 : 1;
      plot.cursor = [Math.max(0, Math.min(row + far * moves[event.key][0], plot.found.height - 1)), Math.max(0, Math.min(column + far * moves[event.key][1], plot.found.width - 1))];
      plot.draw();
      this.say(plot.cursor);
    } else if (event.key === "Enter" && plot.cursor) this.take(plot.cursor);
    else if (event.key === "Escape" && this.state.get().region) this.whole();
    else return;
    event.preventDefault();
  }

  value([row, column]) {
    return this.numbers?.[row * this.found.width + column];
  }

  say(cell) {
    if (!cell) {
      this.readout.textContent = `Point for a value, click for its series, click again to compare two points, drag to ${this.plot.map ? "turn" : "zoom"}.`;
      return;
    }
    const value = this.value(cell);
    const shown = value === undefined ? "…" : Number.isNaN(value) ? "missing" : `${number(this.found.value_type === "f4" ? Number(value.toPrecision(7)) : value)} ${this.found.units}`;
    const index = this.found.axes.map((axis, which) => this.plot.index(which, cell[which]));
    replace(this.readout, h("strong", {}, shown), h("bdi", {}, `  ${this.plot.coordinate(0, cell[0])},  ${this.plot.coordinate(1, cell[1])}`), h("span", { class: "quiet" }, `  [${index.join(", ")}]`));
  }

  points() {
    const given = this.state.get().points ?? "";
    return given.split(";").map((each) => each.split(",").map(Number)).filter((each) => each.length === 2 && each.every(Number.isInteger));
  }

  take(cell) {
    if (!cell) return;
    const point = cell.map((each, which) => this.plot.index(which, each));
    const points = [...this.points(), point].slice(-2);
    this.state.set({ points: points.map((each) => each.join(",")).join(";") });
    this.plot.points = points;
    this.plot.draw();
    this.section.dataset.state = "loading";
    this.drawPoints(this.question()).then(() => { this.section.dataset.state = "ready"; });
  }

  async drawPoints(question) {
    const points = this.points().filter((point) => point.every((index, which) => index < this.found.shape[this.found.axes[which]]));
    if (!points.length) {
      this.series = [];
      replace(this.charts);
      return;
    }
    const cell = (point) => this.plot.cellOf(point);
    const labels = points.map((point, at) => `${"AB"[at]} ${cell(point) ? [0, 1].map((which) => this.plot.coordinate(which, cell(point)[which])).join(", ") : point.join(", ")}`);
    const section = h("div", {});
    const forget = h("button", { type: "button", onclick: () => { this.state.set({ points: null }); this.plot.points = []; this.plot.draw(); this.drawPoints(question); } }, "Remove points");
    replace(this.charts, h("h2", {}, points.length > 1 ? "At A and B" : "At A", " ", forget), section);
    try {
      this.series = await drawSeries(section, { question, found: this.found, points, labels, signal: this.signal, choose: (axis, index) => this.change({ slice_at: this.placesWith(axis, index) }, { keepControls: true }) });
    } catch (error) {
      if (!this.signal.aborted) replace(section, failure(error));
    }
  }

  zoom(one, other) {
    const region = [0, 1].flatMap((which) => {
      const ends = [this.plot.index(which, one[which]), this.plot.index(which, other[which])].sort((a, b) => a - b);
      return [ends[0], Math.min(ends[1] + this.found.steps[which], this.found.shape[this.found.axes[which]])];
    });
    this.plot.cursor = null;
    this.change({ region: region.join(",") });
  }

  whole() {
    if (this.state.get().region) this.change({ region: null });
  }

  // Controls

  hasCoast(found) {
    const kinds = found.axes.map((axis) => found.dimensions[axis].kind).sort().join();
    const isKnown = found.along.every((each) => each && !each.texts && each.numbers.length > 1 && each.numbers.every((value) => value !== null));
    this.isMap = kinds === "latitude,longitude" && isKnown;
    this.canProject = this.isMap && found.along.every((each) => isMonotonic(each.numbers));
    return this.isMap && this.state.get().coast !== "no";
  }

  button(label, text, act, attributes = {}) {
    return h("button", { type: "button", title: label, "aria-label": label, onclick: act, ...attributes }, text);
  }

  drawControls(isPicture) {
    replace(this.controls, isPicture ? [this.axisPicker(), this.turning(), this.scalePicker(), this.projectionPicker(), this.toggles()] : null, this.saving(isPicture));
  }

  dimension(axis) {
    return this.node.dimension_names?.[axis] ?? `dimension ${axis}`;
  }

  axisPicker() {
    const { shape } = this.node;
    const pairs = shape.flatMap((_, one) => shape.map((__, other) => [one, other])).filter(([one, other]) => one !== other);
    const now = this.found.axes.join(",");
    const select = h("select", { "aria-label": "Dimensions of the picture", id: this.id("axes"), onchange: () => this.change({ axes: select.value, region: null, points: null, flip: null }) }, pairs.map((pair) => h("option", { value: pair.join(","), selected: pair.join(",") === now }, pair.map((axis) => this.dimension(axis)).join(" × "))));
    return h("label", {}, h("span", {}, "Show"), select);
  }

  turning() {
    const { axes, flip } = this.found;
    const flipped = (which) => FLIPS[(flip[0] !== (which === 0) ? 2 : 0) + (flip[1] !== (which === 1) ? 1 : 0)];
    const { region, points } = this.state.get();
    const swapped = () => ({ axes: [axes[1], axes[0]].join(","), flip: null, region: region ? region.split(",").slice(2).concat(region.split(",").slice(0, 2)).join(",") : null, points: points ? points.split(";").map((each) => each.split(",").reverse().join(",")).join(";") : null });
    return h("span", { class: "cluster" },
      this.button("Flip rows: bottom up", "↕", () => this.change({ flip: flipped(0) }), { id: this.id("flip-rows"), "aria-pressed": String(flip[0]) }),
      this.button("Flip columns: right to left", "↔", () => this.change({ flip: flipped(1) }), { id: this.id("flip-columns"), "aria-pressed": String(flip[1]) }),
      this.button("Swap rows and columns", "⤡", () => this.change(swapped()), { id: this.id("swap") }));
  }

  scalePicker() {
    const { scale, scales } = this.found;
    const wished = this.state.get();
    const select = h("select", { "aria-label": "Colours", id: this.id("scale"), onchange: () => this.change({ scale: select.value }) }, scales.map((each) => h("option", { value: each, selected: each === scale }, each)));
    const limit = (key, label, now) => {
      const field = h("input", { type: "number", step: "any", "aria-label": `${label} value of the colours`, placeholder: number(now), value: wished[key] ?? "", dataset: { limit: key }, onchange: () => this.change({ [key]: field.value || null }) });
      return field;
    };
    return h("span", { class: "cluster limits" }, select, limit("low", "Lowest", this.found.low), "to", limit("high", "Highest", this.found.high));
  }

  projectionPicker() {
    if (!this.canProject) return null;
    const map = this.mapView();
    const options = [["", "Equirectangular"], ...Object.entries(PROJECTIONS).map(([key, each]) => [key, each.label])];
    const select = h("select", { "aria-label": "Map projection", id: this.id("projection"), onchange: () => this.change({ projection: select.value || null, centre: null }) }, options.map(([key, label]) => h("option", { value: key, selected: key === (map?.name ?? "") }, label)));
    const angle = (which, label, most) => {
      const field = h("input", { type: "number", step: "any", min: -most, max: most, "aria-label": `${label} of the map's centre`, value: Number(map.centre[which].toFixed(1)), dataset: { centre: label.toLowerCase() }, onchange: () => { if (field.value && field.reportValidity()) this.recentre(this.plot.map.centre.map((each, at) => (at === which ? Number(field.value) : each))); } });
      return field;
    };
    return h("span", { class: "cluster centre" }, h("label", {}, h("span", {}, "Map"), select), map ? ["centre", angle(0, "Longitude", 180), map.projection.tilts ? angle(1, "Latitude", 90) : null] : null);
  }

  toggles() {
    const { region, coast } = this.state.get();
    return h("span", { class: "cluster" },
      this.isMap ? this.button("Coastlines", "Coastlines", () => this.change({ coast: coast === "no" ? null : "no" }), { id: this.id("coast"), "aria-pressed": String(coast !== "no") }) : null,
      region ? this.button("Show the whole slice", "Whole", () => this.whole(), { id: this.id("whole") }) : null,
      this.button("Full screen", "Full screen", () => (document.fullscreenElement ? document.exitFullscreen() : this.section.requestFullscreen()), { id: this.id("full") }));
  }

  saving(isPicture) {
    const file = `${this.node.path.slice(1).replaceAll("/", "-").replaceAll(/[^\w.-]/g, "_").slice(0, 60) || "array"}`;
    const download = (kind, label) => h("a", { href: address(`preview.${kind}`, this.question()), download: `${file}.${kind}`, id: this.id(`save-${kind}`), onclick: (event) => { event.currentTarget.href = address(`preview.${kind}`, this.question()); } }, label);
    const menu = h("details", { class: "menu" }, h("summary", { id: this.id("save") }, "Save"), h("div", { class: "items" },
      isPicture ? this.button("Picture with axes as PNG", "Picture (PNG)", () => this.savePicture(`${file}.png`), { id: this.id("save-png") }) : null,
      this.found.is_number ? download("csv", "Values (CSV)") : null,
      this.found.is_number && this.found.has_netcdf ? download("nc", "Values (NetCDF)") : null,
      this.button("Copy as Python", "Copy as Python", () => this.copy("Python", asPython), { id: this.id("copy-python") }),
      this.button("Copy as SQL", "Copy as SQL", () => this.copy("SQL", asSql), { id: this.id("copy-sql") }),
      this.button("Open as a query in SQL", "Open in SQL", () => visit("/sql", { at: this.at, q: asQuery(this) }), { id: this.id("open-sql") })));
    return menu;
  }

  savePicture(file) {
    this.plot.canvas.toBlob((blob) => {
      const url = URL.createObjectURL(blob);
      h("a", { href: url, download: file }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    });
  }

  async copy(language, make) {
    try {
      const { location } = await ask("repository", {}, this.signal);
      showCode(this.section, language, make({ location, at: this.at, from: this.from, node: this.node, found: this.found }), this.id("snippet"));
    } catch (error) {
      if (!this.signal.aborted) this.section.append(failure(error));
    }
  }

  // Sliders and animation

  placesWith(axis, value) {
    return this.found.at.map((place, other) => (this.found.axes.includes(other) ? "*" : other === axis ? value : place)).join(",");
  }

  drawSliders(keep) {
    if (keep && this.sliders.children.length) {
      for (const each of this.sliders.querySelectorAll("input[type=range]")) this.label(each);
      return;
    }
    replace(this.sliders, this.node.shape.map((length, axis) => (this.found.axes.includes(axis) || length < 2 ? null : this.slider(axis, Math.min(length, this.found.shape[axis])))));
    for (const each of this.sliders.querySelectorAll("input[type=range]")) this.label(each);
  }

  slider(axis, length) {
    const slider = h("input", { type: "range", min: 0, max: length - 1, step: 1, value: this.found.at[axis], "aria-label": `Position in ${this.dimension(axis)}`, dataset: { axis, length }, oninput: () => { output.textContent = `${slider.value} of ${count(length)}`; this.change({ slice_at: this.placesWith(axis, slider.value) }, { keepControls: true }); } });
    const output = h("output", {});
    const play = this.button(`Play along ${this.dimension(axis)}`, "▶", () => this.play(axis, length, play), { class: "icon play" });
    return h("div", { class: "slider" }, play, h("label", {}, name(this.dimension(axis)), slider), output, h("bdi", { class: "coordinate" }));
  }

  label(slider) {
    const axis = Number(slider.dataset.axis);
    const [output, place] = [slider.closest(".slider").querySelector("output"), slider.closest(".slider").querySelector(".coordinate")];
    if (document.activeElement !== slider || this.playing) slider.value = this.found.at[axis];
    output.textContent = `${this.found.at[axis]} of ${count(Number(slider.dataset.length))}`;
    place.textContent = placeText(this.found.dimensions[axis]) ?? "";
  }

  // The colours keep their values while the pictures change.
  async play(axis, length, button) {
    if (this.playing) {
      this.playing = null;
      return;
    }
    const own = (this.playing = {});
    this.frozen = { low: this.found.low, high: this.found.high, scale: this.found.scale };
    button.textContent = "⏸";
    this.section.dataset.state = "playing";
    while (this.playing === own && !this.signal.aborted && this.section.isConnected) {
      const begun = performance.now();
      this.state.set({ slice_at: this.placesWith(axis, (this.found.at[axis] + 1) % length) });
      await this.draw({ keepControls: true, quick: true });
      await pause(Math.max(0, FRAME_MS - (performance.now() - begun)));
    }
    this.frozen = null;
    button.textContent = "▶";
    if (!this.signal.aborted) await this.draw({ keepControls: true });
  }

  // Numbers, and what they are of.

  drawFacts() {
    const { found } = this;
    const cells = [["min", number(found.min)], ["max", number(found.max)], ["mean", number(found.mean)], ["values", count(found.valid)], ["missing", count(found.missing)]];
    if (found.changed !== null) cells.unshift(["changed", count(found.changed)]);
    const isWhole = found.axes.every((axis, which) => found.region[which][0] === 0 && found.region[which][1] === found.shape[axis]);
    const part = isWhole ? "slice" : "region";
    const thinned = found.steps.some((each) => each > 1) ? `every ${found.steps.join(" × ")}-th value` : "every value";
    const of = found.is_exact ? `Statistics of the whole ${part}` : `Statistics of a sample of the ${part}: ${thinned}`;
    const drawn = found.axes.length && found.is_number ? `${found.axes.length > 1 ? "the picture" : "the curve"} shows ${thinned}` : "";
    replace(this.below,
      h("dl", { class: "statistics", id: this.id("statistics") }, cells.map(([key, value]) => h("div", { dataset: { key } }, h("dt", {}, key), h("dd", {}, value)))),
      h("p", { class: "quiet", id: this.id("preview-read") }, [of, drawn, `${plural(found.chunks_read, "chunk")} read, ${bytes(found.bytes_read)}`].filter(Boolean).join("; ")),
      this.texts());
  }

  texts() {
    const { texts, is_number: isNumber, height, width } = this.found;
    if (!texts.length) return null;
    return h("details", { open: !isNumber }, h("summary", {}, texts.length < height * width ? `The first ${plural(texts.length, "value")}` : plural(texts.length, "value")), h("ol", { class: "values-list", start: 0 }, texts.map((each) => h("li", {}, h("bdi", {}, each)))));
  }
}

export async function drawInstrument(section, options) {
  if (options.node.shape.some((length) => length === 0)) {
    section.append(h("p", { class: "quiet" }, "The array is empty."));
    return;
  }
  await new Instrument(section, options).draw();
}
