// A picture of a slice of an array, or a curve, or the values themselves; and what is in it.

import { address, ask } from "./api.js";
import { h, name, replace, svg } from "./dom.js";
import { bytes, count, number, plural } from "./format.js";
import { amend, current, failure } from "./router.js";

const OPTIONS = ["axes", "slice_at", "scale", "low", "high"];

function wishes() {
  const { parameters } = current();
  return Object.fromEntries(OPTIONS.map((each) => [each, parameters[each]]));
}

export function dimension(node, axis) {
  return node.dimension_names?.[axis] ?? `dimension ${axis}`;
}

function axisPicker(node, found, redraw) {
  if (node.shape.length < 3 && !(node.shape.length === 2)) return null;
  const pairs = [];
  for (let one = 0; one < node.shape.length; one += 1) {
    for (let other = 0; other < node.shape.length; other += 1) if (one !== other) pairs.push([one, other]);
  }
  const select = h("select", { "aria-label": "Dimensions of the picture", onchange: () => redraw({ axes: select.value }) }, pairs.map((pair) => h("option", { value: pair.join(","), selected: pair.join(",") === found.axes.join(",") }, pair.map((axis) => dimension(node, axis)).join(" × "))));
  return h("label", {}, h("span", {}, "Show"), select);
}

// What the positions along a dimension mean: the array of its name beside this one, if there is one.
async function coordinates(node, at, axis, signal) {
  const own = node.dimension_names?.[axis];
  const group = node.path.slice(0, node.path.lastIndexOf("/")) || "/";
  if (!own) return null;
  const page = await ask("children", { at, path: group, limit: 1000 }, signal);
  const place = page.name.indexOf(own);
  if (place < 0 || page.kind[place] !== "array" || page.shape[place].length !== 1 || page.shape[place][0] !== node.shape[axis]) return null;
  const question = { at, path: page.child[place] };
  const [values, about] = await Promise.all([ask("preview", question, signal), ask("node", question, signal)]);
  if (values.problem || values.width !== node.shape[axis]) return null;
  const texts = values.texts.length === values.width ? values.texts : values.line?.map(number);
  // Times in `texts` are decoded: the units, "hours since ...", are for the numbers.
  const is_decoded = values.is_time && texts === values.texts;
  const units = typeof about.attributes.units === "string" && !is_decoded ? ` ${about.attributes.units}` : "";
  return texts ? texts.map((each) => each + units) : null;
}

// Labels the sliders as soon as it is known what their positions mean.
async function label(controls, node, at, signal) {
  for (const slider of controls.querySelectorAll("input[type=range]")) {
    const texts = await coordinates(node, at, Number(slider.dataset.axis), signal).catch(() => null);
    if (!texts) continue;
    const shown = h("bdi", { class: "coordinate" }, texts[slider.value]);
    slider.addEventListener("input", () => { shown.textContent = texts[slider.value]; });
    slider.parentElement.append(shown);
  }
}

function sliders(node, found, redraw) {
  return node.shape.map((length, axis) => {
    if (found.axes.includes(axis) || length < 2) return null;
    const output = h("output", {}, `${found.at[axis]} of ${count(length)}`);
    const at = () => found.at.map((place, other) => (found.axes.includes(other) ? "*" : other === axis ? slider.value : place)).join(",");
    const slider = h("input", { type: "range", min: 0, max: length - 1, step: 1, value: found.at[axis], "aria-label": `Position in ${dimension(node, axis)}`, dataset: { axis }, oninput: () => { output.textContent = `${slider.value} of ${count(length)}`; redraw({ slice_at: at() }); } });
    return h("label", { class: "slider" }, name(dimension(node, axis)), slider, output);
  });
}

function scalePicker(found, wished, redraw) {
  const select = h("select", { "aria-label": "Colours", onchange: () => redraw({ scale: select.value }) }, found.scales.map((each) => h("option", { value: each, selected: each === (wished.scale ?? found.scales[0]) }, each)));
  const limit = (key, label) => {
    const field = h("input", { type: "number", step: "any", "aria-label": label, placeholder: label, value: wished[key] ?? "", onchange: () => redraw({ [key]: field.value }) });
    return field;
  };
  return h("span", { class: "limits" }, select, limit("low", "lowest"), limit("high", "highest"));
}

