// The keyboard: `/` searches, `?` helps, `g` and a letter goes to a page.

import { h } from "./dom.js";

const GOES = { h: "/", c: "/commits", b: "/browse", d: "/compare", q: "/sql", o: "/operations", s: "/storage" };
const KEYS = [
  ["/", "search"],
  ["?", "these keys"],
  ["g then h, c, b, d, q, o, s", "overview, commits, browse, compare (differences), SQL (queries), operations, storage"],
  ["↑ ↓ Home End PgUp PgDn", "move in the list of commits, in trees and in tables"],
  ["→ ←", "open and close a group in the tree"],
  ["Enter", "open what is chosen"],
  ["arrows on the chunk map", "move over chunks; Enter shows one or looks closer, Escape looks from afar"],
  ["arrows on a picture", "move over its values; Enter takes a point, Escape shows the whole"],
  ["Ctrl Enter", "run a query"],
  ["t", "light or dark"],
];

function isTyping(target) {
  return target.closest?.("input, select, textarea, dialog") !== null;
}

export function listenToKeys({ visit }) {
  const dialog = h(
    "dialog",
    { id: "keys", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h("dl", { class: "keys" }, KEYS.map(([key, meaning]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning)])),
    h("form", { method: "dialog" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close")),
  );
  document.body.append(dialog);
  let goes = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (goes && GOES[event.key]) {
      event.preventDefault();
      visit(GOES[event.key]);
    } else if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    } else if (event.key === "?") dialog.showModal();
    else if (event.key === "t") document.getElementById("theme")?.click();
    goes = event.key === "g";
  });
}
