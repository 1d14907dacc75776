// The first page: what the repository is about and what is in it; or the repositories, if there are several.

import { address, ask } from "./api.js";
import { h, name, replace } from "./dom.js";
import { age, bytes, count, firstLine, plural, shape, shortId, time } from "./format.js";
import { link } from "./router.js";

const own = (path) => path.slice(path.lastIndexOf("/") + 1);

function sizes(array) {
  const dimensions = array.dimension_names;
  if (!array.shape.length) return "scalar";
  return dimensions ? array.shape.map((each, at) => `${dimensions[at] ?? "–"} ${count(each)}`).join(" × ") : shape(array.shape);
}

// A small picture of the first slice; what cannot be drawn leaves an empty frame.
function thumbnail(array, at) {
  const image = h("img", { src: address("preview.png", { at, path: array.path, size: "small" }), alt: "", loading: "lazy", class: "thumbnail" });
  const frame = h("div", { class: "thumb" }, image);
  image.addEventListener("load", () => { if (image.naturalWidth === 1 && image.naturalHeight === 1) { image.remove(); frame.classList.add("none"); } });
  return frame;
}

function card(array, at) {
  return h("li", { class: "card array-card" }, h("a", { href: link("/browse", { at, path: array.path }), dataset: { path: array.path } }, thumbnail(array, at), h("strong", {}, name(array.long_name || own(array.path)), array.units ? [" ", h("span", { class: "quiet units" }, name(array.units))] : null)), h("span", { class: "quiet" }, name(array.path)), h("span", { class: "quiet small" }, h("bdi", {}, sizes(array)), ` · ${array.data_type} · ${bytes(array.bytes)}`));
}

function table(title, arrays, at) {
  if (!arrays.length) return null;
  const row = (array) => h("tr", {}, h("td", {}, h("a", { href: link("/browse", { at, path: array.path }) }, name(array.path))), h("td", {}, name(array.long_name || array.standard_name)), h("td", {}, name(array.units)), h("td", {}, h("bdi", {}, sizes(array))), h("td", {}, h("code", {}, array.data_type)), h("td", { class: "number" }, bytes(array.bytes)));
  return h("section", { class: "card wide" }, h("h2", {}, title), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, h("table", {}, h("thead", {}, h("tr", {}, ["Array", "Name", "Units", "Shape", "Type", "Size"].map((each, at_) => h("th", { scope: "col", class: at_ === 5 ? "number" : null }, each)))), h("tbody", {}, arrays.map(row)))));
}

function facts(found, at) {
  const cells = [["Arrays", count(found.total)], ["Groups", count(found.groups)], ["Values", `${bytes(found.bytes)}${found.is_partial ? " and more" : ""}`], ["Snapshots", count(found.snapshots)], ["Branches", count(found.branches)], ["Tags", count(found.tags)]];
  const last = h("p", { id: "last-change" }, h("span", { class: "quiet" }, "Last change "), h("time", { title: time(found.at_us) }, age(found.at_us)), ": ", h("a", { href: link("/commits", { commit: found.snapshot }) }, name(firstLine(found.message) || "(no message)")), " ", h("code", { class: "quiet" }, shortId(found.snapshot)), " · ", h("a", { href: link("/browse", { at }) }, "Browse the tree"));
  return [h("dl", { class: "statistics", id: "sizes" }, cells.map(([key, value]) => h("div", { dataset: { key } }, h("dt", {}, key), h("dd", {}, value)))), last];
}

export async function drawOverview(main, parameters, signal) {
  const at = parameters.at;
  const [found, repository] = await Promise.all([ask("overview", { at }, signal), ask("repository", {}, signal)]);
  const { title, ...about } = found.about;
  const maps = found.arrays.filter((each) => each.shape.length > 1 && !each.is_coordinate);
  const others = found.arrays.filter((each) => !maps.includes(each));
  replace(main, h("div", { class: "reading overview" },
    h("h1", {}, name(title ?? repository.name)),
    facts(found, at),
    Object.keys(about).length ? h("dl", { class: "facts about" }, Object.entries(about).map(([key, value]) => [h("dt", {}, key), h("dd", {}, h("bdi", {}, value))])) : null,
    maps.length ? h("ul", { class: "gallery", id: "gallery" }, maps.map((each) => card(each, at))) : null,
    table(maps.length ? "Coordinates and other arrays" : "Arrays", others, at),
    found.total > found.arrays.length ? h("p", { class: "quiet" }, `The first ${count(found.arrays.length)} of ${plural(found.total, "array")}.`) : null,
    found.total ? null : h("p", { class: "quiet" }, "There are no arrays in this version.")));
}

export async function drawRepositories(main, parameters, signal) {
  const found = await ask("repositories", {}, signal);
  const item = (each) => h("li", { class: "card array-card" }, h("a", { href: `/repo/${encodeURIComponent(each.name)}/`, dataset: { repository: each.name } }, h("strong", {}, name(each.about?.title ?? each.name))), h("span", { class: "quiet" }, name(each.name)), each.problem ? h("span", { class: "notice bad" }, h("bdi", {}, each.problem)) : [h("span", {}, `${plural(each.total, "array")}, ${bytes(each.bytes)}, ${plural(each.snapshots, "snapshot")}`), h("span", { class: "quiet" }, `changed ${age(each.at_us)}: `, name(firstLine(each.message)))]);
  replace(main, h("div", { class: "reading overview" }, h("h1", {}, name(found.name)), h("p", { class: "quiet" }, plural(found.repositories.length, "repository", "repositories")), h("ul", { class: "gallery", id: "repositories" }, found.repositories.map(item))));
}
