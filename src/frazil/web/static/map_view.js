// A picture with longitudes and latitudes under a map projection: where its cells are, and which cell is at a point.

import { PROJECTIONS, fromCentre, toCentre, wrap } from "./projections.js";
import { coordinateAt, placeOf } from "./ticks.js";

const SAMPLES = 32; // along each side of a region, to find its bounds
const MOST_PIXELS = 1_000_000; // half a second
const QUICK_PIXELS = 100_000; // while a map is being turned
const range = (start, stop, step) => Array.from({ length: (stop - start) / step + 1 }, (_, at) => start + at * step);
const GRATICULE = [
  ...range(-180, 150, 30).map((longitude) => range(-90, 90, 3).map((latitude) => [longitude, latitude])),
  ...range(-60, 60, 30).map((latitude) => range(-180, 180, 3).map((longitude) => [longitude, latitude])),
];

// The cell of a coordinate; -1 outside.
function cellOf(numbers, value) {
  const cell = Math.floor(placeOf(numbers, value) * numbers.length);
  return cell >= 0 && cell < numbers.length ? cell : -1;
}

function ends(numbers) {
  return [coordinateAt(numbers, 0), coordinateAt(numbers, 1)].sort((one, other) => one - other);
}

export class MapView {
  // `longitudes` and `latitudes` of the picture's columns and rows, or of its rows and columns if not `isAcross`.
  constructor(name, centre, { longitudes, latitudes, isAcross }) {
    Object.assign(this, { name, longitudes, latitudes, isAcross, projection: PROJECTIONS[name] });
    this.longitudeEnds = ends(longitudes);
    this.latitudeEnds = ends(latitudes).map((each) => Math.max(-90, Math.min(each, 90)));
    const middle = [this.longitudeEnds, this.latitudeEnds].map(([low, high]) => (low + high) / 2);
    const [east, north] = centre ?? middle;
    this.centre = [wrap(east), this.projection.tilts ? Math.max(-90, Math.min(north, 90)) : 0];
    this.bounds = this.findBounds();
  }

  get aspect() {
    const [west, east, south, north] = this.bounds;
    return (north - south) / (east - west);
  }

  // The part of the plane that is shown: around the cells, or all of it if they go around more than half of the globe.
  findBounds() {
    const [x, y] = this.projection.extent;
    const [[west, east], [south, north]] = [this.longitudeEnds, this.latitudeEnds];
    const steps = range(0, SAMPLES, 1).map((each) => each / SAMPLES);
    const seen = east - west > 180 ? [] : steps.flatMap((across) => steps.map((up) => this.forward(west + across * (east - west), south + up * (north - south)))).filter(Boolean);
    const [across, up] = [0, 1].map((which) => seen.map((each) => each[which]));
    const bounds = [Math.min(...across), Math.max(...across), Math.min(...up), Math.max(...up)];
    return bounds[1] > bounds[0] && bounds[3] > bounds[2] ? bounds : [-x, x, -y, y];
  }

  forward(longitude, latitude) {
    return this.projection.forward(...toCentre(longitude, latitude, this.centre));
  }

  // Between the plane and the canvas

  fit({ left, top, across, down }) {
    this.box = { left, top, across, down };
  }

  toCanvas([x, y]) {
    const { left, top, across, down } = this.box;
    const [west, east, south, north] = this.bounds;
    return [left + ((x - west) / (east - west)) * across, top + ((north - y) / (north - south)) * down];
  }

  // The place at a point of the canvas, in radians from the centre; null outside of the map.
  seenAt(x, y) {
    const { left, top, across, down } = this.box;
    const [west, east, south, north] = this.bounds;
    const [right, below] = [(x - left) / across, (y - top) / down];
    if (right < 0 || right > 1 || below < 0 || below > 1) return null;
    return this.projection.inverse(west + right * (east - west), north - below * (north - south));
  }

  cellAt(x, y) {
    const seen = this.seenAt(x, y);
    if (!seen) return null;
    const [longitude, latitude] = fromCentre(...seen, this.centre);
    const [west] = this.longitudeEnds;
    const turned = west + ((((longitude - west) % 360) + 360) % 360);
    const cell = [cellOf(this.latitudes, latitude), cellOf(this.longitudes, turned)];
    if (cell.includes(-1)) return null;
    return this.isAcross ? cell : cell.reverse();
  }

