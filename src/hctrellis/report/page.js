"use strict";
// Draws what Python found (the element #data) and answers the reader's pointer.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const n = data.labels.length;
const SVG = "http://www.w3.org/2000/svg";
const INK = "#222222", FAINT = 0.72, DARK = 0.13;
const ROOT = -1; // the cluster of all leaves, which every tree has
const by = (id) => document.getElementById(id);
const state = { tree: 0, least: 0, overlay: false, chosen: null, pointed: null };

// ---- text and elements -----------------------------------------------------------------------

function probability(p) {
  const text = p.toFixed(3);
  if (text === "1.000" && p < 1) return ">0.999";
  if (text === "0.000" && p > 0) return "<0.001";
  return text;
}

// A probability with its standard error, if it was sampled; words if it cannot be quoted.
function told(cluster) {
  if (cluster.p === null) return "not known";
  if (!cluster.e) return probability(cluster.p);
  return `${cluster.e < 0.0095 ? probability(cluster.p) : short(cluster.p)} ± ${Number(Math.max(cluster.e, 0.001).toPrecision(1))}`;
}

function short(p) {
  if (p === null) return "";
  const text = p.toFixed(2);
  if (text === "1.00" && p < 1) return ">0.99";
  if (text === "0.00" && p > 0) return "<0.01";
  return text;
}

function grade(p) {
  if (p === null) return "no number to quote";
  return data.grades.find(([bound]) => p >= bound)[1];
}

function names(leaves, most = 12) {
  const known = leaves.map((leaf) => data.labels[leaf]);
  if (known.length <= most + 1) return known.join(", ");
  return `${known.slice(0, most).join(", ")} and ${known.length - most} more`;
}

