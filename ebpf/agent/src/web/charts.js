// Elements and charts. Everything shown is set as text, never as markup.
import { bytes, flowLatency, quantile, time } from "./numbers.js";

// Columns that charts show: a second each of now, more of the past.
export const HISTORY = 120;
const TILE = { width: 300, height: 84 };
const HEAT = { width: 720, height: 190, first: 10, last: 34, rows: 12 }; // powers of two in nanoseconds: 1 us to 17 s

export function element(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "rect"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function canvas({ width, height }, label) {
  return element("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
}

function straight(width, y, kind) {
  return element("line", { x1: 0, x2: width, y1: y, y2: y, class: kind });
}

// Rates against the link. Heights are square roots: a link at one percent can be read and a full one is at the ceiling.
export function nicChart(nic, points, step_ms) {
  const { width, height } = TILE;
  const peak = Math.max(1, ...points.map((point) => Math.max(point.receive, point.transmit)));
  const link = nic.link_bytes_per_second;
  const top = Math.max(link ?? 0, peak);
  const y = (rate) => height - Math.sqrt(rate / top) * (height - 3);
  const step = width / (HISTORY - 1);
  const chart = canvas(TILE, `${nic.device}: in and out over two minutes, ceiling ${bytes(top)}/s`);
  chart.append(straight(width, y(top / 4), "grid"), straight(width, height, "grid"));
  const x = (point) => width - (points.at(-1).at - point.at) / step_ms * step;
  // A time that was not watched is a gap.
  const stretches = watched(points, (point) => point.at, step_ms);
  for (const field of ["receive", "transmit"]) {
    const lines = stretches.map((stretch) => `M${stretch.map((point) => `${x(point).toFixed(1)} ${y(point[field]).toFixed(1)}`).join("L")}`);
    const area = stretches.map((stretch, index) => `${lines[index]}L${x(stretch.at(-1)).toFixed(1)} ${height}L${x(stretch[0]).toFixed(1)} ${height}Z`);
    if (lines.length > 0) chart.append(element("path", { d: area.join(""), class: `area ${field}` }), element("path", { d: lines.join(""), class: `curve ${field}` }));
  }
  if (link) chart.append(straight(width, y(link), "ceiling"));
  const scale = element("div", { class: "marks", "aria-hidden": "true" },
    element("span", {}, link ? `link ${bytes(link)}/s` : `${bytes(top)}/s, link speed unknown`), element("span", { class: "quarter" }, `${bytes(top / 4)}/s`));
  return element("div", { class: "chart" }, chart, scale);
}

// The rows that hold something, but at least a few: powers of two from the lower to the upper border.
function heatRange(columns) {
  const used = [];
  for (let power = HEAT.first; power <= HEAT.last; power += 1) if (columns.some((column) => column.buckets[power])) used.push(power);
  if (used.length === 0) return [HEAT.first + 4, HEAT.first + 4 + HEAT.rows - 1];
  const lack = Math.max(0, HEAT.rows - (used.at(-1) - used[0] + 1));
  const first = Math.max(HEAT.first, used[0] - Math.ceil(lack / 2));
  return [first, Math.max(used.at(-1), first + HEAT.rows - 1)];
}

function quantileCurve(columns, share, place) {
  const points = columns.map((column, index) => [index, quantile(column, share)]);
  const known = points.filter(([, value]) => value !== null);
  return known.length < 2 ? "" : `M${known.map(([index, value]) => place(index, value)).join("L")}`;
}

// Stretches without a gap: neighbours are at most two steps and a half apart.
export function watched(points, at, step_ms) {
  const stretches = [];
  for (const point of points) {
    const last = stretches.at(-1)?.at(-1);
    if (last && at(point) - at(last) <= 2.5 * step_ms) stretches.at(-1).push(point);
    else stretches.push([point]);
  }
  return stretches;
}

// Only of the time that was watched it can be said that nothing happened.
function nothingSeen(history, step_ms) {
  const stretches = watched(history, (one) => one.taken_ms, step_ms);
  const length = stretches.reduce((sum, stretch) => sum + stretch.at(-1).taken_ms - stretch[0].taken_ms, 0);
  const seconds = Math.round(length / 1000);
  return seconds > 0 ? `No operation in the ${seconds} s that the agent watched` : "The agent has watched no time yet";
}

export function heatMap(history, step_ms, device = null, label = "") {
  const columns = [];
  const span_ms = (HISTORY - 1) * step_ms;
  for (let index = 1; index < history.length; index += 1) {
    const [newer, older] = [history[index], history[index - 1]];
    const gap = newer.taken_ms - older.taken_ms > 2.5 * step_ms;
    // Readings that came late reach further back than the frame.
    const place = HISTORY - 2 - Math.round((history.at(-1).taken_ms - newer.taken_ms) / step_ms);
    if (!gap && place >= 0) columns.push({ ...flowLatency(newer, older, device), place });
  }
  const [first, last] = heatRange(columns);
  const { width, height } = HEAT;
  const [cellWidth, cellHeight] = [width / (HISTORY - 1), height / (last - first + 1)];
  const most = Math.max(1, ...columns.flatMap((column) => column.buckets.slice(first, last + 1)));
  const chart = canvas(HEAT, `Operations ${label}by latency over ${Math.round(span_ms / 60000)} minutes, with p50 and p99`);
  const left = (index) => columns[index].place * cellWidth;
  const bottom = (power) => height - (power - first) * cellHeight;
  const scale = element("div", { class: "scale", "aria-hidden": "true" });
  const every = Math.max(2, Math.ceil((last - first) / 6));
  for (let power = first; power <= last + 1; power += every) {
    const label = element("span", {}, time(2 ** power));
    label.style.bottom = `${100 * (power - first) / (last - first + 1)}%`;
    scale.append(label);
    chart.append(straight(width, bottom(power), "grid"));
  }
  columns.forEach((column, index) => {
    for (let power = first; power <= last; power += 1) {
      const count = column.buckets[power] ?? 0;
      if (count === 0) continue;
      const strength = 0.12 + 0.88 * Math.log1p(count) / Math.log1p(most);
      chart.append(element("rect", { x: left(index), y: bottom(power + 1), width: cellWidth + 0.3, height: cellHeight + 0.3, fill: `rgb(var(--heat) / ${strength.toFixed(2)})` }));
    }
  });
  const place = (index, value) => `${(left(index) + cellWidth / 2).toFixed(1)} ${bottom(Math.log2(value)).toFixed(1)}`;
  for (const [share, kind] of [[0.5, "p50"], [0.99, "p99"]]) chart.append(element("path", { d: quantileCurve(columns, share, place), class: `curve ${kind}` }));
  const isEmpty = columns.every((column) => column.buckets.every((count) => count === 0));
  return [scale, chart, isEmpty ? element("p", { class: "none" }, nothingSeen(history, step_ms)) : null].filter((part) => part !== null);
}

// One batch: where its time went; the bar is as long as its share of the slowest one shown.
export function stageBar(stages, total, longest) {
  const bar = element("div", { class: "bar", role: "img", "aria-label": stages.map(([name, length]) => `${name} ${time(length)}`).join(", ") });
  for (const [name, length] of stages) if (length > 0) {
    const part = element("span", { class: name, title: `${name} ${time(length)}` });
    part.style.width = `${100 * length / longest}%`;
    bar.append(part);
  }
  return bar;
}
