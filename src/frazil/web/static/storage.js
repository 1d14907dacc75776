// How much is stored, at once from what a snapshot lists, and in full if asked for.

import { ask } from "./api.js";
import { h, name, replace } from "./dom.js";
import { bytes, count } from "./format.js";
import { failure } from "./router.js";

function bar(part, whole) {
  return h("div", { class: "bar" }, ["native", "inlined", "virtual"].map((kind) => h("i", { class: `part ${kind}`, title: `${kind} ${bytes(part[`${kind}_bytes`])}`, style: { width: `${whole ? (100 * part[`${kind}_bytes`]) / whole : 0}%` } })));
}

const all = (part) => part.native_bytes + part.virtual_bytes + part.inlined_bytes;

function owners(title, list) {
  if (!list.length) return null;
  const most = Math.max(...list.map((each) => all(each.total)));
  const sorted = [...list].sort((one, other) => all(other.total) - all(one.total)).slice(0, 500);
  return h("section", { class: "card wide" }, h("h2", {}, title), h("table", {}, h("thead", {}, h("tr", {}, ["Name", "All", "Alone", "Share"].map((each, at) => h("th", { scope: "col", class: at === 1 || at === 2 ? "number" : null }, each)))), h("tbody", {}, sorted.map((each) => h("tr", {}, h("td", {}, h("span", { class: "quiet" }, each.kind === "array" ? "" : `${each.kind} `), name(each.name)), h("td", { class: "number" }, bytes(all(each.total))), h("td", { class: "number", title: "what would be freed without it" }, bytes(all(each.exclusive))), h("td", { class: "bar-cell" }, bar(each.total, most)))))));
}

function counted(found) {
  const { total } = found;
  const cells = [["In chunk objects", total.native_bytes], ["In manifests", total.inlined_bytes], ["In files of others", total.virtual_bytes], ["Manifest files", found.manifest_bytes]];
  return [h("dl", { class: "statistics", id: "storage-totals" }, cells.map(([key, value]) => h("div", { dataset: { key } }, h("dt", {}, key), h("dd", {}, bytes(value))))), h("p", { class: "quiet" }, `${count(found.references)} chunk references in ${count(found.manifests)} manifests of ${count(found.snapshots)} snapshots. Chunks that several have are counted once; “alone” is what would be freed.`), h("div", { class: "cards" }, owners("Branches and tags", found.refs), owners("Arrays", found.arrays))];
}

export async function drawStorage(main, parameters, signal) {
  const found = await ask("storage", { at: parameters.at }, signal);
  const body = h("div", { id: "counted" });
  const button = h("button", { type: "button", id: "count", onclick: async () => {
    button.disabled = true;
    button.textContent = "Counting…";
    try {
      const full = await ask("storage", { at: parameters.at, count: "all" }, signal);
      replace(body, counted(full.counted));
      button.parentElement.remove();
    } catch (error) {
      replace(body, failure(error));
      button.disabled = false;
      button.textContent = "Count again";
    }
  } }, "Count all chunks");
  const facts = [["Snapshots", count(found.snapshots)], ["Branches", count(found.branches)], ["Tags", count(found.tags)], ["Manifests here", count(found.manifests)], ["Chunk references here", count(found.references)], ["Manifest bytes here", bytes(found.manifest_bytes)]];
  replace(main, h("div", { class: "reading" }, h("h1", {}, "Storage"), h("dl", { class: "statistics" }, facts.map(([key, value]) => h("div", { dataset: { key } }, h("dt", {}, key), h("dd", {}, value)))), h("p", {}, button, " ", h("span", { class: "quiet" }, "reads every manifest of every snapshot")), body));
}