function svg(tag, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function html(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const pen = document.createElement("canvas").getContext("2d");

function fitted(text, width, font) {
  pen.font = font;
  if (pen.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
}

function grey(p) {
  const level = Math.round(255 * (FAINT + (DARK - FAINT) * (p ?? 1)));
  return `rgb(${level},${level},${level})`;
}

// ---- the dendrogram --------------------------------------------------------------------------

// Where the nodes of a tree are, given the rows of the leaves: row and height of each node, its
// first and last row. A node is raised where a child is higher.
function layOut(tree, rows) {
  const y = rows.slice(), height = new Array(n).fill(0), first = rows.slice(), last = rows.slice();
  tree.children.forEach(([left, right], k) => {
    y.push((y[left] + y[right]) / 2);
    height.push(Math.max(tree.heights[k], height[left], height[right]));
    first.push(Math.min(first[left], first[right]));
    last.push(Math.max(last[left], last[right]));
  });
  return { y, height, first, last };
}

function rowsOf(order) {
  const rows = new Array(n);
  order.forEach((leaf, row) => { rows[leaf] = row + 0.5; });
  return rows;
}

// The nodes that are shown below each shown node: a hidden node is replaced by its children.
function shownChildren(tree) {
  const below = new Map();
  const parts = (node) => (node < n || below.has(node) ? [node] : lists[node - n]);
  const lists = [];
  tree.children.forEach(([left, right], k) => {
    const found = [...parts(left), ...parts(right)];
    lists.push(found);
    const cluster = tree.nodes[k];
    if (cluster === ROOT || (data.clusters[cluster].p ?? 1) >= state.least) below.set(n + k, found);
  });
  return below;
}

const leafFont = (leaf, font) => (data.strong.includes(leaf) ? `700 ${font}` : font);

function frame() {
  const width = Math.max(280, by("dendrogram").clientWidth);
  const small = width < 520;
  const step = n <= 40 ? 25 : n <= 100 ? 19 : 14;
  const size = Math.min(small ? 12.5 : 14, step - 4);
  const font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  const widest = Math.max(...data.labels.map((label, leaf) => {
    pen.font = leafFont(leaf, font);
    return pen.measureText(label).width;
  }));
  const room = Math.min(widest + 2, width * (small ? 0.44 : 0.4));
  const leader = n > 1 ? Math.min(34, 0.09 * width) : 0;
  const dots = data.groups ? 14 : 0;
  return { width, step, size, font, room, left: 10, right: width - room - leader - dots - 6,
           label: width - room, dots, top: 4, bottom: data.axis ? 46 : 8, small };
}

function draw() {
  const f = frame(), tree = data.trees[state.tree], rows = rowsOf(tree.order);
  const place = layOut(tree, rows);
  const tallest = Math.max(place.height[place.height.length - 1], ...sampleHeights()) || 1;
  const x = (h) => f.right - (h / tallest) * (f.right - f.left);
  const y = (row) => f.top + row * f.step;
  const tall = f.top + n * f.step + f.bottom;
  const root = svg("svg", { viewBox: `0 0 ${f.width} ${tall}`, role: "group",
                            "aria-label": "Dendrogram", "font-size": f.size });
  const bands = svg("g", { class: "bands" }, root);
  drawLeaves(root, f, tree, rows, y);
  if (state.overlay) drawSamples(root, rows, x, y);
  drawBranches(root, f, tree, place, x, y);
  if (data.axis) drawAxis(root, f, tallest, x, tall);
  by("dendrogram").replaceChildren(root);
  drawBands(bands, f, rows, y);
}

function drawLeaves(root, f, tree, rows, y) {
  for (let leaf = 0; leaf < n; leaf += 1) {
    const middle = y(rows[leaf]);
    svg("line", { class: "leader", x1: f.right, x2: f.label - f.dots - 4, y1: middle, y2: middle }, root);
    if (data.groups) {
      const color = data.palette[data.groups[leaf]];
      svg("circle", { cx: f.label - 8, cy: middle, r: 4.5, fill: color }, root);
    }
    const text = svg("text", { class: "leaf", x: f.label, y: middle + 0.35 * f.size, "data-leaf": leaf },
                     root, fitted(data.labels[leaf], f.room, leafFont(leaf, f.font)));
    if (data.strong.includes(leaf)) text.setAttribute("font-weight", 700);
    tell(text, () => [data.labels[leaf], data.groups ? data.group_names[data.groups[leaf]] : ""]);
  }
}

function drawBranches(root, f, tree, place, x, y) {
  const below = shownChildren(tree);
  const crowded = f.step < 17;
  const nodes = svg("g", {}, root);
  for (const [node, children] of [...below].reverse()) {
    const own = x(place.height[node]);
    for (const child of children) {
      const cluster = child < n ? null : data.clusters[tree.nodes[child - n]];
      const color = cluster ? grey(cluster.p) : grey(1);
      const path = `M${own},${y(place.y[node])}V${y(place.y[child])}H${x(place.height[child])}`;
      svg("path", { d: path, fill: "none", stroke: color, "stroke-width": 1.6,
                    "stroke-linejoin": "round" }, root);
    }
  }
  for (const node of below.keys()) drawNode(nodes, f, tree, node, below.get(node), place, x, y, crowded);
  root.append(nodes);
}

function drawNode(parent, f, tree, node, children, place, x, y, crowded) {
  const index = tree.nodes[node - n];
  if (index === ROOT) return;
  const cluster = data.clusters[index];
  const at = { x: x(place.height[node]), y: y(place.y[node]) };
  const ends = children.map((child) => y(place.y[child]));
  const label = `${names(cluster.m)}: probability ${told(cluster)}`;
  const group = svg("g", { class: "node", tabindex: 0, role: "button", "aria-label": label,
                           "data-cluster": index }, parent);
  if (index === state.chosen) group.classList.add("chosen");
  const high = Math.max(12, Math.max(...ends) - Math.min(...ends));
  svg("rect", { class: "hit", x: at.x - 9, y: Math.min(...ends) - Math.max(0, 12 - high) / 2, width: 18, height: high }, group);
  svg("circle", { class: "hit", cx: at.x, cy: at.y, r: 12 }, group);
  svg("circle", { cx: at.x, cy: at.y, r: crowded ? 3.5 : 4.5, fill: grey(cluster.p) }, group);
  if (!crowded) {
    const [one, two] = children.slice(0, 2).sort((a, b) => place.y[a] - place.y[b]);
    const gap = y((place.last[one] + place.first[two]) / 2); // no line passes between the two
    svg("text", { class: "support", x: at.x + 6, y: gap + 4, "font-size": f.small ? 10.5 : 11.5 },
        group, short(cluster.p));
  }
  tell(group, () => [`Probability ${told(cluster)} (${grade(cluster.p)})`,
                     `${cluster.m.length} members: ${names(cluster.m)}`]);
  group.addEventListener("click", () => choose(index));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(index); }
  });
}

