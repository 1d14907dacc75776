// Coastlines: Natural Earth's land at 1:110 million (public domain), in the TopoJSON of world-atlas.

import { placeOf } from "./ticks.js";

let loaded = null;

// Lines as lists of [longitude, latitude]. Edges of the map itself (the antimeridian, the pole) are left out.
function decode(topology) {
  const { scale, translate } = topology.transform;
  const lines = [];
  for (const arc of topology.arcs) {
    let x = 0;
    let y = 0;
    let line = [];
    for (const [across, up] of arc) {
      x += across;
      y += up;
      const point = [x * scale[0] + translate[0], y * scale[1] + translate[1]];
      const before = line.at(-1);
      const isEdge = before && ((Math.abs(point[0]) > 179.9 && Math.abs(before[0]) > 179.9) || (point[1] < -85 && before[1] < -85));
      if (isEdge || (before && Math.abs(point[0] - before[0]) > 180)) {
        lines.push(line);
        line = [];
      }
      line.push(point);
    }
    lines.push(line);
  }
  return lines.filter((line) => line.length > 1);
}

export function coastlines() {
  loaded ??= fetch("/static/land-110m.json").then((answer) => answer.json()).then(decode);
  return loaded;
}

// Lines on a picture, as places from 0 to 1; repeated where longitudes go beyond 180 degrees.
export function projected(lines, longitudes, latitudes) {
  const [west, east] = [longitudes[0], longitudes.at(-1)].sort((one, other) => one - other);
  const turns = [];
  for (let turn = Math.floor((west - 180) / 360); turn * 360 - 180 <= east; turn += 1) turns.push(turn * 360);
  return turns.flatMap((turn) => lines.map((line) => line.map(([x, y]) => [placeOf(longitudes, x + turn), placeOf(latitudes, y)])));
}
