// Where the ticks of an axis are, and what is written beside them.

const STEPS = [1, 2, 2.5, 5, 10];
const DEGREES = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90];

function stepFor(span, most, steps = null) {
  if (steps) return steps.find((each) => span / each <= most) ?? steps.at(-1);
  const size = 10 ** Math.floor(Math.log10(span / most));
  return size * (STEPS.find((each) => span / (size * each) <= most) ?? 10);
}

// Round numbers from `low` to `high`, at most `most` of them.
export function roundNumbers(low, high, most, steps = null) {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const step = stepFor(high - low, Math.max(most, 1), steps);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(Number((at * step).toPrecision(12)));
  return found;
}

// One format for all numbers of an axis, as short as it can be.
export function tickLabels(values) {
  const largest = Math.max(...values.map(Math.abs));
  if (largest !== 0 && (largest >= 1e6 || largest < 1e-3)) return values.map((each) => (each === 0 ? "0" : String(Number(each.toPrecision(4)).toExponential())).replace("e+", "e"));
  return values.map((each) => String(Number(each.toPrecision(7))).replace("-", "−"));
}

export function degrees(value, kind) {
  const turned = kind === "longitude" ? ((((value + 180) % 360) + 360) % 360) - 180 : value;
  const size = Number(Math.abs(turned).toFixed(4));
  if (kind === "longitude" && size === 180) return "180°";
  const side = turned === 0 ? "" : kind === "longitude" ? (turned < 0 ? "W" : "E") : turned < 0 ? "S" : "N";
  return `${size}°${side}`;
}

export function isMonotonic(numbers) {
  if (numbers.length < 2 || numbers.some((each) => each === null)) return false;
  const sign = Math.sign(numbers[1] - numbers[0]);
  return sign !== 0 && numbers.every((each, at) => at === 0 || Math.sign(each - numbers[at - 1]) === sign);
}

// Whether distances differ so much that round numbers would crowd at one end: levels of a model, depths.
function isUneven(numbers) {
  const steps = numbers.slice(1).map((each, at) => Math.abs(each - numbers[at]));
  return Math.max(...steps) > 4 * Math.min(...steps);
}

// The place of a coordinate along its axis, from 0 to 1; cells are of equal width.
export function placeOf(numbers, value) {
  const up = numbers.at(-1) > numbers[0];
  let low = 0;
  let high = numbers.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] <= value) === up) low = middle;
    else high = middle;
  }
  const share = (value - numbers[low]) / (numbers[high] - numbers[low]);
  return (low + share * (high - low) + 0.5) / numbers.length;
}

// The coordinate at a place from 0 to 1, the reverse of placeOf.
export function coordinateAt(numbers, place) {
  const at = place * numbers.length - 0.5;
  const low = Math.max(0, Math.min(Math.floor(at), numbers.length - 2));
  return numbers[low] + (at - low) * (numbers[low + 1] - numbers[low]);
}

function shortTimes(texts) {
  const days = (Date.parse(texts.at(-1).slice(0, 10)) - Date.parse(texts[0].slice(0, 10))) / 86400000;
  if (Math.abs(days) > 1200) return (text) => text.slice(0, 7);
  if (Math.abs(days) > 4 || !texts[0].includes(" ")) return (text) => text.slice(0, 10);
  return (text) => text.slice(5, 16);
}

function evenly(count, most) {
  const step = Math.max(1, Math.ceil(count / Math.max(most, 1)));
  const first = Math.floor(((count - 1) % step) / 2);
  return Array.from({ length: Math.floor((count - 1 - first) / step) + 1 }, (_, at) => first + at * step);
}

// The coordinate of a slice, as it is written beside a slider and in a title.
export function placeText({ kind, place, number }) {
  return number !== null && (kind === "latitude" || kind === "longitude") ? degrees(number, kind) : place;
}

// Ticks of an axis as [place from 0 to 1, text]. `along` are the coordinates, `index` gives the position of a cell.
export function axisTicks({ along, kind, cells, index, most }) {
  if (along?.texts) {
    const short = kind === "time" ? shortTimes(along.texts) : (text) => text.slice(0, 12);
    return evenly(cells, most).map((at) => [(at + 0.5) / cells, short(along.texts[at])]);
  }
  if (along && isMonotonic(along.numbers) && !isUneven(along.numbers)) {
    const [low, high] = [along.numbers[0], along.numbers.at(-1)].sort((one, other) => one - other);
    const isGeographic = kind === "latitude" || kind === "longitude";
    const values = roundNumbers(low, high, most, isGeographic && high - low > 1 ? DEGREES : null);
    const labels = isGeographic ? values.map((each) => degrees(each, kind)) : tickLabels(values);
    return values.map((each, at) => [placeOf(along.numbers, each), labels[at]]);
  }
  if (along) return evenly(cells, most).map((at) => [(at + 0.5) / cells, along.numbers[at] === null ? "" : tickLabels([along.numbers[at]])[0]]);
  const ends = [index(0), index(cells - 1)];
  const [low, high] = [...ends].sort((one, other) => one - other);
  const values = roundNumbers(low, high, most).filter(Number.isInteger);
  const span = ends[1] - ends[0];
  return values.map((each) => [span ? ((each - ends[0]) / span * (cells - 1) + 0.5) / cells : 0.5, String(each)]);
}
