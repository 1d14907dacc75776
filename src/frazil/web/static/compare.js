// What changed between two snapshots, down to chunks.

import { ask } from "./api.js";
import { drawChunks } from "./chunk_map.js";
import { h, name, replace } from "./dom.js";
import { count, plural, refLabel, shortId } from "./format.js";
import { drawInstrument } from "./instrument.js";
import { failure, link, visit } from "./router.js";

const CONTEXT = 2; // lines around a line that changed
const FEW = 5; // changes of metadata that are shown at once
const LISTS = [["new_groups", "New groups", "added"], ["new_arrays", "New arrays", "added"], ["deleted_groups", "Deleted groups", "removed"], ["deleted_arrays", "Deleted arrays", "removed"], ["updated_groups", "Changed groups", "changed"], ["updated_arrays", "Changed arrays", "changed"]];

async function chooser(parameters, signal) {
  const repository = await ask("repository", {}, signal);
  const known = [...repository.branches.name.map((each) => `branch:${each}`), ...repository.tags.name.map((each) => `tag:${each}`)];
  const options = h("datalist", { id: "versions" }, known.map((each) => h("option", { value: each }, refLabel(each))));
  const field = (key, label) => h("label", {}, h("span", {}, label), h("input", { name: key, list: "versions", value: parameters[key] ?? "", placeholder: "branch, tag or snapshot", spellcheck: "false", autocomplete: "off", dir: "auto" }));
  const form = h("form", { class: "controls", id: "versions-form", onsubmit: (event) => { event.preventDefault(); const given = new FormData(form); visit("/compare", { from: given.get("from"), to: given.get("to") }); } }, field("from", "From"), field("to", "To"), h("button", { type: "submit" }, "Compare"), h("button", { type: "button", title: "The other way round", onclick: () => visit("/compare", { from: parameters.to, to: parameters.from }) }, "⇄"), options);
  return form;
}

function version(at) {
  return h("a", { href: link("/commits", { commit: at }) }, h("code", {}, shortId(at)));
}

// Lines of both documents, with those that only one has marked: the longest common subsequence.
function lineDiff(before, after) {
  const one = before.split("\n").slice(0, 800);
  const other = after.split("\n").slice(0, 800);
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) lengths[i][j] = one[i] === other[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) { lines.push([" ", one[i]]); i += 1; j += 1; }
    else if (j >= other.length || (i < one.length && lengths[i + 1][j] >= lengths[i][j + 1])) { lines.push(["-", one[i]]); i += 1; }
    else { lines.push(["+", other[j]]); j += 1; }
  }
  return lines;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text ?? "";
  }
}

function opening(label, isOpen, draw) {
  let drawn = false;
  const body = h("div", {});
  return h("details", { open: isOpen, ontoggle: async (event) => {
    if (drawn || !event.target.open) return;
    drawn = true;
    try {
      await draw(body);
    } catch (error) {
      replace(body, failure(error));
    }
  } }, h("summary", {}, label), body);
}

// Lines around those that changed; the others are left out.
function changedLines(before, after) {
  const lines = lineDiff(pretty(before), pretty(after));
  const near = lines.map(([mark], at) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(([other]) => other !== " ") || mark !== " ");
  const classes = { "+": "added", "-": "removed", " ": "same" };
  const shown = [];
  lines.forEach(([mark, text], at) => {
    if (near[at]) shown.push(h("span", { class: classes[mark] }, h("bdi", {}, `${mark} ${text}\n`)));
    else if (near[at - 1] || at === 0) shown.push(h("span", { class: "gap" }, "⋯\n"));
  });
  return h("pre", { class: "line-diff", tabindex: 0, "aria-label": "Changed lines of the metadata" }, shown);
}

async function metadataDiff(side, path, signal) {
  const { before, after } = await ask("diff/metadata", { from: side.from, to: side.to, path }, signal);
  const moved = before.path === after.path ? null : h("p", { class: "quiet" }, "was ", name(before.path));
  return [moved, changedLines(before.document, after.document)];
}

function metadata(side, path, isOpen, signal) {
  return opening(name(path), isOpen, async (body) => replace(body, await metadataDiff(side, path, signal)));
}

// A map of the difference of the values, and beside it the chunks and the lines that changed.
function arrayChanges(side, path, number, isOpen, signal) {
  return opening([name(path), h("span", { class: "quiet" }, ` ${plural(number, "chunk")}`)], isOpen, async (body) => {
    const chunks = h("div", { class: "beside" });
    if (side.new_arrays.includes(path)) {
      replace(body, h("p", {}, "A new array: ", h("a", { href: link("/browse", { at: side.to, path }) }, "show its values")), chunks);
      await drawChanged(chunks, side, path, signal);
      return;
    }
    const picture = h("div", { class: "instrument difference-map" });
    replace(body, h("div", { class: "array-change" }, picture, chunks));
    await Promise.all([drawDifference(picture, side, path, signal), drawChanged(chunks, side, path, signal)]);
  });
}

