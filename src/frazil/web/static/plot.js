// A picture with axes and a colour bar, on a canvas; and what is at a point of it.

import { projected } from "./coast.js";
import { h } from "./dom.js";
import { number } from "./format.js";
import { axisTicks, roundNumbers, tickLabels } from "./ticks.js";

const FONT = "12px system-ui, sans-serif";
const POINTS = ["A", "B"];

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A canvas as large as its box, in the pixels of the screen.
export function fit(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colour("surface");
  pen.fillRect(0, 0, width, height);
  pen.font = FONT;
  return pen;
}

// Lines of points as one path.
function pathOf(lines) {
  const path = new Path2D();
  for (const line of lines) line.forEach((point, at) => (at ? path.lineTo(...point) : path.moveTo(...point)));
  return path;
}

function strokeCoast(pen, path) {
  pen.lineJoin = "round";
  pen.strokeStyle = "rgb(255 255 255 / 55%)"; // seen on dark and on light colours
  pen.lineWidth = 2.2;
  pen.stroke(path);
  pen.strokeStyle = "rgb(15 15 20 / 85%)";
  pen.lineWidth = 0.9;
  pen.stroke(path);
}

export function axisTitle(dimension) {
  const isPlain = dimension.kind === "latitude" || dimension.kind === "longitude" || dimension.kind === "time";
  return dimension.units && !isPlain ? `${dimension.label} (${dimension.units})` : dimension.label;
}

export class Plot {
  constructor(id) {
    this.canvas = h("canvas", { id, class: "plot", tabindex: 0, role: "img" });
    this.points = [];
    this.drag = null;
    this.cursor = null;
    this.map = null; // a MapView, if the picture is under a map projection
    this.isTurning = false;
  }

  show(found, image, { lines, title, map }) {
    Object.assign(this, { found, image, lines, title, map });
    this.draw();
  }

  // The room for the picture: left, top, width and height.
  place(width, tallest) {
    const narrow = width < 560;
    const left = this.map ? 12 : narrow ? 44 : 64;
    const right = narrow ? 58 : 92;
    const [top, bottom] = [30, this.map ? 14 : 46];
    const { aspect } = this.map ?? this.found;
    let across = width - left - right;
    let down = across * aspect;
    const most = Math.max(tallest - top - bottom, 120);
    if (down > most) {
      down = most;
      across = Math.min(across, down / aspect);
    }
    return { left, top, across: Math.round(across), down: Math.round(down), height: Math.round(down) + top + bottom, narrow };
  }

  draw() {
    const stage = this.canvas.parentElement;
    if (!this.found || !stage) return;
    const width = Math.max(280, stage.clientWidth);
    const isFull = document.fullscreenElement?.contains(this.canvas);
    this.box = this.place(width, isFull ? innerHeight - 190 : Math.max(360, innerHeight * 0.74));
    const pen = fit(this.canvas, width, this.box.height);
    this.canvas.dataset.box = JSON.stringify(this.box);
    this.map?.fit(this.box);
    if (this.map) this.drawMap(pen);
    else this.drawPicture(pen);
    this.drawTitle(pen);
    this.drawBar(pen);
    this.drawMarks(pen);
  }

