// Map projections of a sphere of radius 1: formulas in radians, as in Snyder, Map Projections: A Working Manual (1987).
//
// `forward` takes longitude and latitude relative to the centre of the map to x and y, `inverse` takes them back;
// both are null where there is nothing to see. `extent` is the largest x and y, `tilts` says that the centre may be
// at any latitude, `outline` is the edge of the map.

const STEPS = 90; // of each side of an outline

// Newton's method from a good first guess; the functions here need five to ten steps.
function solve(error, slope, start) {
  let found = start;
  for (let step = 0; step < 30; step += 1) {
    const change = error(found) / slope(found);
    found -= change;
    if (Math.abs(change) < 1e-12) break;
  }
  return found;
}

// A projection whose parallels are straight lines, with meridians evenly along them. `parallel` gives the latitude of a
// y and the length of a radian there; a picture asks for many points of one parallel after the other.
function pseudocylindrical(label, forward, parallel) {
  let last = { y: NaN };
  const inverse = (x, y) => {
    if (y !== last.y) last = { y, ...parallel(y) };
    return inside(x / last.radian, last.phi);
  };
  const side = (lambda) => Array.from({ length: STEPS + 1 }, (_, at) => forward(lambda, (at / STEPS - 0.5) * Math.PI));
  const outline = [...side(Math.PI), ...side(-Math.PI).reverse()];
  return { label, forward, inverse, outline, extent: [forward(Math.PI, 0)[0], forward(0, Math.PI / 2)[1]], tilts: false };
}

// The place, or null if it is beyond the edge of the map (or NaN, beyond a pole).
function inside(lambda, phi) {
  return Math.abs(lambda) <= Math.PI + 1e-9 && Math.abs(phi) <= Math.PI / 2 ? [lambda, phi] : null;
}

// Equal Earth: Šavrič, Patterson and Jenny, The Equal Earth map projection (2018).
const [A1, A2, A3, A4] = [1.340264, -0.081106, 0.000893, 0.003796];
const equalEarthY = (theta) => theta * (A1 + A2 * theta ** 2 + theta ** 6 * (A3 + A4 * theta ** 2));
const equalEarthSlope = (theta) => A1 + 3 * A2 * theta ** 2 + theta ** 6 * (7 * A3 + 9 * A4 * theta ** 2);
const equalEarthRadian = (theta) => (2 * Math.cos(theta)) / (Math.sqrt(3) * equalEarthSlope(theta));
const equalEarth = pseudocylindrical(
  "Equal Earth",
  (lambda, phi) => {
    const theta = Math.asin((Math.sqrt(3) / 2) * Math.sin(phi));
    return [lambda * equalEarthRadian(theta), equalEarthY(theta)];
  },
  (y) => {
    const theta = solve((at) => equalEarthY(at) - y, equalEarthSlope, y / A1);
    return { phi: Math.asin((2 / Math.sqrt(3)) * Math.sin(theta)), radian: equalEarthRadian(theta) };
  },
);

const mollweideRadian = (theta) => ((2 * Math.SQRT2) / Math.PI) * Math.cos(theta);
const mollweide = pseudocylindrical(
  "Mollweide",
  (lambda, phi) => {
    const isPole = Math.abs(phi) > Math.PI / 2 - 1e-9; // where the slope is zero
    const theta = isPole ? phi : solve((at) => 2 * at + Math.sin(2 * at) - Math.PI * Math.sin(phi), (at) => 2 + 2 * Math.cos(2 * at), phi * 0.9);
    return [lambda * mollweideRadian(theta), Math.SQRT2 * Math.sin(theta)];
  },
  (y) => {
    const theta = Math.asin(y / Math.SQRT2);
    return { phi: Math.asin((2 * theta + Math.sin(2 * theta)) / Math.PI), radian: mollweideRadian(theta) };
  },
);

const orthographic = {
  label: "Globe (orthographic)",
  tilts: true,
  forward(lambda, phi) {
    return Math.cos(phi) * Math.cos(lambda) < 0 ? null : [Math.cos(phi) * Math.sin(lambda), Math.sin(phi)];
  },
  inverse(x, y) {
    const towards = 1 - x * x - y * y; // the square of the distance from the plane through the earth's centre
    return towards < 0 ? null : [Math.atan2(x, Math.sqrt(towards)), Math.asin(y)];
  },
  outline: Array.from({ length: 4 * STEPS }, (_, at) => [Math.cos((at * Math.PI) / 2 / STEPS), Math.sin((at * Math.PI) / 2 / STEPS)]),
  extent: [1, 1],
};

export const PROJECTIONS = { "equal-earth": equalEarth, mollweide, orthographic };

const RADIANS = Math.PI / 180;

// An angle in degrees from -180 to 180.
export function wrap(degrees) {
  return degrees - 360 * Math.round(degrees / 360);
}

// Longitude and latitude in degrees as seen from the centre of a map, in radians; and the reverse.
export function toCentre(longitude, latitude, [east, north]) {
  const [lambda, phi] = [wrap(longitude - east) * RADIANS, latitude * RADIANS];
  return north === 0 ? [lambda, phi] : tilt(lambda, phi, north * RADIANS);
}

export function fromCentre(lambda, phi, [east, north]) {
  const [turned, height] = north === 0 ? [lambda, phi] : tilt(lambda, phi, -north * RADIANS);
  return [wrap(turned / RADIANS + east), height / RADIANS];
}

// Turns the sphere about the axis through the equator at 90 degrees from the centre.
function tilt(lambda, phi, angle) {
  const [x, z] = [Math.cos(phi) * Math.cos(lambda), Math.sin(phi)];
  const height = z * Math.cos(angle) - x * Math.sin(angle);
  return [Math.atan2(Math.cos(phi) * Math.sin(lambda), x * Math.cos(angle) + z * Math.sin(angle)), Math.asin(Math.max(-1, Math.min(1, height)))];
}