function statistics(found) {
  const cells = [["min", number(found.min)], ["max", number(found.max)], ["mean", number(found.mean)], ["values", count(found.valid)], ["missing", count(found.missing)]];
  return h("dl", { class: "statistics", id: "statistics" }, cells.map(([key, value]) => h("div", { dataset: { key } }, h("dt", {}, key), h("dd", {}, value))));
}

function curve(found) {
  const width = 600;
  const height = 160;
  const span = found.high - found.low || 1;
  const last = Math.max(found.line.length - 1, 1);
  let path = "";
  let pen = false;
  found.line.forEach((value, at) => {
    if (value === null) { pen = false; return; }
    const place = `${((at / last) * width).toFixed(1)} ${(height - 6 - ((value - found.low) / span) * (height - 12)).toFixed(1)}`;
    path += `${pen ? "L" : "M"} ${place} `;
    pen = true;
  });
  return svg("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Curve of the values", preserveAspectRatio: "none" }, svg("path", { d: path || "M 0 0", "vector-effect": "non-scaling-stroke" }));
}

function texts(found) {
  if (!found.texts.length) return null;
  return h("details", { open: !found.is_number }, h("summary", {}, found.texts.length < found.height * found.width ? `The first ${plural(found.texts.length, "value")}` : plural(found.texts.length, "value")), h("ol", { class: "values-list", start: 0 }, found.texts.map((each) => h("li", {}, h("bdi", {}, each)))));
}

async function picture(node, found, wished, question) {
  const image = h("img", { class: "picture", id: "preview-image", alt: `Slice of ${node.path}: ${found.height} by ${found.width} values from ${number(found.low)} to ${number(found.high)}`, src: address("preview.png", { ...question, ...wished }) });
  const grow = Math.max(1, Math.min(640 / found.width, 420 / found.height));
  image.style.aspectRatio = `${found.width} / ${found.height}`;
  image.style.width = `${Math.round(found.width * grow)}px`;
  await image.decode().catch(() => null);
  const ramp = h("div", { class: "ramp" }, h("span", {}, number(found.low)), h("i", { class: `scale ${wished.scale ?? found.scales[0]}` }), h("span", {}, number(found.high)));
  return h("figure", {}, h("div", { class: "frame" }, image), ramp);
}

function shown(found) {
  const step = found.steps.some((each) => each > 1) ? `every ${found.steps.join(" × ")}-th value` : "every value";
  return h("p", { class: "quiet", id: "preview-read" }, `${step}; ${plural(found.chunks_read, "chunk")} read, ${bytes(found.bytes_read)}`);
}

export async function drawPreview(section, node, at, signal) {
  const controls = h("div", { class: "controls" });
  const body = h("div", { class: "picture-body" });
  section.append(controls, body);
  if (node.shape.some((length) => length === 0)) {
    replace(body, h("p", { class: "quiet" }, "The array is empty."));
    return;
  }
  let latest = 0;

  async function draw({ keepControls = false } = {}) {
    const own = ++latest;
    const wished = wishes();
    const question = { at, path: node.path, axes: wished.axes, slice_at: wished.slice_at };
    try {
      const found = await ask("preview", { ...question, low: wished.low, high: wished.high }, signal);
      if (own !== latest) return;
      if (found.problem) {
        replace(body, h("p", { class: "notice", id: "preview-problem" }, h("bdi", {}, found.problem)));
        section.dataset.state = "ready";
        return;
      }
      const visible = [found.line ? curve(found) : found.is_number && node.shape.length > 1 ? await picture(node, found, wished, question) : null, texts(found), statistics(found), shown(found)];
      if (own !== latest) return;
      if (!keepControls) {
        replace(controls, axisPicker(node, found, redraw), sliders(node, found, redraw), found.is_number && node.shape.length > 1 ? scalePicker(found, wished, redraw) : null);
        label(controls, node, at, signal);
      }
      replace(body, visible);
      section.dataset.state = "ready";
    } catch (error) {
      if (!signal.aborted && own === latest) replace(body, failure(error));
    }
  }

  let waiting = null;
  function redraw(changes) {
    section.dataset.state = "loading";
    amend(changes);
    clearTimeout(waiting);
    waiting = setTimeout(() => draw({ keepControls: !("axes" in changes) }), 60);
  }

  await draw();
}
