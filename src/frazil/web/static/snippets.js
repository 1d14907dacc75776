// What is shown, as a program in Python and as a query.

import { h } from "./dom.js";

const text = (value) => JSON.stringify(value);

// A program to be copied, in a dialog.
export function showCode(parent, language, code, id = null) {
  const done = h("span", { class: "quiet", role: "status" });
  const copy = () => navigator.clipboard.writeText(code).then(() => { done.textContent = "Copied."; }, () => { done.textContent = "Not allowed here: select the text."; });
  const dialog = h("dialog", { class: "code", "aria-label": `As ${language}`, onclose: () => dialog.remove() }, h("h2", {}, `As ${language}`), h("pre", { id, tabindex: 0 }, h("bdi", {}, code)), h("div", { class: "actions" }, h("button", { type: "button", onclick: copy }, "Copy"), h("button", { type: "button", onclick: () => dialog.close() }, "Close"), done));
  parent.append(dialog);
  dialog.showModal();
}

function session(at) {
  if (at.startsWith("branch:")) return `branch=${text(at.slice(7))}`;
  if (at.startsWith("tag:")) return `tag=${text(at.slice(4))}`;
  return `snapshot_id=${text(at)}`;
}

// A position for each dimension, or [start, end] for those that are shown.
function selection(found) {
  return found.shape.map((_, axis) => (found.axes.includes(axis) ? found.region[found.axes.indexOf(axis)] : found.at[axis]));
}

// Where the repository is, as the server tells it (locations.py). Credentials are never part of it.
const place = (location) => location.path ?? "where the repository is";
const flags = (location) => Object.entries(location.storage ?? {}).filter(([key]) => key !== "from_env").map(([key, value]) => ` --storage-option ${shell(`${key}=${value}`)}`).join("");
const shell = (word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// As `json` would read them: true and false are Python's.
function literal(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value !== null && typeof value === "object") return `{${Object.entries(value).map(([key, each]) => `${text(key)}: ${literal(each)}`).join(", ")}}`;
  return text(value);
}

export function asPython({ location, at, from, node, found }) {
  const slash = node.path.lastIndexOf("/");
  const [group, own] = [node.path.slice(1, slash), node.path.slice(slash + 1)];
  const places = selection(found);
  const isNamed = node.dimension_names?.every((each) => /^[A-Za-z_]\w*$/.test(each ?? ""));
  const lines = ["import frazil", isNamed ? "import xarray as xr" : "import zarr", "", `repo = ${location.python}`];
  const open = (label, version) => {
    lines.push(`session = repo.readonly_session(${session(version)})`);
    if (isNamed) {
      const chosen = places.map((each, axis) => `${node.dimension_names[axis]}=${Array.isArray(each) ? `slice(${each.join(", ")})` : each}`);
      lines.push(`dataset = xr.open_zarr(session.store, ${group ? `group=${text(group)}, ` : ""}consolidated=False)`, `${label} = dataset[${text(own)}].isel(${chosen.join(", ")})`);
    } else {
      const chosen = places.map((each) => (Array.isArray(each) ? each.join(":") : each));
      lines.push(`${label} = zarr.open_array(session.store, path=${text(node.path.slice(1))}, mode="r")[${chosen.join(", ") || "..."}]`);
    }
  };
  if (from) {
    open("before", from);
    open("after", at);
    lines.push("values = after - before");
  } else open("values", at);
  return lines.join("\n");
}

export const quoted = (each) => (/^[A-Za-z_]\w*$/.test(each) ? each : `\`${each.replaceAll("`", "``")}\``);

function condition(found, axis) {
  const dimension = found.dimensions[axis];
  const which = found.axes.indexOf(axis);
  const isTime = dimension.kind === "time" && !dimension.calendar; // times of other calendars are numbers in tables
  const literal = (words, value) => (isTime && words ? `TIMESTAMP '${words}'` : value !== null ? value : `'${words.replaceAll("'", "''")}'`);
  if (which < 0) return `${quoted(dimension.name)} = ${dimension.place === null ? found.at[axis] : literal(dimension.place, dimension.number)}`;
  const [start, stop] = found.region[which];
  if (start === 0 && stop === found.shape[axis]) return null;
  const along = found.along[which];
  if (!along) return `${quoted(dimension.name)} BETWEEN ${start} AND ${stop - 1}`;
  const ends = [0, along.numbers.length - 1].map((cell) => literal(along.texts?.[cell], along.numbers[cell]));
  return `${quoted(dimension.name)} BETWEEN ${(ends[0] > ends[1] ? ends.reverse() : ends).join(" AND ")}`;
}

// The query of the version `at` alone: a difference is two of them.
export function asQuery({ node, found }) {
  const slash = node.path.lastIndexOf("/");
  const [group, own] = [node.path.slice(1, slash), node.path.slice(slash + 1)];
  const columns = [...found.axes.map((axis) => quoted(found.dimensions[axis].name)), quoted(own)];
  const conditions = found.shape.map((_, axis) => condition(found, axis)).filter(Boolean);
  return [`SELECT ${columns.join(", ")}`, `FROM repo${group ? `.\`${group.replaceAll("`", "``")}\`` : ""}`, conditions.length ? `WHERE ${conditions.join("\n  AND ")}` : null].filter(Boolean).join("\n");
}

// The same for a shell.
export function asSql({ location, at, node, found }) {
  const version = at.startsWith("branch:") ? `--branch ${shell(at.slice(7))}` : at.startsWith("tag:") ? `--tag ${shell(at.slice(4))}` : `--snapshot ${at}`;
  return `-- frazil sql ${shell(place(location))} "..." ${version}${flags(location)}\n${asQuery({ node, found })}`;
}

const mentions = (query, table) => new RegExp(`(?<!\\w)${table.replaceAll(/[^\w]/g, "\\$&")}(?!\\w)`, "i").test(query);

// The program of a query that was written here: the tables that it mentions, at the version shown.
export function queryAsPython({ location, at, query, tables }) {
  const version = at.startsWith("branch:") ? { branch: at.slice(7) } : at.startsWith("tag:") ? { tag: at.slice(4) } : { snapshot: at };
  const storage = location.storage && Object.keys(location.storage).length ? { storage: location.storage } : {};
  const named = tables.filter((each) => mentions(query, each.name));
  const used = (named.length ? named : [{ name: "repo", path: "/" }]).map(({ name, path }) => `    ${text(name)}: ${literal({ path: place(location), group: path, ...version, ...storage })},`);
  const plain = !/"""|\\|"$/.test(query);
  return ["from frazil.spark import session, sql", "", "spark = session()", "tables = {", ...used, "}", plain ? `query = """${query}"""` : `query = ${text(query)}`, "frame = sql(spark, query, tables).toPandas()"].join("\n");
}
