// Attributes and metadata: names and values that somebody else chose, shown as text.

import { h, name } from "./dom.js";

const LONG = 400;

function value(each) {
  if (each === null) return h("span", { class: "quiet" }, "null");
  if (typeof each === "string") {
    const text = h("bdi", { class: "text" }, each);
    return each.length > LONG ? h("details", {}, h("summary", {}, h("bdi", {}, `${each.slice(0, 120)}…`)), h("pre", {}, text)) : text;
  }
  if (typeof each === "object") {
    const text = JSON.stringify(each, null, 2);
    const flat = JSON.stringify(each);
    return flat.length <= 80 ? h("code", {}, h("bdi", {}, flat)) : h("details", { open: text.length < 1500 }, h("summary", {}, Array.isArray(each) ? `list of ${each.length}` : `object of ${Object.keys(each).length}`), h("pre", {}, h("bdi", {}, text)));
  }
  return h("code", {}, String(each));
}

export function values(record) {
  return h("dl", { class: "facts values" }, Object.entries(record).map(([key, each]) => [h("dt", {}, name(key)), h("dd", {}, value(each))]));
}
