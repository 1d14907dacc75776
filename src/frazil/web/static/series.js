// Curves along one dimension: of an array that has no other, or at points that were clicked.

import { ask } from "./api.js";
import { h, name, replace } from "./dom.js";
import { number } from "./format.js";
import { axisTitle, colour, fit } from "./plot.js";
import { axisTicks, roundNumbers, tickLabels } from "./ticks.js";

const INKS = ["accent", "bad"];

// `curves` are answers to the same question at different points; `mark` is the position that is shown now.
export class Chart {
  constructor({ curves, labels, height = 190, mark = null, choose = null }) {
    Object.assign(this, { curves, labels, height, mark, choose });
    this.found = curves[0];
    this.canvas = h("canvas", { class: "chart", role: "img", "aria-label": `Curve along ${this.dimension.label}`, onmousemove: (event) => this.hover(event), onmouseleave: () => this.say(null), onclick: (event) => this.click(event) });
    this.readout = h("output", { class: "readout" });
    this.element = h("div", { class: "series" }, this.canvas, this.readout);
    this.say(null);
  }

  get dimension() {
    return this.found.dimensions[this.found.axes[0]];
  }

  limits() {
    const values = this.curves.flatMap((each) => each.line.filter((value) => value !== null));
    if (!values.length) return [0, 1];
    let [low, high] = values.reduce(([one, other], value) => [Math.min(one, value), Math.max(other, value)], [Infinity, -Infinity]);
    if (low === high) [low, high] = [low - 1, high + 1];
    return [low - (high - low) * 0.04, high + (high - low) * 0.04];
  }

  draw() {
    const width = Math.max(260, this.element.parentElement.clientWidth);
    const pen = fit(this.canvas, width, this.height);
    const box = { left: 64, top: 10, across: width - 64 - 14, down: this.height - 10 - 40 };
    const [low, high] = this.limits();
    const cells = this.found.line.length;
    Object.assign(this, { box, cells });
    const x = (cell) => box.left + ((cell + 0.5) / cells) * box.across;
    const y = (value) => box.top + (1 - (value - low) / (high - low)) * box.down;
    this.drawAxes(pen, low, high, y);
    if (this.mark !== null) {
      pen.strokeStyle = colour("warn");
      pen.setLineDash([4, 3]);
      pen.beginPath();
      const at = x((this.mark - this.found.region[0][0]) / this.found.steps[0]);
      pen.moveTo(at, box.top);
      pen.lineTo(at, box.top + box.down);
      pen.stroke();
      pen.setLineDash([]);
    }
    this.curves.forEach((curve, which) => {
      pen.strokeStyle = pen.fillStyle = colour(INKS[which]);
      pen.lineWidth = 1.6;
      pen.beginPath();
      let isDown = false;
      curve.line.forEach((value, cell) => {
        if (value === null) { isDown = false; return; }
        if (isDown) pen.lineTo(x(cell), y(value));
        else pen.moveTo(x(cell), y(value));
        isDown = true;
      });
      pen.stroke();
      if (cells <= 60) curve.line.forEach((value, cell) => { if (value !== null) { pen.beginPath(); pen.arc(x(cell), y(value), 2.2, 0, 7); pen.fill(); } });
    });
  }

  drawAxes(pen, low, high, y) {
    const { left, top, across, down } = this.box;
    const beside = roundNumbers(low, high, Math.max(2, Math.floor(down / 32)));
    const labels = tickLabels(beside);
    pen.strokeStyle = colour("rule");
    pen.fillStyle = colour("ink");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    beside.forEach((each, at) => {
      pen.beginPath();
      pen.moveTo(left, y(each));
      pen.lineTo(left + across, y(each));
      pen.stroke();
      pen.fillText(labels[at], left - 6, y(each), left - 22);
    });
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const below = axisTicks({ along: this.found.along[0], kind: this.dimension.kind, cells: this.cells, index: (cell) => this.index(cell), most: Math.max(2, Math.floor(across / 95)) });
    for (const [place, text] of below) pen.fillText(text, Math.max(left, Math.min(left + place * across, left + across - pen.measureText(text).width / 2)), top + down + 5);
    pen.strokeRect(left - 0.5, top - 0.5, across + 1, down + 1);
    pen.fillStyle = colour("soft");
    pen.fillText(axisTitle(this.dimension), left + across / 2, top + down + 23, across);
    pen.save();
    pen.translate(10, top + down / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(this.found.units, 0, -4, down);
    pen.restore();
    this.canvas.dataset.ticks = JSON.stringify(below);
  }

  index(cell) {
    const [start, stop] = this.found.region[0];
    return Math.min(start + cell * this.found.steps[0], stop - 1);
  }

  cellAt(event) {
    const left = this.canvas.getBoundingClientRect().left;
    return Math.max(0, Math.min(this.cells - 1, Math.floor(((event.clientX - left - this.box.left) / this.box.across) * this.cells)));
  }

  hover(event) {
    if (this.box) this.say(this.cellAt(event));
  }

  say(cell) {
    const value = (curve) => (cell === null ? "" : ` ${number(curve.line[cell])}`);
    const keys = this.labels.map((label, which) => h("span", { class: "key" }, h("i", { class: `ink ${INKS[which]}` }), name(`${label}${value(this.curves[which])}`)));
    const along = this.found.along[0];
    const place = cell === null ? "" : along?.texts?.[cell] ?? (along ? number(along.numbers[cell]) : this.index(cell));
    const apart = cell !== null && this.curves.length > 1 && this.curves.every((each) => each.line[cell] !== null) ? ` B − A ${number(this.curves[1].line[cell] - this.curves[0].line[cell])}` : "";
    replace(this.readout, h("bdi", {}, cell === null ? axisTitle(this.dimension) : `${this.dimension.label} ${place}`), keys, apart);
  }

  click(event) {
    if (this.box && this.choose) this.choose(this.index(this.cellAt(event)));
  }
}

// One chart for every dimension that the picture does not show, or for those that it does if there is no other.
export async function drawSeries(section, { question, found, points, labels, choose, signal }) {
  const others = found.shape.map((_, axis) => axis).filter((axis) => !found.axes.includes(axis) && found.shape[axis] > 1);
  const along = others.length ? others : found.axes;
  const charts = [];
  for (const axis of along) {
    const at = (point) => found.shape.map((_, each) => (each === axis ? "*" : found.axes.includes(each) ? point[found.axes.indexOf(each)] : found.at[each])).join(",");
    const curves = await Promise.all(points.map((point) => ask("preview", { ...question, axes: axis, region: null, flip: null, slice_at: at(point) }, signal)));
    if (curves.some((curve) => !curve.line)) continue;
    const mark = others.length ? found.at[axis] : points[0][found.axes.indexOf(axis)];
    charts.push(new Chart({ curves, labels, mark, choose: others.length ? (index) => choose(axis, index) : null }));
  }
  replace(section, charts.map((chart) => chart.element));
  charts.forEach((chart) => chart.draw());
  return charts;
}