  // The middle of a cell on the canvas; null if it is on the far side.
  canvasAt([row, column]) {
    const [latitude, longitude] = this.isAcross ? [row, column] : [column, row];
    const found = this.forward(this.longitudes[longitude], this.latitudes[latitude]);
    return found && this.toCanvas(found);
  }

  // Lines on the canvas

  // Lines of [longitude, latitude], broken where they go to the far side or over the edge of the map.
  trace(lines) {
    const paths = [];
    for (const line of lines) {
      let path = [];
      let before = null;
      for (const [longitude, latitude] of line) {
        const [lambda, phi] = toCentre(longitude, latitude, this.centre);
        const found = this.projection.forward(lambda, phi);
        if (!found || (before !== null && Math.abs(lambda - before) > Math.PI)) {
          paths.push(path);
          path = [];
        }
        if (found) path.push(this.toCanvas(found));
        before = found ? lambda : null;
      }
      paths.push(path);
    }
    return paths.filter((path) => path.length > 1);
  }

  graticule() {
    return this.trace(GRATICULE);
  }

  outline() {
    const points = this.projection.outline.map((each) => this.toCanvas(each));
    return [[...points, points[0]]];
  }

  cellOutline([row, column]) {
    const [latitude, longitude] = this.isAcross ? [row, column] : [column, row];
    const corner = (right, up) => [coordinateAt(this.longitudes, (longitude + right) / this.longitudes.length), coordinateAt(this.latitudes, (latitude + up) / this.latitudes.length)];
    return this.trace([[corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1), corner(0, 0)]]);
  }

  // Pixels

  // The cells as a canvas: in the pixels of the screen, unless that would take long.
  raster(image, { isQuick }) {
    const { across, down } = this.box;
    const ratio = Math.min(devicePixelRatio || 1, Math.sqrt((isQuick ? QUICK_PIXELS : MOST_PIXELS) / (across * down)));
    const [wide, high] = [across, down].map((each) => Math.max(1, Math.round(each * ratio)));
    const cells = this.cellsOfPixels(wide, high, image.naturalWidth);
    const colours = pixelsOf(image);
    const canvas = new OffscreenCanvas(wide, high);
    const pen = canvas.getContext("2d");
    const shown = pen.createImageData(wide, high);
    const pixels = new Uint32Array(shown.data.buffer);
    for (let at = 0; at < pixels.length; at += 1) if (cells[at] >= 0) pixels[at] = colours[cells[at]];
    pen.putImageData(shown, 0, 0);
    return canvas;
  }

  // Of each pixel the number of its cell, or -1; kept, because an animation shows many pictures at the same place.
  cellsOfPixels(wide, high, columns) {
    const key = [wide, high, columns, ...Object.values(this.box)].join();
    if (this.kept?.key === key) return this.kept.cells;
    const { left, top, across, down } = this.box;
    const cells = new Int32Array(wide * high).fill(-1);
    for (let y = 0; y < high; y += 1) {
      for (let x = 0; x < wide; x += 1) {
        const cell = this.cellAt(left + ((x + 0.5) / wide) * across, top + ((y + 0.5) / high) * down);
        if (cell) cells[y * wide + x] = cell[0] * columns + cell[1];
      }
    }
    this.kept = { key, cells };
    return cells;
  }

  // The same map after what is at one point of the canvas was dragged to another.
  turned(from, to) {
    const [start, end] = [this.seenAt(...from), this.seenAt(...to)];
    if (!start || !end) return this;
    const [right, up] = [0, 1].map((which) => ((end[which] - start[which]) * 180) / Math.PI);
    const narrower = Math.max(0.2, Math.cos((this.centre[1] * Math.PI) / 180)); // meridians approach each other
    const map = new MapView(this.name, [this.centre[0] - right / narrower, this.centre[1] - up], this);
    map.fit(this.box);
    return map;
  }
}

function pixelsOf(image) {
  const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  return new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
}
