// Queries in SQL, where Spark is installed. Nothing runs before the button or Ctrl+Enter is pressed.

import { ask } from "./api.js";
import { announce, h, name, replace } from "./dom.js";
import { count, plural } from "./format.js";
import { amend } from "./router.js";
import { queryAsPython, quoted, showCode } from "./snippets.js";

const DRAWN = 1000; // rows in the table; CSV has all
const TICK_MS = 200;

// Also for spreadsheets: quotes where they are needed, lines end as RFC 4180 wants them.
function csv({ columns, rows }) {
  const cell = (each) => (each === null ? "" : /[",\r\n]/.test(each) ? `"${each.replaceAll('"', '""')}"` : each);
  return [columns.map((each) => each.name), ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function download(text, file) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  h("a", { href: url, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function table({ columns, rows }) {
  if (columns.length === 1 && columns[0].name === "plan" && rows.length === 1) return h("pre", { id: "plan", tabindex: 0 }, h("bdi", {}, rows[0][0]));
  const kind = (index) => (columns[index].is_number ? "number" : null);
  const cell = (each, index) => h("td", { class: kind(index) }, each === null ? h("span", { class: "quiet" }, "NULL") : h("bdi", { class: "text" }, each));
  const head = h("tr", {}, columns.map((each, index) => h("th", { scope: "col", class: kind(index), title: each.type }, name(each.name, { title: each.type }), h("span", { class: "quiet" }, ` ${each.type.slice(0, 30)}`))));
  return h("div", { class: "result", tabindex: 0, role: "region", "aria-label": "Result" }, h("table", { id: "result" }, h("thead", {}, head), h("tbody", {}, rows.slice(0, DRAWN).map((row) => h("tr", {}, row.map(cell))))));
}

function summary(found, limits) {
  const { rows, more, seconds } = found;
  const limit = more ? `the first ${plural(rows.length, "row")}; there are more, of which nothing is shown (at most ${count(limits.rows)} rows)` : plural(rows.length, "row");
  const drawn = rows.length > DRAWN ? `, ${count(DRAWN)} of them in the table, all in the CSV` : "";
  return `${limit}${drawn}, in ${seconds.toFixed(1)} s`;
}

// A name that was clicked goes where the cursor is.
function insert(field, text) {
  field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
  field.focus();
  field.dispatchEvent(new Event("input"));
}

function tableList(tables, field) {
  const word = (each) => h("button", { type: "button", class: "word", title: `Insert ${each}`, onclick: () => insert(field, quoted(each)) }, name(each, { title: null }));
  const rows = tables.map((each) => h("li", {}, word(each.name), h("span", { class: "quiet" }, " ", h("bdi", {}, each.path), ": "), each.columns.map((column) => [word(column), " "])));
  return h("details", { class: "card tables", open: tables.length < 9 }, h("summary", {}, `Tables and columns (${count(tables.length)})`), h("ul", { class: "paths" }, rows));
}

export async function drawSql(main, parameters, signal) {
  const at = parameters.at ?? "branch:main";
  const [facts, repository] = await Promise.all([ask("sql/tables", { at }, signal), ask("repository", {}, signal)]);
  if (!facts.available) {
    replace(main, h("div", { class: "reading" }, h("h1", {}, "SQL"), h("p", { class: "notice", id: "install" }, "Queries need Spark, which is not installed beside this server. ", h("code", {}, facts.install), " installs it, with a Java of its own; then start ", h("code", {}, "frazil serve"), " again.")));
    return;
  }
  const { tables, limits } = facts;
  const first = tables[0] ? `SELECT * FROM ${quoted(tables[0].name)} LIMIT 20` : "SELECT 1";
  const field = h("textarea", { id: "query", rows: 6, spellcheck: "false", autocomplete: "off", autocapitalize: "off", maxlength: limits.letters, "aria-label": "Query in SQL", value: parameters.q ?? first, oninput: () => amend({ q: field.value }) });
  const run = h("button", { type: "submit", id: "run", title: "Ctrl+Enter" }, "Run");
  const cancel = h("button", { type: "button", id: "cancel", hidden: true, onclick: () => running?.abort() }, "Cancel");
  const python = h("button", { type: "button", id: "copy-python", onclick: () => showCode(main, "Python", queryAsPython({ location: repository.location, at, query: field.value, tables }), "snippet") }, "Copy as Python");
  const save = h("button", { type: "button", id: "save-csv", hidden: true, onclick: () => download(csv(shown), "query.csv") }, "Download CSV");
  const status = h("p", { class: "quiet", id: "query-status", role: "status" }, `At most ${count(limits.rows)} rows and ${count(limits.seconds)} seconds. The first query starts Spark, which takes some seconds.`);
  const output = h("div", { id: "output" });
  let running = null;
  let shown = null;

  function tell(state, text) {
    form.dataset.state = state;
    [run.disabled, cancel.hidden, save.hidden] = [state === "running", state !== "running", !shown];
    status.textContent = text;
  }

  async function start() {
    if (running || !field.value.trim()) return;
    const own = (running = new AbortController());
    const begun = performance.now();
    const clock = () => tell("running", `Running for ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    shown = null;
    replace(output);
    clock();
    const timer = setInterval(clock, TICK_MS);
    try {
      const found = await ask("sql", { q: field.value, at }, own.signal);
      if (found.problem) throw new Error(found.problem);
      shown = found;
      replace(output, table(found));
      tell("done", summary(found, limits));
    } catch (error) {
      if (own.signal.aborted) tell("cancelled", "Cancelled.");
      else {
        replace(output, h("div", { class: "notice bad", role: "alert" }, h("pre", { id: "query-error" }, h("bdi", {}, error.message))));
        tell("failed", "No result.");
      }
    } finally {
      clearInterval(timer);
      running = null;
      if (!signal.aborted) announce(status.textContent);
    }
  }

  signal.addEventListener("abort", () => running?.abort()); // another page: the query is not needed
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    start();
  });
  const form = h("form", { id: "query-form", onsubmit: (event) => { event.preventDefault(); start(); } }, field, h("div", { class: "actions" }, run, cancel, python, save));
  const about = h("p", { class: "quiet" }, "Queries only read, at the version chosen above. ", h("code", {}, "repo"), " is the root group, ", h("code", {}, "repo.`a/b`"), " or ", h("code", {}, "a_b"), " a group in it; ", h("code", {}, "EXPLAIN"), " before a query shows what it would read.");
  replace(main, h("div", { class: "reading broad" }, h("h1", {}, "SQL"), about, tableList(tables, field), form, status, output));
}