  drawPicture(pen) {
    const { left, top, across, down } = this.box;
    pen.fillStyle = colour("check");
    pen.fillRect(left, top, across, down);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.image, left, top, across, down);
    if (this.lines) this.drawCoast(pen);
    pen.strokeStyle = colour("soft");
    pen.lineWidth = 1;
    pen.strokeRect(left - 0.5, top - 0.5, across + 1, down + 1);
    this.drawAxes(pen);
  }

  // Under a projection there are meridians and parallels in place of axes.
  drawMap(pen) {
    const { left, top, across, down } = this.box;
    const outline = pathOf(this.map.outline());
    pen.save();
    pen.beginPath();
    pen.rect(left - 1, top - 1, across + 2, down + 2);
    pen.clip();
    pen.fillStyle = colour("check");
    pen.fill(outline);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.map.raster(this.image, { isQuick: this.isTurning }), left, top, across, down);
    pen.lineWidth = 0.5;
    pen.strokeStyle = "rgb(128 128 128 / 60%)";
    pen.stroke(pathOf(this.map.graticule()));
    if (this.lines) strokeCoast(pen, pathOf(this.map.trace(this.lines)));
    pen.lineWidth = 1.5;
    pen.strokeStyle = colour("soft");
    pen.stroke(outline);
    pen.restore();
    this.canvas.dataset.ticks = JSON.stringify({ rows: [], columns: [] });
  }

  drawTitle(pen) {
    const { left, across } = this.box;
    pen.fillStyle = colour("ink");
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.font = `600 ${FONT}`;
    pen.fillText(this.title, left, 14, across);
    pen.font = FONT;
  }

  drawCoast(pen) {
    const { left, top, across, down } = this.box;
    const [rows, columns] = this.found.along;
    const isMap = this.found.dimensions[this.found.axes[1]].kind === "longitude";
    const lines = isMap ? projected(this.lines, columns.numbers, rows.numbers) : projected(this.lines, rows.numbers, columns.numbers);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, across, down);
    pen.clip();
    strokeCoast(pen, pathOf(lines.map((line) => line.map(([x, y]) => (isMap ? [left + x * across, top + y * down] : [left + y * across, top + x * down])))));
    pen.restore();
  }

  ticks(which, most) {
    const axis = this.found.axes[which];
    const cells = which ? this.found.width : this.found.height;
    return axisTicks({ along: this.found.along[which], kind: this.found.dimensions[axis].kind, cells, index: (cell) => this.index(which, cell), most });
  }

  drawAxes(pen) {
    const { left, top, across, down, narrow } = this.box;
    const [rows, columns] = this.found.axes.map((axis) => this.found.dimensions[axis]);
    pen.fillStyle = colour("ink");
    pen.strokeStyle = colour("soft");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const below = this.ticks(1, Math.max(2, Math.floor(across / 95)));
    const beside = this.ticks(0, Math.max(2, Math.floor(down / 45)));
    pen.beginPath();
    for (const [place, text] of below) {
      const x = left + place * across;
      pen.moveTo(x, top + down + 1);
      pen.lineTo(x, top + down + 6);
      const half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.max(half, Math.min(x, left + across + 12 - half)), top + down + 8);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const [place, text] of beside) {
      const y = top + place * down;
      pen.moveTo(left - 6, y);
      pen.lineTo(left - 1, y);
      pen.fillText(text, left - 8, y, left - 20);
    }
    pen.stroke();
    pen.fillStyle = colour("soft");
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    pen.fillText(axisTitle(columns), left + across / 2, top + down + 40, across);
    pen.save();
    pen.translate(11, top + down / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(axisTitle(rows), 0, 0, down);
    pen.restore();
    this.canvas.dataset.ticks = JSON.stringify({ rows: beside, columns: below });
  }

  drawBar(pen) {
    const { left, top, across, down, narrow } = this.box;
    const { low, high, colours, units } = this.found;
    if (low === null || high === null) return;
    const x = left + across + 12;
    const wide = narrow ? 9 : 14;
    const ramp = pen.createLinearGradient(0, top + down, 0, top);
    colours.forEach((each, at) => ramp.addColorStop(at / (colours.length - 1), each));
    pen.fillStyle = ramp;
    pen.fillRect(x, top, wide, down);
    pen.strokeStyle = colour("soft");
    pen.strokeRect(x - 0.5, top - 0.5, wide + 1, down + 1);
    const values = high > low ? roundNumbers(low, high, Math.max(2, Math.floor(down / 38))) : [low];
    const labels = tickLabels(values);
    pen.fillStyle = colour("ink");
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.beginPath();
    values.forEach((each, at) => {
      const y = top + down * (high > low ? 1 - (each - low) / (high - low) : 0.5);
      pen.moveTo(x + wide + 1, y);
      pen.lineTo(x + wide + 5, y);
      pen.fillText(labels[at], x + wide + 7, y, narrow ? 30 : 54);
    });
    pen.stroke();
    pen.fillStyle = colour("soft");
    pen.textBaseline = "middle";
    pen.fillText(units, x - 2, 14, narrow ? 50 : 86);
    this.canvas.dataset.bar = JSON.stringify(labels);
  }

  drawMarks(pen) {
    this.points.forEach((point, at) => {
      const cell = this.cellOf(point);
      const place = cell && this.canvasAt(cell);
      if (!place) return;
      const [x, y] = place;
      for (const [width, ink] of [[4, "#fff"], [1.8, at ? "#c2255c" : "#1864ab"]]) {
        pen.beginPath();
        pen.arc(x, y, 5, 0, 7);
        pen.lineWidth = width;
        pen.strokeStyle = ink;
        pen.stroke();
      }
      pen.font = `700 ${FONT}`;
      pen.textAlign = "left";
      pen.textBaseline = "bottom";
      pen.lineWidth = 3;
      pen.strokeStyle = "#fff";
      pen.strokeText(POINTS[at], x + 6, y - 3);
      pen.fillStyle = at ? "#c2255c" : "#1864ab";
      pen.fillText(POINTS[at], x + 6, y - 3);
      pen.font = FONT;
    });
    pen.lineWidth = 1.5;
    if (this.cursor) {
      pen.strokeStyle = colour("ink");
      this.strokeCell(pen, this.cursor);
    }
    if (this.drag) {
      const [x0, y0, x1, y1] = this.drag;
      pen.fillStyle = "rgb(255 255 255 / 25%)";
      pen.fillRect(x0, y0, x1 - x0, y1 - y0);
      pen.strokeStyle = "#111";
      pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
    }
  }

  strokeCell(pen, cell) {
    if (this.map) {
      pen.stroke(pathOf(this.map.cellOutline(cell)));
      return;
    }
    const { left, top, across, down } = this.box;
    const [row, column] = cell;
    pen.strokeRect(left + (column / this.found.width) * across - 1, top + (row / this.found.height) * down - 1, across / this.found.width + 2, down / this.found.height + 2);
  }

  // The middle of a cell on the canvas; null if it is on the far side of a globe.
  canvasAt(cell) {
    if (this.map) return this.map.canvasAt(cell);
    const { left, top, across, down } = this.box;
    return [left + ((cell[1] + 0.5) / this.found.width) * across, top + ((cell[0] + 0.5) / this.found.height) * down];
  }

  // The cell where the keyboard begins.
  middle() {
    const { left, top, across, down } = this.box;
    return this.cellAt(left + across / 2, top + down / 2) ?? [this.found.height >> 1, this.found.width >> 1];
  }

  // The cell under a point of the canvas; null outside of the picture.
  cellAt(x, y, { clamp = false } = {}) {
    if (this.map) return this.map.cellAt(x, y);
    const { left, top, across, down } = this.box;
    let row = Math.floor(((y - top) / down) * this.found.height);
    let column = Math.floor(((x - left) / across) * this.found.width);
    if (clamp) {
      row = Math.max(0, Math.min(row, this.found.height - 1));
      column = Math.max(0, Math.min(column, this.found.width - 1));
    }
    return row >= 0 && column >= 0 && row < this.found.height && column < this.found.width ? [row, column] : null;
  }

  // The position in the array of a row (0) or column (1) of the picture, and the reverse.
  index(which, cell) {
    const cells = which ? this.found.width : this.found.height;
    const stored = this.found.flip[which] ? cells - 1 - cell : cell;
    const [start, stop] = this.found.region[which];
    return Math.min(start + stored * this.found.steps[which], stop - 1);
  }

  cellOf(point) {
    const cells = point.map((index, which) => {
      const count = which ? this.found.width : this.found.height;
      const stored = Math.floor((index - this.found.region[which][0]) / this.found.steps[which]);
      return this.found.flip[which] ? count - 1 - stored : stored;
    });
    const inside = cells[0] >= 0 && cells[1] >= 0 && cells[0] < this.found.height && cells[1] < this.found.width;
    return inside ? cells : null;
  }

  // A coordinate, or else a position, as text.
  coordinate(which, cell) {
    const along = this.found.along[which];
    const { label, units } = this.found.dimensions[this.found.axes[which]];
    const index = this.index(which, cell);
    if (along?.texts) return `${label} ${along.texts[cell]}`;
    if (along && along.numbers[cell] !== null) return `${label} ${number(along.numbers[cell])}${units.startsWith("degree") ? "°" : units ? ` ${units}` : ""}`;
    return `${label} ${index}`;
  }
}
