// Numbers, sizes and times for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count) {
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit ? `${value.toFixed(value < 10 ? 2 : 1)} ${UNITS[unit]}` : `${count} B`;
}

export function count(value) {
  return value.toLocaleString("en-US");
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return count(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e7) ? value.toExponential(4) : String(Number(value.toPrecision(7)));
}

export function time(microseconds) {
  return `${new Date(microseconds / 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

const AGES = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]];

export function age(microseconds) {
  const seconds = Date.now() / 1000 - microseconds / 1e6;
  for (const [unit, size] of AGES) {
    if (seconds >= size) return `${plural(Math.floor(seconds / size), unit)} ago`;
  }
  return "just now";
}

export function shortId(id) {
  return id.slice(0, 8);
}

export function firstLine(text) {
  return text.split("\n", 1)[0];
}

export function shape(sizes) {
  return sizes.length ? sizes.map(count).join(" × ") : "scalar";
}

export function refLabel(at) {
  return at.replace(/^(branch|tag):/, "");
}
