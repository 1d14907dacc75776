// A list of which only the visible rows exist: ten thousand rows cost as much as forty.

import { h, replace } from "./dom.js";

const BEYOND = 8; // rows that are drawn above and below the visible ones

export class VirtualList {
  // `draw(index)` returns the content of a row; `want(first, last)` may load what is missing.
  constructor({ label, total, rowHeight, draw, want, choose, open }) {
    Object.assign(this, { total, rowHeight, draw, want, choose, open });
    this.rows = new Map();
    this.chosen = -1;
    this.space = h("div", { class: "rows", role: "presentation", style: { height: `${total * rowHeight}px` } });
    this.element = h("div", { class: "list", role: "listbox", tabindex: 0, "aria-label": label, onscroll: () => this.update(), onkeydown: (event) => this.key(event) }, this.space);
    new ResizeObserver(() => this.update()).observe(this.element);
  }

  update() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - BEYOND);
    const last = Math.min(this.total, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + BEYOND);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) {
      if (!this.rows.has(index)) this.add(index);
    }
    this.want(first, last);
  }

  add(index) {
    const row = h("div", { class: "row", role: "option", id: `row-${index}`, "aria-selected": index === this.chosen ? "true" : "false", "aria-posinset": index + 1, "aria-setsize": this.total, style: { top: `${index * this.rowHeight}px`, height: `${this.rowHeight}px` }, onclick: () => this.select(index), ondblclick: () => this.open(index) }, this.draw(index));
    this.rows.set(index, row);
    this.space.append(row);
  }

  // Draws rows again whose content has arrived.
  refresh(first, last) {
    for (let index = first; index < last; index += 1) {
      const row = this.rows.get(index);
      if (row) replace(row, this.draw(index));
    }
  }

  select(index, { scroll = true, tell = true } = {}) {
    const wanted = Math.max(0, Math.min(index, this.total - 1));
    this.rows.get(this.chosen)?.setAttribute("aria-selected", "false");
    this.chosen = wanted;
    if (scroll) this.reveal(wanted);
    this.update();
    this.rows.get(wanted)?.setAttribute("aria-selected", "true");
    this.element.setAttribute("aria-activedescendant", `row-${wanted}`);
    if (tell) this.choose(wanted);
  }

  reveal(index) {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight) this.element.scrollTop = top + this.rowHeight - clientHeight;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total };
    if (event.key in steps) {
      event.preventDefault();
      this.select(this.chosen + steps[event.key]);
    } else if (event.key === "Enter") this.open(this.chosen);
  }
}
