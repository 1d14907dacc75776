// What changed between two snapshots, down to chunks.

import { ask } from "./api.js";
import { drawChunks } from "./chunk_map.js";
import { h, name, replace } from "./dom.js";
import { count, plural, refLabel, shortId } from "./format.js";
import { failure, link, visit } from "./router.js";

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

function opening(label, draw) {
  let drawn = false;
  const body = h("div", {});
  return h("details", { ontoggle: async (event) => {
    if (drawn || !event.target.open) return;
    drawn = true;
    try {
      await draw(body);
    } catch (error) {
      replace(body, failure(error));
    }
  } }, h("summary", {}, label), body);
}

function metadata(side, path, signal) {
  return opening(name(path), async (body) => {
    const { before, after } = await ask("diff/metadata", { from: side.from, to: side.to, path }, signal);
    const lines = lineDiff(pretty(before.document), pretty(after.document));
    const classes = { "+": "added", "-": "removed", " ": "same" };
    const moved = before.path === after.path ? null : h("p", { class: "quiet" }, "was ", name(before.path));
    replace(body, moved, h("pre", { class: "line-diff" }, lines.map(([mark, text]) => h("span", { class: classes[mark] }, h("bdi", {}, `${mark} ${text}\n`)))));
  });
}

function chunkChanges(side, path, number, signal) {
  return opening([name(path), h("span", { class: "quiet" }, ` ${plural(number, "chunk")}`)], async (body) => {
    const page = await ask("diff/chunks", { from: side.from, to: side.to, path, limit: 200 }, signal);
    const rows = page.index.map((index, at) => h("li", { class: page.change[at] }, `${page.change[at]} ${index.join(", ") || "(the only one)"}`));
    const section = h("div", { class: "change-map" });
    replace(body, section, h("details", {}, h("summary", {}, page.total > rows.length ? `The first ${rows.length} of ${plural(page.total, "chunk")}` : plural(page.total, "chunk")), h("ul", { class: "chunk-list" }, rows)));
    await drawChunks(section, { at: side.to, path, grid: page.grid, names: page.dimension_names, signal, from: side.from, keep: false });
  });
}

function sideOf(side, signal) {
  const parts = [];
  for (const [key, title, kind] of LISTS) {
    if (!side[key].length) continue;
    const at = kind === "removed" ? side.from : side.to;
    const items = side[key].map((path) => h("li", {}, key.startsWith("updated") ? metadata(side, path, signal) : h("a", { href: link("/browse", { at, path }) }, name(path))));
    parts.push(h("section", { class: `card ${kind}`, dataset: { list: key } }, h("h3", {}, title, h("span", { class: "quiet" }, ` ${count(side.counts[key])}`)), h("ul", { class: "paths" }, items)));
  }
  if (side.moved.length) parts.push(h("section", { class: "card changed", dataset: { list: "moved" } }, h("h3", {}, "Moved"), h("ul", { class: "paths" }, side.moved.map(([from, to]) => h("li", {}, name(from), " → ", h("a", { href: link("/browse", { at: side.to, path: to }) }, name(to)))))));
  const chunks = side.updated_chunks;
  if (chunks.path.length) parts.push(h("section", { class: "card changed wide", dataset: { list: "updated_chunks" } }, h("h3", {}, "Chunks", h("span", { class: "quiet" }, ` ${count(side.counts.updated_chunks)}`)), h("ul", { class: "paths" }, chunks.path.map((path, at) => h("li", {}, chunkChanges(side, path, chunks.chunks[at], signal))))));
  return h("div", { class: "difference" }, h("h2", {}, "From ", version(side.from), " to ", version(side.to)), parts.length ? h("div", { class: "cards" }, parts) : h("p", { class: "quiet" }, "Nothing changed."));
}

export async function drawCompare(main, parameters, signal) {
  const form = await chooser(parameters, signal);
  const body = h("div", { id: "difference" });
  replace(main, h("div", { class: "reading" }, h("h1", {}, "Compare"), form, body));
  if (!parameters.from || !parameters.to) {
    replace(body, h("p", { class: "quiet" }, "Choose two versions: branches, tags, or snapshots by their id."));
    return;
  }
  try {
    const found = await ask("diff", { from: parameters.from, to: parameters.to }, signal);
    const apart = found.sides.length > 1 ? h("p", { class: "notice" }, "Neither leads to the other. They have in common ", version(found.common), ": here is what changed on each side since.") : null;
    const backwards = found.sides.length === 1 && found.sides[0].from !== found.from ? h("p", { class: "notice" }, "The first is the newer one: this is what changed up to it.") : null;
    replace(body, apart, backwards, found.sides.length ? found.sides.map((side) => sideOf(side, signal)) : h("p", { class: "quiet" }, found.common ? "They are the same snapshot." : "They have no history in common."));
  } catch (error) {
    if (!signal.aborted) replace(body, failure(error));
  }
}