async function drawDifference(section, side, path, signal) {
  const question = { from: side.from, to: side.to, path, limit: 200 };
  const [node, page] = await Promise.all([ask("node", { at: side.to, path }, signal), ask("diff/chunks", question, signal)]);
  const place = page.index[Math.max(0, page.change.indexOf("changed"))]; // begins where something changed
  const sizes = node.chunk_grid?.configuration?.chunk_shape;
  const slice_at = place && sizes?.length === place.length ? place.map((each, axis) => each * sizes[axis]).join(",") : null;
  await drawInstrument(section, { node, at: side.to, from: side.from, signal, keep: false, begin: { slice_at } });
  section.append(h("p", {}, h("a", { href: link("/browse", { at: side.to, from: side.from, path }) }, "Open the difference on a page of its own")));
}

async function drawChanged(section, side, path, signal) {
  const page = await ask("diff/chunks", { from: side.from, to: side.to, path, limit: 200 }, signal);
  const rows = page.index.map((index, at) => h("li", { class: page.change[at] }, `${page.change[at]} ${index.join(", ") || "(the only one)"}`));
  const map = h("div", { class: "change-map" });
  const lines = side.updated_arrays?.includes(path) ? [h("h3", {}, "Metadata"), await metadataDiff(side, path, signal)] : null;
  replace(section, lines, h("h3", {}, "Chunks"), map, h("details", {}, h("summary", {}, page.total > rows.length ? `The first ${rows.length} of ${plural(page.total, "chunk")}` : plural(page.total, "chunk")), h("ul", { class: "chunk-list" }, rows)));
  await drawChunks(map, { at: side.to, path, grid: page.grid, names: page.dimension_names, signal, from: side.from, keep: false });
}

function sideOf(side, signal) {
  const parts = [];
  for (const [key, title, kind] of LISTS) {
    if (!side[key].length) continue;
    const at = kind === "removed" ? side.from : side.to;
    const items = side[key].map((path) => h("li", {}, key.startsWith("updated") ? metadata(side, path, side[key].length <= FEW, signal) : h("a", { href: link("/browse", { at, path }) }, name(path))));
    parts.push(h("section", { class: `card ${kind}`, dataset: { list: key } }, h("h3", {}, title, h("span", { class: "quiet" }, ` ${count(side.counts[key])}`)), h("ul", { class: "paths" }, items)));
  }
  if (side.moved.length) parts.push(h("section", { class: "card changed", dataset: { list: "moved" } }, h("h3", {}, "Moved"), h("ul", { class: "paths" }, side.moved.map(([from, to]) => h("li", {}, name(from), " → ", h("a", { href: link("/browse", { at: side.to, path: to }) }, name(to)))))));
  const chunks = side.updated_chunks;
  if (chunks.path.length) {
    const items = chunks.path.map((path, at) => h("li", {}, arrayChanges(side, path, chunks.chunks[at], chunks.path.length === 1, signal)));
    parts.unshift(h("section", { class: "card changed wide", dataset: { list: "updated_chunks" } }, h("h3", {}, "Values", h("span", { class: "quiet" }, ` ${plural(chunks.path.length, "array")}, ${plural(side.counts.updated_chunks, "chunk")}`)), h("ul", { class: "paths" }, items)));
  }
  return h("div", { class: "difference" }, h("h2", {}, "From ", version(side.from), " to ", version(side.to)), parts.length ? h("div", { class: "cards" }, parts) : h("p", { class: "quiet" }, "Nothing changed."));
}

// The values of two versions of which neither is an ancestor of the other: what either side changed.
function between(found, signal) {
  const gone = new Set(found.sides.flatMap((side) => [...side.deleted_arrays, ...side.new_arrays])); // not in both
  const paths = [...new Set(found.sides.flatMap((side) => side.updated_chunks.path))].filter((path) => !gone.has(path));
  if (!paths.length) return null;
  const both = { from: found.from, to: found.to };
  const item = (path) => h("li", {}, opening(name(path), paths.length === 1, async (body) => {
    const picture = h("div", { class: "instrument difference-map" });
    replace(body, picture);
    await drawDifference(picture, both, path, signal);
  }));
  return h("section", { class: "card changed wide", id: "between" }, h("h2", {}, "Difference of the values, ", version(found.to), " minus ", version(found.from)), h("ul", { class: "paths" }, paths.map(item)));
}

export async function drawCompare(main, parameters, signal) {
  const form = await chooser(parameters, signal);
  const body = h("div", { id: "difference" });
  replace(main, h("div", { class: "reading broad" }, h("h1", {}, "Compare"), form, body));
  if (!parameters.from || !parameters.to) {
    replace(body, h("p", { class: "quiet" }, "Choose two versions: branches, tags, or snapshots by their id."));
    return;
  }
  try {
    const found = await ask("diff", { from: parameters.from, to: parameters.to }, signal);
    const apart = found.sides.length > 1 ? h("p", { class: "notice" }, "Neither leads to the other. They have in common ", version(found.common), ": here is what changed on each side since.") : null;
    const backwards = found.sides.length === 1 && found.sides[0].from !== found.from ? h("p", { class: "notice" }, "The first is the newer one: this is what changed up to it.") : null;
    replace(body, apart, backwards, apart ? between(found, signal) : null, found.sides.length ? found.sides.map((side) => sideOf(side, signal)) : h("p", { class: "quiet" }, found.common ? "They are the same snapshot." : "They have no history in common."));
  } catch (error) {
    if (!signal.aborted) replace(body, failure(error));
  }
}
