// The explorer: what is on every page, and the way between pages.

import { ask, BASE } from "./api.js";
import { h, name, replace } from "./dom.js";
import { refLabel, shortId } from "./format.js";
import { listenToKeys } from "./keys.js";
import { amend, current, followLinks, link, page, show, visit } from "./router.js";
import { drawCommits } from "./commits.js";
import { drawBrowse } from "./browse.js";
import { drawCompare } from "./compare.js";
import { drawOperations } from "./operations.js";
import { drawOverview, drawRepositories } from "./overview.js";
import { drawSearch } from "./search.js";
import { drawSql } from "./sql.js";
import { drawStorage } from "./storage.js";

const IS_LIST = "several" in document.documentElement.dataset; // the list of several repositories

if (IS_LIST) page("/", "Repositories", drawRepositories);
else page("/", "Overview", drawOverview);
page("/commits", "Commits", drawCommits);
page("/browse", "Browse", drawBrowse);
page("/compare", "Compare", drawCompare);
page("/operations", "Operations", drawOperations);
page("/storage", "Storage", drawStorage);
page("/sql", "SQL", drawSql);
page("/search", "Search", drawSearch);

const TABS = [["/", "Overview"], ["/commits", "Commits"], ["/browse", "Browse"], ["/compare", "Compare"], ["/sql", "SQL"], ["/operations", "Operations"], ["/storage", "Storage"]];

const MOST = 300; // branches, and tags, to choose from

function switchTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("frazil-theme", root.dataset.theme);
}

function versionPicker(repository, at) {
  const option = (value, text) => h("option", { value, selected: value === at }, text);
  // Of very many the first: search finds the others.
  const first = (names) => names.slice(0, MOST);
  const group = (label, kind, names) => (names.length ? h("optgroup", { label }, first(names).map((each) => option(`${kind}:${each}`, each))) : null);
  const known = [...first(repository.branches.name).map((each) => `branch:${each}`), ...first(repository.tags.name).map((each) => `tag:${each}`)];
  const select = h(
    "select",
    { id: "version", "aria-label": "Version shown", onchange: () => choose(select.value) },
    known.includes(at) ? null : h("optgroup", { label: "Shown" }, option(at, at.includes(":") ? refLabel(at) : shortId(at))),
    group("Branches", "branch", repository.branches.name),
    group("Tags", "tag", repository.tags.name),
  );
  return h("label", { class: "version" }, h("span", { class: "quiet" }, "at"), select);
}

function choose(at) {
  const { path, parameters } = current();
  if (path === "/browse" || path === "/storage" || path === "/search" || path === "/sql" || path === "/") {
    visit(path, { ...parameters, at });
  } else visit("/browse", { at });
}

function drawTop(repository) {
  const { path, parameters } = current();
  const at = parameters.at ?? "branch:main";
  const field = h("input", { id: "search", type: "search", name: "q", placeholder: "Search   /", "aria-label": "Search paths, commits, branches and tags", autocomplete: "off", spellcheck: "false", value: path === "/search" ? parameters.q ?? "" : "" });
  const form = h("form", { role: "search", onsubmit: (event) => { event.preventDefault(); visit("/search", { q: field.value, at: parameters.at }); } }, field);
  const online = repository.status === "online";
  replace(
    document.getElementById("top"),
    BASE ? h("a", { class: "all", href: "/", title: "All repositories" }, "All") : null,
    h("a", { class: "brand", href: link("/", { at: parameters.at }), "aria-label": `${repository.name}: overview` }, h("img", { src: "/static/icon.svg", alt: "", width: 26, height: 26 }), name(repository.name)),
    online ? null : h("span", { class: "badge bad", title: repository.status_reason ?? "" }, repository.status),
    h("nav", { "aria-label": "Pages" }, TABS.map(([target, label]) => h("a", { href: link(target, { at: parameters.at }), "aria-current": target === path ? "page" : null }, label))),
    h("span", { class: "space" }),
    versionPicker(repository, at),
    form,
    h("button", { type: "button", class: "icon", title: "Light or dark", "aria-label": "Switch between light and dark", id: "theme", onclick: switchTheme }, "◐"),
    h("button", { type: "button", class: "icon", title: "Keys (?)", "aria-label": "Show the keys", id: "help", onclick: () => document.getElementById("keys").showModal() }, "?"),
  );
  const nav = document.querySelector("#top nav"); // on phones it is wider than the screen
  const here = nav.querySelector("[aria-current]");
  if (here) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
}

async function begin() {
  let repository = { name: "…", status: "online", branches: { name: [] }, tags: { name: [] } };
  document.addEventListener("visited", async () => {
    if (IS_LIST) return;
    drawTop(repository);
    try {
      repository = await ask("repository");
    } catch {
      return; // the page says so
    }
    if (document.activeElement?.id !== "search") drawTop(repository);
  });
  listenToKeys({ visit, amend });
  followLinks();
  await show();
}

begin();
