// What is shown, as a program in Python and as a query.

const text = (value) => JSON.stringify(value);

function session(at) {
  if (at.startsWith("branch:")) return `branch=${text(at.slice(7))}`;
  if (at.startsWith("tag:")) return `tag=${text(at.slice(4))}`;
  return `snapshot_id=${text(at)}`;
}

// A position for each dimension, or [start, end] for those that are shown.
function selection(found) {
  return found.shape.map((_, axis) => (found.axes.includes(axis) ? found.region[found.axes.indexOf(axis)] : found.at[axis]));
}

export function asPython({ repository, at, from, node, found }) {
  const slash = node.path.lastIndexOf("/");
  const [group, own] = [node.path.slice(1, slash), node.path.slice(slash + 1)];
  const places = selection(found);
  const isNamed = node.dimension_names?.every((each) => /^[A-Za-z_]\w*$/.test(each ?? ""));
  const lines = ["import frazil", isNamed ? "import xarray as xr" : "import zarr", "", `repo = frazil.Repository.open(frazil.local_filesystem_storage(${text(repository)}))  # where the repository is`];
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

const quoted = (each) => (/^[A-Za-z_]\w*$/.test(each) ? each : `\`${each.replaceAll("`", "``")}\``);

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
export function asSql({ repository, at, node, found }) {
  const own = node.path.slice(node.path.lastIndexOf("/") + 1);
  const columns = [...found.axes.map((axis) => quoted(found.dimensions[axis].name)), quoted(own)];
  const where = found.shape.map((_, axis) => condition(found, axis)).filter(Boolean);
  const group = node.path.slice(0, node.path.lastIndexOf("/"));
  const version = at.startsWith("branch:") ? `--branch ${text(at.slice(7))}` : at.startsWith("tag:") ? `--tag ${text(at.slice(4))}` : `--snapshot ${text(at)}`;
  return [`-- frazil sql ${text(repository)} "..."${group ? ` --group ${text(group)}` : ""} ${version}`, `SELECT ${columns.join(", ")}`, "FROM repo", where.length ? `WHERE ${where.join("\n  AND ")}` : null].filter(Boolean).join("\n");
}