function sampleHeights() {
  if (!state.overlay) return [];
  return data.samples.map((tree) => tree.heights.reduce((a, b) => Math.max(a, b), 0));
}

function drawSamples(root, rows, x, y) {
  const group = svg("g", { class: "samples", "stroke-opacity": Math.max(0.03, 2.5 / data.samples.length) }, root);
  for (const tree of data.samples) {
    const place = layOut(tree, rows);
    const path = tree.children.map((pair, k) => pair.map((child) =>
      `M${x(place.height[n + k]).toFixed(1)},${y(place.y[n + k]).toFixed(1)}` +
      `V${y(place.y[child]).toFixed(1)}H${x(place.height[child]).toFixed(1)}`).join("")).join("");
    svg("path", { class: "sampled", d: path }, group);
  }
}

function drawAxis(root, f, tallest, x, tall) {
  const line = tall - f.bottom + 10;
  const axis = svg("g", { class: "axis", "font-size": 11 }, root);
  svg("line", { x1: x(tallest), x2: x(0), y1: line, y2: line }, axis);
  const rough = tallest / (f.small ? 3 : 6), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((value) => value >= rough);
  for (let k = 0; k * step <= tallest; k += 1) {
    const at = x(k * step);
    svg("line", { x1: at, x2: at, y1: line, y2: line + 4 }, axis);
    svg("text", { class: "tick", x: at, y: line + 16, "text-anchor": "middle" }, axis,
        String(Number((k * step).toPrecision(6))));
  }
  svg("text", { class: "tick", x: (x(tallest) + x(0)) / 2, y: line + 29, "text-anchor": "middle" }, axis, data.axis);
}

function drawBands(bands, f, rows, y) {
  for (const [index, kind] of [[state.chosen, "band"], [state.pointed, "band rival"]]) {
    if (index === null) continue;
    for (const leaf of data.clusters[index].m) {
      const inset = kind === "band" ? 1 : 5;
      svg("rect", { class: kind, x: f.label - f.dots - 4, width: f.width - f.label + f.dots + 4,
                    y: y(rows[leaf]) - f.step / 2 + inset, height: f.step - 2 * inset, rx: 3 }, bands);
    }
  }
}

// ---- pointing and choosing -------------------------------------------------------------------

function tell(element, lines) {
  element.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") tip(lines(), event.clientX, event.clientY);
  });
  element.addEventListener("pointerleave", hush);
  element.addEventListener("focus", () => {
    if (!element.matches(":focus-visible")) return;
    const box = element.getBoundingClientRect();
    tip(lines(), box.right, box.top + box.height / 2);
  });
  element.addEventListener("blur", hush);
}

