// Every state has a URL: a page, and parameters. Pages are drawn anew when these change.

import { BASE } from "./api.js";
import { announce, h, replace } from "./dom.js";

const pages = new Map();
let drawing = null;

export function page(path, title, draw) {
  pages.set(path, { title, draw });
}

export function link(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return BASE + (query ? `${path}?${query}` : path);
}

export function current() {
  const path = location.pathname.slice(BASE.length) || "/";
  return { path, parameters: Object.fromEntries(new URLSearchParams(location.search)) };
}

export function visit(path, parameters = {}) {
  history.pushState(null, "", link(path, parameters));
  show();
}

// The same page with some parameters changed: what is drawn is up to the page.
export function amend(changes, { push = false } = {}) {
  const { path, parameters } = current();
  const target = link(path, { ...parameters, ...changes });
  if (target === location.pathname + location.search) return;
  if (push) history.pushState(null, "", target);
  else history.replaceState(null, "", target);
  document.dispatchEvent(new CustomEvent("amended"));
}

export function failure(error) {
  return h("div", { class: "notice bad", role: "alert" }, h("strong", {}, "This did not work. "), error.message);
}

export async function show() {
  drawing?.abort();
  drawing = new AbortController();
  const { signal } = drawing;
  const { path, parameters } = current();
  const main = document.getElementById("page");
  const found = pages.get(path);
  document.dispatchEvent(new CustomEvent("visited"));
  if (!found) {
    replace(main, h("div", { class: "notice bad" }, "There is no such page."));
    return;
  }
  document.title = `${found.title} · frazil explorer`;
  main.dataset.page = path;
  main.dataset.state = "loading";
  try {
    await found.draw(main, parameters, signal);
    if (signal.aborted) return;
    announce(found.title);
  } catch (error) {
    if (signal.aborted) return;
    replace(main, failure(error));
  }
  main.dataset.state = "ready";
}

export function followLinks() {
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const target = new URL(anchor.href);
    if (target.origin !== location.origin || anchor.hasAttribute("download") || anchor.getAttribute("href").startsWith("#")) return;
    if (!target.pathname.startsWith(`${BASE}/`) || (!BASE && /^\/(repo|api)\//.test(target.pathname))) return; // another repository
    event.preventDefault();
    history.pushState(null, "", target.pathname + target.search);
    show();
    document.getElementById("page").focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  addEventListener("popstate", show);
}
