// Paths, commits, branches and tags that contain what was typed.

import { ask } from "./api.js";
import { h, name, replace } from "./dom.js";
import { age, count, firstLine, shortId } from "./format.js";
import { link } from "./router.js";

function group(title, total, items) {
  if (!items.length) return null;
  return h("section", { class: "card wide" }, h("h2", {}, title, h("span", { class: "quiet" }, items.length < total ? ` the first ${items.length} of ${count(total)}` : ` ${count(total)}`)), h("ul", { class: "paths results" }, items));
}

export async function drawSearch(main, parameters, signal) {
  const query = parameters.q ?? "";
  const at = parameters.at;
  const found = await ask("search", { q: query, at }, signal);
  const totals = found.totals ?? { refs: 0, paths: 0, commits: 0 };
  const refs = found.refs.map((each) => h("li", {}, h("a", { href: link("/browse", { at: `${each.kind}:${each.name}` }) }, h("span", { class: `badge ${each.kind}` }, name(each.name))), h("code", { class: "quiet" }, shortId(each.id))));
  const paths = found.paths.map((path, index) => h("li", {}, h("a", { href: link("/browse", { at, path }) }, name(path)), found.about[index] ? h("bdi", { class: "quiet" }, found.about[index]) : null));
  const commits = found.commits.map((each) => h("li", {}, h("a", { href: link("/commits", { commit: each.id }) }, name(firstLine(each.message) || "(no message)")), h("code", { class: "quiet" }, shortId(each.id)), h("time", { class: "quiet" }, age(each.at_us))));
  const nothing = !refs.length && !paths.length && !commits.length;
  replace(main, h("div", { class: "reading" }, h("h1", {}, "Search"), nothing ? h("p", { class: "quiet" }, query ? ["Nothing contains ", name(query), "."] : "Type what you are looking for.") : h("div", { class: "cards", id: "results" }, group("Branches and tags", totals.refs, refs), group("Groups and arrays", totals.paths, paths), group("Commits", totals.commits, commits))));
}
