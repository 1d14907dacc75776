// Everything that was done to the repository, newest first.

import { ask } from "./api.js";
import { h, name, replace } from "./dom.js";
import { age, time } from "./format.js";
import { link } from "./router.js";

const PAGE = 200;
const ID = /^[0-9A-HJKMNP-TV-Z]{20}$/;

function fact(key, value) {
  return h("span", { class: "fact" }, h("span", { class: "quiet" }, `${key} `), ID.test(value) ? h("a", { href: link("/commits", { commit: value }) }, h("code", {}, value)) : name(value));
}

export async function drawOperations(main, parameters, signal) {
  const body = h("tbody", {});
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Earlier operations");
  let offset = 0;

  async function load() {
    const page = await ask("operations", { offset, limit: PAGE }, signal);
    if (!page.available) {
      replace(main, h("div", { class: "reading" }, h("h1", {}, "Operations"), h("p", { class: "notice" }, "This repository keeps no log of operations: ", page.reason)));
      return;
    }
    page.at_us.forEach((at, index) => body.append(h("tr", {}, h("td", {}, h("time", { title: age(at) }, time(at))), h("td", {}, page.operation[index]), h("td", {}, Object.entries(page.facts[index]).map(([key, value]) => fact(key, value))))));
    offset += page.at_us.length;
    more.hidden = !page.more;
  }

  replace(main, h("div", { class: "reading" }, h("h1", {}, "Operations"), h("table", { id: "operations" }, h("thead", {}, h("tr", {}, ["At", "Operation", "About"].map((each) => h("th", { scope: "col" }, each)))), body), more));
  await load();
}
