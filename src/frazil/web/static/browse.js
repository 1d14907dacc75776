// The tree at a snapshot, and beside it the group or array that is chosen.

import { ask } from "./api.js";
import { drawChunks } from "./chunk_map.js";
import { h, name, replace } from "./dom.js";
import { bytes, count, plural, shape, shortId } from "./format.js";
import { drawInstrument, OPTIONS } from "./instrument.js";
import { amend, current, failure, link, visit } from "./router.js";
import { crumbs, Tree } from "./tree.js";
import { values } from "./values.js";

const OWN = ["path", ...OPTIONS, "from", "by", "map_axes", "chunk_at", "window", "chunk"];

function facts(node) {
  const rows = [["Kind", node.kind]];
  if (node.kind === "array") {
    const dimensions = node.dimension_names ? h("span", {}, node.dimension_names.map((each, at) => [at ? ", " : "", name(each ?? "–")])) : null;
    rows.push(["Shape", shape(node.shape)], dimensions ? ["Dimensions", dimensions] : null, ["Data type", h("code", {}, node.data_type)], ["Chunk grid", shape(node.grid)]);
    const grid = node.chunk_grid?.configuration?.chunk_shape;
    if (grid) rows.push(["Chunk shape", shape(grid)]);
    rows.push(["Fill value", h("code", {}, JSON.stringify(node.fill_value) ?? "–")], ["Codecs", node.codecs.map((each) => h("code", { class: "codec", title: JSON.stringify(each.configuration ?? {}) }, each.name ?? String(each)))], ["Manifests", count(node.manifests)]);
  } else rows.push(["Children", count(node.children)]);
  if (node.id) rows.push(["Node id", h("code", {}, node.id)]);
  return h("dl", { class: "facts", id: "node-facts" }, rows.filter(Boolean).map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
}

function documentOf(node) {
  if (!node.document) return null;
  const cut = node.document_bytes > node.document.length ? ` (the beginning of ${bytes(node.document_bytes)})` : "";
  return h("details", { class: "document" }, h("summary", {}, `zarr.json${cut}`), h("pre", {}, h("bdi", {}, pretty(node.document))));
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function table(at, path, signal) {
  const page = await ask("children", { at, path, limit: 200 }, signal);
  if (!page.total) return h("p", { class: "quiet" }, "This group is empty.");
  const rows = page.name.map((each, index) => h("tr", {}, h("td", {}, h("a", { href: link("/browse", { at, path: page.child[index] }) }, name(each))), h("td", {}, page.kind[index]), h("td", {}, page.shape[index] ? shape(page.shape[index]) : ""), h("td", {}, page.data_type[index] ? h("code", {}, page.data_type[index]) : "")));
  return h("table", { class: "children" }, h("thead", {}, h("tr", {}, ["Name", "Kind", "Shape", "Type"].map((each) => h("th", { scope: "col" }, each)))), h("tbody", {}, rows), page.total > rows.length ? h("caption", {}, `the first ${rows.length} of ${count(page.total)}`) : null);
}

async function sums(at, path, signal) {
  const found = await ask("chunks", { at, path }, signal);
  const stored = Object.values(found.bytes).reduce((one, other) => one + other, 0);
  const rows = Object.entries(found.counts).filter(([kind, number]) => number || kind === "missing");
  return h("table", { id: "chunk-counts" }, h("thead", {}, h("tr", {}, ["Chunks", "Number", "Stored"].map((each, at) => h("th", { scope: "col", class: at ? "number" : null }, each)))), h("tbody", {}, rows.map(([kind, number]) => h("tr", { dataset: { kind } }, h("td", {}, h("span", { class: `swatch ${kind}` }), kind), h("td", { class: "number" }, count(number)), h("td", { class: "number" }, kind === "missing" ? "" : bytes(found.bytes[kind]))))), h("tfoot", {}, h("tr", {}, h("td", {}, "all"), h("td", { class: "number" }, count(found.total)), h("td", { class: "number" }, bytes(stored)))));
}

function subtitle(node) {
  const about = node.attributes.long_name ?? node.attributes.title;
  return typeof about === "string" ? h("bdi", { class: "subtitle" }, about.slice(0, 200)) : null;
}

// A choice of versions that the values are compared with.
async function comparison(at, signal) {
  const { from } = current().parameters;
  const [repository, commit] = await Promise.all([ask("repository", {}, signal), ask("commit", { at }, signal)]);
  const names = (kind, refs) => refs.name.slice(0, 200).map((each) => [`${kind}:${each}`, `${kind} ${each}`]);
  const known = [["", "nothing: the values"], ...(commit.parent ? [[commit.parent, "the parent commit"]] : []), ...names("branch", repository.branches), ...names("tag", repository.tags)].filter(([value]) => value !== at);
  if (from && !known.some(([value]) => value === from)) known.push([from, from]);
  const select = h("select", { id: "compared", "aria-label": "Version to compare with", onchange: () => visit("/browse", { ...current().parameters, from: select.value || null, low: null, high: null, scale: null }) }, known.map(([value, label]) => h("option", { value, selected: value === (from ?? "") }, label)));
  return h("label", { class: "compared" }, h("span", { class: "quiet" }, "Difference to"), select);
}

async function drawNode(panel, at, path, signal) {
  const node = await ask("node", { at, path }, signal);
  const title = path === "/" ? "/" : path.slice(path.lastIndexOf("/") + 1);
  const body = h("div", { class: "node-page" });
  const version = h("span", { class: "quiet" }, `${node.kind} at snapshot `, h("a", { href: link("/commits", { commit: node.snapshot }) }, h("code", {}, shortId(node.snapshot))));
  const heading = h("div", { class: "heading" }, h("h1", {}, name(title)), subtitle(node), version);
  replace(panel, crumbs(at, path), heading, body);
  if (node.kind === "array") heading.append(await comparison(at, signal));
  const attributes = Object.keys(node.attributes);
  const about = h("section", { class: "card" }, h("h2", {}, "About"), facts(node));
  const noted = h("section", { class: "card" }, h("h2", {}, "Attributes"), attributes.length ? values(node.attributes) : h("p", { class: "quiet" }, "None."), documentOf(node));
  if (node.kind === "group") {
    replace(body, h("section", { class: "card wide" }, h("h2", {}, plural(node.children, "child", "children")), await table(at, path, signal)), about, noted);
    return;
  }
  const picture = h("section", { class: "card wide instrument", id: "preview", "aria-label": "Values" });
  const map = h("section", { class: "card", id: "chunks" }, h("h2", {}, "Chunks"));
  replace(body, picture, map, about, noted);
  const failed = (where) => (error) => { if (!signal.aborted) where.append(failure(error)); };
  await Promise.all([
    drawInstrument(picture, { node, at, signal, from: current().parameters.from }).catch(failed(picture)),
    sums(at, path, signal).then((each) => about.append(each)).then(() => drawChunks(map, { at, path, grid: node.grid, names: node.dimension_names, signal })).catch(failed(map)),
  ]);
}

export async function drawBrowse(main, parameters, signal) {
  const at = parameters.at ?? "branch:main";
  const path = parameters.path ?? "/";
  const panel = h("section", { class: "panel wide", "aria-label": "Chosen node", id: "node" });

  // Another node: the tree stays as it is.
  async function choose(target) {
    const nothing = Object.fromEntries(OWN.map((each) => [each, null]));
    amend({ ...nothing, at: parameters.at, path: target }, { push: true });
    document.dispatchEvent(new CustomEvent("visited"));
    await show(target);
  }

  let drawing = null;
  async function show(target) {
    drawing?.abort();
    drawing = new AbortController();
    const own = drawing.signal;
    signal.addEventListener("abort", () => drawing.abort());
    main.dataset.state = "loading";
    tree.mark(target);
    try {
      await drawNode(panel, at, target, own);
    } catch (error) {
      if (own.aborted) return;
      replace(panel, failure(error));
    }
    if (!own.aborted) main.dataset.state = "ready";
  }

  const tree = new Tree(at, signal, choose);
  const side = h("aside", { class: "side", "aria-label": "Tree" }, tree.element);
  replace(main, h("div", { class: "split browse" }, side, panel));
  await tree.begin(path);
  await show(path);
}