function tip(lines, x, y) {
  const box = by("tip");
  box.replaceChildren(...lines.filter(Boolean).map((line) => html("div", {}, line)));
  box.hidden = false;
  const size = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - size.width - 4))}px`;
  box.style.top = `${y + 16 + size.height > innerHeight ? y - size.height - 10 : y + 16}px`;
}

function hush() { by("tip").hidden = true; }

function choose(index) {
  state.chosen = index;
  state.pointed = null;
  hush();
  showDetail();
  draw();
}

function point(index) {
  state.pointed = index;
  draw();
}

function showDetail() {
  const panel = by("detail");
  panel.hidden = state.chosen === null;
  if (panel.hidden) return;
  const cluster = data.clusters[state.chosen];
  const close = html("button", { class: "close", type: "button", "aria-label": "Close" }, "×");
  close.addEventListener("click", () => choose(null));
  const parts = [close, html("h3", {}, `{${names(cluster.m)}}`),
    html("p", {}, cluster.p === null ? "is a cluster of this tree; no probability can be quoted."
      : `is a cluster with probability ${told(cluster)} (${grade(cluster.p)}).`)];
  if (cluster.p === null) {
    panel.replaceChildren(...parts);
    return;
  }
  if (cluster.rivals.length === 0) {
    parts.push(html("p", {}, `No cluster that excludes it has a probability of ${data.rival} or more.`));
  } else {
    parts.push(html("p", {}, "Its strongest rivals; no tree has both it and one of these:"),
               html("ul", {}, ...cluster.rivals.map((rival) => rivalItem(cluster, rival))));
  }
  panel.replaceChildren(...parts);
}

function rivalItem(cluster, index) {
  const rival = data.clusters[index];
  const button = html("button", { type: "button", "data-rival": index },
    html("b", {}, told(rival)), html("span", {}, compared(rival.m, cluster.m)));
  button.addEventListener("click", () => choose(index));
  button.addEventListener("pointerenter", () => point(index));
  button.addEventListener("pointerleave", () => point(null));
  return html("li", {}, button);
}

// The members of a cluster, or how it differs from another if that is shorter.
function compared(leaves, others) {
  const here = new Set(leaves), there = new Set(others);
  const more = leaves.filter((leaf) => !there.has(leaf)), less = others.filter((leaf) => !here.has(leaf));
  if (leaves.length <= more.length + less.length) return names(leaves, 6);
  return `with ${names(more, 4)}, without ${names(less, 4)}`;
}

// ---- controls --------------------------------------------------------------------------------

function setThreshold() {
  state.least = Number(by("threshold").value);
  by("least").textContent = state.least.toFixed(2);
  for (const row of document.querySelectorAll("#clusters tr[data-cluster]")) {
    row.hidden = (data.clusters[row.dataset.cluster].p ?? 1) < state.least;
  }
  draw();
}

function setTree(k) {
  state.tree = k;
  by("which").value = String(k);
  by("drawn").textContent = k === 0 ? data.heading : `${data.headings}: number ${k + 1}`;
  draw();
}

function listen() {
  if (data.samples.length === 0) by("overlay").parentElement.style.display = "none";
  by("threshold").addEventListener("input", setThreshold);
  by("which").addEventListener("change", () => setTree(Number(by("which").value)));
  by("overlay").addEventListener("change", () => { state.overlay = by("overlay").checked; draw(); });
  by("save-svg").addEventListener("click", saveSvg);
  by("save-png").addEventListener("click", savePng);
  addEventListener("keydown", (event) => { if (event.key === "Escape") choose(null); });
  for (const row of document.querySelectorAll("#clusters tr[data-cluster]")) {
    row.addEventListener("click", () => { choose(Number(row.dataset.cluster)); by("tree").scrollIntoView(); });
  }
  for (const row of document.querySelectorAll("#top tr[data-tree]")) {
    row.addEventListener("click", () => { setTree(Number(row.dataset.tree)); by("tree").scrollIntoView(); });
  }
}

// ---- saving the drawing ----------------------------------------------------------------------

const COPIED = ["fill", "stroke", "stroke-width", "stroke-opacity", "opacity", "font-family", "font-size",
                "font-weight", "text-anchor"];

// The drawing as it is shown, with its looks written into it, so that it can stand alone. What only
// answers the pointer is left out; text stays text.
function standalone() {
  const shown = by("dendrogram").querySelector("svg"), copy = shown.cloneNode(true);
  const from = [...shown.querySelectorAll("*")], to = [...copy.querySelectorAll("*")];
  from.forEach((element, k) => {
    const style = getComputedStyle(element);
    for (const name of COPIED) to[k].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-label"]) to[k].removeAttribute(name);
  });
  from.forEach((element, k) => { if (element.classList.contains("hit")) to[k].remove(); });
  const [, , width, high] = shown.getAttribute("viewBox").split(" ").map(Number);
  const tall = high + drawKey(copy, width, high);
  const size = { xmlns: SVG, width, height: tall, viewBox: `0 0 ${width} ${tall}` };
  for (const [name, value] of Object.entries(size)) copy.setAttribute(name, value);
  copy.prepend(svg("rect", { width, height: tall, fill: "#ffffff" }));
  return { text: new XMLSerializer().serializeToString(copy), width, height: tall };
}

// The colours of the groups, below the drawing; returns how high that is.
function drawKey(parent, width, top) {
  if (!data.groups) return 0;
  const family = getComputedStyle(document.body).fontFamily;
  pen.font = `12px ${family}`;
  let x = 10, y = top + 14;
  data.group_names.forEach((name, k) => {
    const wide = pen.measureText(name).width + 34;
    if (x + wide > width && x > 10) { x = 10; y += 18; }
    svg("circle", { cx: x + 5, cy: y - 4, r: 4.5, fill: data.palette[k] }, parent);
    svg("text", { x: x + 14, y, "font-size": 12, "font-family": family, fill: INK }, parent, name);
    x += wide;
  });
  return y - top + 8;
}

function download(address, ending) {
  const name = (document.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "tree").slice(0, 60);
  const link = html("a", { href: address, download: `${name}.${ending}` });
  document.body.append(link);
  link.click();
  link.remove();
}

const asAddress = (text) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;

function saveSvg() { download(asAddress(standalone().text), "svg"); }

function savePng() {
  const drawing = standalone(), image = new Image(), canvas = document.createElement("canvas");
  const scale = Math.min(4, Math.max(1, 12000 / Math.max(drawing.width, drawing.height)));
  image.addEventListener("load", () => {
    canvas.width = drawing.width * scale;
    canvas.height = drawing.height * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    download(canvas.toDataURL("image/png"), "png");
  });
  image.src = asAddress(drawing.text);
}

// ---- charts ----------------------------------------------------------------------------------

// Ticks at some of the points, far enough from each other.
function logTicks(points) {
  const kept = [];
  for (const x of points) if (kept.length === 0 || x > 1.7 * kept[kept.length - 1]) kept.push(x);
  return { tickvals: kept, ticktext: kept.map(rounded), tickangle: 0 };
}

const rounded = (value) => String(Number(value.toPrecision(2)));
// Text for the charts library, which would otherwise interpret tags and formulas in it.
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
const still = { responsive: false, displayModeBar: false, scrollZoom: false, doubleClick: false };
const base = () => ({
  dragmode: false, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: INK },
  hoverlabel: { bgcolor: "#222", font: { color: "#fff", size: 12.5 }, align: "left" },
});
const fixed = { fixedrange: true, zeroline: false, automargin: false, showgrid: false };

function drawPairs(width) {
  const pairs = data.pairs[Number(by("size").value)], order = data.trees[0].order;
  const named = n <= 60, wide = width > 560;
  pen.font = `11px ${base().font.family}`;
  const cut = order.map((leaf) => fitted(data.labels[leaf], wide ? 190 : 0.36 * width, pen.font));
  const room = named ? Math.max(...cut.map((text) => pen.measureText(text).width)) + 14 : 8;
  const bottom = named && wide ? room : 8;
  const side = Math.min(width - room - 8, 620, Math.max(160, 46 * n));
  const ids = order.map((_, k) => k);
  const z = order.map((a) => order.map((b) => pairs.p[a][b] / 1000));
  const trace = {
    type: "heatmap", x: ids, y: ids, z, zmin: 0, zmax: 1, xgap: n <= 40 ? 1 : 0, ygap: n <= 40 ? 1 : 0,
    colorscale: [[0, "#f5f8fa"], [0.25, "#bcd9ec"], [0.5, "#6fb0d8"], [0.75, "#1f7fb8"], [1, "#023e63"]],
    showscale: false, hovertemplate: "%{text}<extra></extra>",
    text: order.map((a) => order.map((b) => (a === b ? plain(data.labels[a]) :
      `${plain(data.labels[a])}<br>${plain(data.labels[b])}<br>together: ${probability(pairs.p[a][b] / 1000)}`))),
  };
  const step = Math.ceil(10 * n / side), shown = ids.filter((k) => k % step === 0);  // where rows are narrow
  const ticks = { ...fixed, tickvals: shown, ticktext: shown.map((k) => plain(cut[k])), tickfont: { size: 11 }, showticklabels: named,
    ticks: "outside", ticklen: 5, tickcolor: "rgba(0,0,0,0)" };
  const layout = { ...base(), width: side + room + 8, height: side + bottom + 8,
    margin: { l: room, r: 8, t: 8, b: bottom },
    xaxis: { ...ticks, tickangle: -90, showticklabels: named && wide },
    yaxis: { ...ticks, autorange: "reversed" } };
  Plotly.react(by("pairs-plot"), [trace], layout, still);
}

function drawCurve(id, curve, width) {
  const traces = curve.lines.map((line) => ({
    type: "scatter", mode: "lines+markers", x: line.x, y: line.y, name: plain(line.name),
    line: { color: line.color, width: 2 }, marker: { size: 7 },
    hovertemplate: `${plain(curve.x)} %{x:.3g}<br>${plain(curve.y)} %{y:.3g}<extra></extra>`,
  }));
  const axis = { fixedrange: true, zeroline: false, gridcolor: "#eee", linecolor: "#bbb", automargin: true };
  const straight = { type: "line", line: { color: "#888", width: 1.5, dash: "dot" } };
  const shapes = [];
  if (curve.diagonal) shapes.push({ ...straight, x0: 0, x1: 1, y0: 0, y1: 1 });
  if (curve.mark !== null) shapes.push({ ...straight, x0: curve.mark, x1: curve.mark, yref: "paper", y0: 0, y1: 1 });
  const unit = curve.diagonal ? { range: [-0.02, 1.02] } : {};
  const layout = { ...base(), shapes, width: Math.min(width, 520), height: curve.diagonal ? 360 : 280,
    margin: { l: 60, r: 12, t: 10, b: 48 }, showlegend: curve.lines.length > 1,
    xaxis: { ...axis, ...unit, title: { text: plain(curve.x) }, type: curve.log ? "log" : "linear" },
    yaxis: { ...axis, ...unit, title: { text: plain(curve.y) } } };
  if (curve.log) Object.assign(layout.xaxis, logTicks(curve.lines[0].x));
  Plotly.react(by(id), traces, layout, still);
}

function drawCharts(width) {
  if (by("pairs-plot")) drawPairs(width);
  for (const [id, curve] of Object.entries(data.curves)) drawCurve(id, curve, width);
}

const textWidth = () => by("tree").clientWidth;
const PAPER = 640; // pixels across a printed page

function drawAll() {
  draw();
  drawCharts(textWidth());
}

listen();
if (by("size")) by("size").addEventListener("change", () => drawPairs(textWidth()));
drawAll();
let known = textWidth();
addEventListener("resize", () => {
  if (textWidth() === known) return;
  known = textWidth();
  drawAll();
});
addEventListener("beforeprint", () => drawCharts(PAPER));
addEventListener("afterprint", () => drawCharts(textWidth()));
})();
