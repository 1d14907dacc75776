// Groups and arrays as a tree whose branches are loaded when they are opened.

import { ask } from "./api.js";
import { h, name, replace } from "./dom.js";
import { count, shape } from "./format.js";
import { link } from "./router.js";

const PAGE = 500;

export class Tree {
  constructor(at, signal, choose) {
    Object.assign(this, { at, signal, choose });
    this.element = h("ul", { class: "tree", role: "tree", "aria-label": "Groups and arrays", onkeydown: (event) => this.key(event) });
    this.items = new Map();
  }

  async begin(path) {
    const root = this.item({ name: "/", path: "/", kind: "group", level: 1 });
    this.element.append(root);
    root.tabIndex = 0;
    await this.open("/");
    const parts = path.split("/").filter(Boolean);
    for (let depth = 1; depth <= parts.length; depth += 1) await this.open(`/${parts.slice(0, depth).join("/")}`);
    this.mark(path);
  }

  item({ name: text, path, kind, level, sizes, type }) {
    const isGroup = kind === "group";
    const label = h("a", { class: `node ${kind}`, href: link("/browse", { at: this.at, path }), tabindex: -1, onclick: (event) => { if (!event.ctrlKey && !event.metaKey) { event.preventDefault(); this.open(path); this.choose(path); } } }, h("span", { class: "mark", "aria-hidden": "true" }, isGroup ? "▸" : "▦"), name(text), sizes ? h("span", { class: "quiet sizes" }, `${shape(sizes)} ${type ?? ""}`) : null);
    label.querySelector(".mark").addEventListener("click", (event) => { if (isGroup) { event.preventDefault(); event.stopPropagation(); this.toggle(path); } });
    const item = h("li", { role: "treeitem", "aria-level": level, "aria-expanded": isGroup ? "false" : null, "aria-selected": "false", tabindex: -1, dataset: { path, level } }, label);
    this.items.set(path, item);
    return item;
  }

  async open(path) {
    const item = this.items.get(path);
    if (!item || item.getAttribute("aria-expanded") !== "false") return;
    item.setAttribute("aria-expanded", "true");
    const list = h("ul", { role: "group" });
    item.append(list);
    await this.more(item, list, path, 0);
  }

  async more(item, list, path, offset) {
    const page = await ask("children", { at: this.at, path, offset, limit: PAGE }, this.signal);
    const level = Number(item.dataset.level) + 1;
    page.child.forEach((child, index) => list.append(this.item({ name: page.name[index], path: child, kind: page.kind[index], level, sizes: page.shape[index], type: page.data_type[index] })));
    const next = offset + page.child.length;
    if (next < page.total) {
      const button = h("button", { type: "button", class: "more", onclick: () => { button.remove(); this.more(item, list, path, next); } }, `${count(page.total - next)} more…`);
      list.append(button);
    }
    if (!page.total) list.append(h("li", { role: "none", class: "quiet empty" }, "empty"));
  }

  close(path) {
    const item = this.items.get(path);
    if (item?.getAttribute("aria-expanded") !== "true") return;
    item.setAttribute("aria-expanded", "false");
    item.querySelectorAll("[role=treeitem]").forEach((each) => this.items.delete(each.dataset.path));
    item.querySelector("ul")?.remove();
  }

  toggle(path) {
    if (this.items.get(path)?.getAttribute("aria-expanded") === "true") this.close(path);
    else this.open(path);
  }

  mark(path) {
    this.element.querySelectorAll("[aria-selected=true]").forEach((each) => each.setAttribute("aria-selected", "false"));
    const item = this.items.get(path);
    if (!item) return;
    item.setAttribute("aria-selected", "true");
    this.focusOn(item, false);
  }

  focusOn(item, focus = true) {
    this.element.querySelectorAll("[role=treeitem][tabindex='0']").forEach((each) => { each.tabIndex = -1; });
    item.tabIndex = 0;
    if (focus) item.focus();
    item.firstElementChild.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.target.tagName === "BUTTON") return;
    const visible = [...this.element.querySelectorAll("[role=treeitem]")];
    const at = visible.indexOf(item);
    const path = item.dataset.path;
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: visible.length - 1 };
    if (event.key in moves) this.focusOn(visible[Math.max(0, Math.min(moves[event.key], visible.length - 1))]);
    else if (event.key === "ArrowRight") {
      if (item.getAttribute("aria-expanded") === "false") this.open(path);
      else if (visible[at + 1]) this.focusOn(visible[at + 1]);
    } else if (event.key === "ArrowLeft") {
      if (item.getAttribute("aria-expanded") === "true") this.close(path);
      else this.focusOn(item.parentElement.closest("[role=treeitem]") ?? item);
    } else if (event.key === "Enter" || event.key === " ") { this.open(path); this.choose(path); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

export function crumbs(at, path) {
  const parts = path.split("/").filter(Boolean);
  const list = h("nav", { class: "crumbs", "aria-label": "Path" }, h("a", { href: link("/browse", { at }) }, "/"));
  parts.forEach((part, index) => {
    const target = `/${parts.slice(0, index + 1).join("/")}`;
    list.append(index ? h("span", { class: "quiet" }, "/") : "", h("a", { href: link("/browse", { at, path: target }), "aria-current": index === parts.length - 1 ? "page" : null }, name(part)));
  });
  return list;
}
