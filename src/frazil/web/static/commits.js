// The history of the whole repository, as a graph and a list, and one commit beside it.

import { ask } from "./api.js";
import { h, name, replace, svg } from "./dom.js";
import { age, count, firstLine, plural, shortId, time } from "./format.js";
import { amend, failure, link, visit } from "./router.js";
import { values } from "./values.js";
import { VirtualList } from "./virtual_list.js";

const PAGE = 200;
const ROW = 38;
const LANE = 15;
const COLOURS = 7;

const x = (lane) => 14 + LANE * lane;

function graph(commit, lanes) {
  const middle = ROW / 2;
  const lines = commit.segments.map(([lane, line, above, below, joins]) => {
    const path = joins < 0
      ? `M ${x(lane)} ${above ? 0 : middle} V ${below ? ROW : middle}`
      : `M ${x(lane)} 0 C ${x(lane)} ${middle * 0.7}, ${x(joins)} ${middle * 0.3}, ${x(joins)} ${middle}`;
    return svg("path", { d: path, class: `line line-${line % COLOURS}` });
  });
  const dot = svg("circle", { cx: x(commit.lane), cy: middle, r: commit.detached ? 4 : 5, class: `dot line-${commit.line % COLOURS}${commit.detached ? " detached" : ""}` });
  return svg("svg", { class: "graph", width: x(lanes - 1) + 14, height: ROW, "aria-hidden": "true" }, lines, dot);
}

export function badges(commit) {
  return [
    commit.branches.map((each) => h("span", { class: "badge branch" }, name(each))),
    commit.tags.map((each) => h("span", { class: "badge tag" }, name(each))),
    commit.detached ? h("span", { class: "badge detached", title: "No branch or tag leads to this snapshot" }, "detached") : null,
  ];
}

class History {
  constructor(total, lanes) {
    this.total = total;
    this.lanes = lanes;
    this.rows = new Array(total);
    this.asked = new Map();
  }

  keep(page) {
    this.lanes = page.lanes;
    page.id.forEach((id, at) => {
      const row = { id };
      for (const column of ["parent", "at_us", "message", "branches", "tags", "detached", "lane", "line", "segments"]) row[column] = page[column][at];
      this.rows[page.offset + at] = row;
    });
  }

  async load(number, signal) {
    if (!this.asked.has(number)) {
      this.asked.set(number, ask("commits", { offset: number * PAGE, limit: PAGE }, signal).then((page) => this.keep(page)));
    }
    return this.asked.get(number);
  }
}

function row(known, index) {
  const commit = known.rows[index];
  if (!commit) return h("span", { class: "quiet" }, "…");
  return [
    graph(commit, known.lanes),
    h("span", { class: "message" }, badges(commit), name(firstLine(commit.message) || "(no message)")),
    h("code", { class: "id" }, shortId(commit.id)),
    h("time", { class: "quiet", title: time(commit.at_us) }, age(commit.at_us)),
  ];
}

function changes(facts) {
  if (!facts.changes) return null;
  const words = { new_groups: "new group", new_arrays: "new array", deleted_groups: "deleted group", deleted_arrays: "deleted array", updated_groups: "changed group", updated_arrays: "changed array", updated_chunks: "written chunk", moved: "moved node" };
  const found = Object.entries(words).filter(([key]) => facts.changes[key]).map(([key, word]) => h("li", {}, plural(facts.changes[key], word)));
  return found.length ? h("ul", { class: "facts" }, found) : h("p", { class: "quiet" }, "No changes.");
}

function details(facts) {
  const at = facts.id;
  return [
    h("h2", { class: "commit-message" }, name(firstLine(facts.message) || "(no message)")),
    facts.message.includes("\n") ? h("pre", { class: "prose" }, h("bdi", {}, facts.message.split("\n").slice(1).join("\n").trim())) : null,
    h("p", { class: "badges" }, badges(facts)),
    h("p", { class: "actions" },
      h("a", { class: "button", href: link("/browse", { at }) }, "Browse this snapshot"),
      facts.parent ? h("a", { class: "button", href: link("/compare", { from: facts.parent, to: at }) }, "Compare with parent") : null),
    h("dl", { class: "facts" },
      h("dt", {}, "Snapshot"), h("dd", {}, h("code", { id: "commit-id" }, at)),
      h("dt", {}, "Written"), h("dd", {}, `${time(facts.at_us)} (${age(facts.at_us)})`),
      h("dt", {}, "Parent"), h("dd", {}, facts.parent ? h("a", { href: link("/commits", { commit: facts.parent }) }, h("code", {}, facts.parent)) : "none"),
      facts.children.length ? [h("dt", {}, facts.children.length === 1 ? "Child" : "Children"), h("dd", {}, facts.children.map((id) => h("a", { class: "id-link", href: link("/commits", { commit: id }) }, h("code", {}, shortId(id)))))] : null),
    h("h3", {}, "Changes"), changes(facts) ?? h("p", { class: "quiet" }, "Not recorded."),
    Object.keys(facts.metadata).length ? [h("h3", {}, "Metadata"), values(facts.metadata)] : null,
  ];
}

export async function drawCommits(main, parameters, signal) {
  const first = await ask("commits", { offset: 0, limit: PAGE }, signal);
  const known = new History(first.total, first.lanes);
  known.keep(first);
  known.asked.set(0, Promise.resolve());
  const panel = h("aside", { class: "panel", "aria-label": "Chosen commit", id: "commit" });
  let shown = 0;

  async function load(number) {
    try {
      await known.load(number, signal);
      list.refresh(number * PAGE, (number + 1) * PAGE);
    } catch (error) {
      if (!signal.aborted) replace(panel, failure(error));
    }
  }

  async function choose(index) {
    const number = ++shown;
    if (!known.rows[index]) await load(Math.floor(index / PAGE));
    const commit = known.rows[index];
    if (!commit || number !== shown) return;
    amend({ commit: commit.id });
    try {
      const facts = await ask("commit", { at: commit.id }, signal);
      if (number === shown) replace(panel, details(facts));
    } catch (error) {
      if (!signal.aborted) replace(panel, failure(error));
    }
  }

  const list = new VirtualList({
    label: "Commits, newest first",
    total: known.total,
    rowHeight: ROW,
    draw: (index) => row(known, index),
    want: (start, stop) => {
      for (let number = Math.floor(start / PAGE); number * PAGE < stop; number += 1) {
        if (!known.asked.has(number)) load(number);
      }
    },
    choose,
    open: (index) => known.rows[index] && visit("/browse", { at: known.rows[index].id }),
  });
  const place = parameters.commit ? (await ask("commit", { at: parameters.commit }, signal)).place ?? 0 : 0;
  if (signal.aborted) return;
  const summary = h("p", { class: "quiet summary", id: "commit-count" }, `${plural(known.total, "snapshot")}, newest first`);
  replace(main, h("div", { class: "split commits" }, h("section", { class: "column" }, h("h1", {}, "Commits"), summary, list.element), panel));
  list.update();
  if (place) list.element.scrollTop = Math.max(0, (place - 5) * ROW);
  list.select(place, { scroll: Boolean(place), tell: false });
  list.element.focus({ preventScroll: true });
  if (parameters.commit || known.total) await choose(place);
  main.dataset.total = count(known.total);
}
