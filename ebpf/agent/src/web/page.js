// The agent's page: asks for a snapshot every second and draws rates. Everything shown is set as text, never as markup.
"use strict";

const HISTORY = 120;
const INTERVAL_MS = 1000;
const HEAT_FIRST = 10, HEAT_LAST = 34; // 1 us to 17 s
const history = [];
let paused = false, openTile = null;

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "rect", "text"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function bytes(value) {
  if (value === null || !Number.isFinite(value)) return "-";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value >= 100 || unit === 0 ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]}`;
}

function time(ns) {
  if (ns === null || !Number.isFinite(ns)) return "-";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) if (ns >= size) return `${(ns / size).toPrecision(3)} ${unit}`;
  return `${ns.toFixed(0)} ns`;
}

const key = (item, names) => names.map((name) => item[name]).join("\u0000");

// Pairs each series of the newer snapshot with the same one of the older.
function pairs(newer, older, list, names) {
  const before = new Map((older?.[list] ?? []).map((item) => [key(item, names), item]));
  return (newer[list] ?? []).map((item) => [item, before.get(key(item, names))]);
}

const secondsBetween = (newer, older) => (newer.monotonic_ns - older.monotonic_ns) / 1e9;

function difference(now, before) {
  const counts = now.buckets.map((count, index) => count - (before?.buckets[index] ?? 0));
  return { count: now.count - (before?.count ?? 0), sum_ns: now.sum_ns - (before?.sum_ns ?? 0), buckets: counts };
}

function merge(distributions) {
  const sum = { count: 0, sum_ns: 0, buckets: [] };
  for (const one of distributions) {
    sum.count += one.count;
    sum.sum_ns += one.sum_ns;
    one.buckets.forEach((count, index) => { sum.buckets[index] = (sum.buckets[index] ?? 0) + count; });
  }
  return sum;
}

// Upper border of the bucket in which the quantile lies.
function quantile(distribution, share) {
  const total = distribution.buckets.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let seen = 0;
  for (let index = 0; index < distribution.buckets.length; index += 1) {
    seen += distribution.buckets[index];
    if (seen >= share * total) return 2 ** (index + 1);
  }
  return null;
}

function nicRates() {
  const rates = new Map();
  for (let index = 1; index < history.length; index += 1) {
    const [newer, older] = [history[index], history[index - 1]];
    const length = secondsBetween(newer, older);
    for (const [nic, before] of pairs(newer, older, "nics", ["device", "port"])) {
      if (!before || length <= 0) continue;
      const name = `${nic.device}/${nic.port}`;
      const rate = (field) => Math.max(0, nic[field] - before[field]) / length;
      if (!rates.has(name)) rates.set(name, []);
      rates.get(name).push({ at: index, receive: rate("receive_bytes"), transmit: rate("transmit_bytes") });
    }
  }
  return rates;
}

function curve(points, field, top, width, height) {
  const step = width / (HISTORY - 1);
  const offset = HISTORY - history.length;
  const place = (point) => `${((point.at + offset) * step).toFixed(1)} ${(height - (point[field] / top) * (height - 4)).toFixed(1)}`;
  return points.length === 0 ? "" : `M${points.map(place).join("L")}`;
}

function nicChart(nic, points) {
  const [width, height] = [300, 84];
  const peak = Math.max(1, ...points.map((point) => Math.max(point.receive, point.transmit)));
  const link = nic.link_bytes_per_second;
  // A link far above the traffic would press the curves flat: then the line is left out and the share is written.
  const showsLink = link && peak > link / 20;
  const top = showsLink ? Math.max(link * 1.05, peak) : peak * 1.1;
  const chart = element("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `rates of ${nic.device}` });
  chart.append(element("line", { x1: 0, x2: width, y1: height, y2: height, stroke: "var(--line)" }));
  if (showsLink) {
    const y = height - (link / top) * (height - 4);
    chart.append(element("line", { x1: 0, x2: width, y1: y, y2: y, stroke: "var(--dim)", "stroke-dasharray": "5 4", "vector-effect": "non-scaling-stroke" }));
  }
  for (const field of ["receive", "transmit"]) {
    chart.append(element("path", { d: curve(points, field, top, width, height), fill: "none", stroke: `var(--${field})`, "stroke-width": 1.6, "vector-effect": "non-scaling-stroke" }));
  }
  return chart;
}

function flowLatency(newer, older, device) {
  const flows = pairs(newer, older, "flows", ["device", "route", "direction", "program", "shard"]);
  const own = flows.filter(([flow]) => device === null || flow.device === device);
  return merge(own.map(([flow, before]) => difference(flow.latency, before?.latency)));
}

// The NIC whose wire time is far above that of its peers, if there is one.
function oddNics(newer, older, names) {
  const latencies = names.map((name) => [name, flowLatency(newer, older, name)]).filter(([, latency]) => latency.count >= 8);
  const means = latencies.map(([name, latency]) => [name, latency.sum_ns / latency.count]).sort((a, b) => a[1] - b[1]);
  if (means.length < 2) return new Set();
  const middle = means[Math.floor((means.length - 1) / 2)][1];
  return new Set(means.filter(([, mean]) => mean > 2 * middle).map(([name]) => name));
}

function nicFacts(nic, newer, older, odd) {
  const facts = element("div", { class: "facts" });
  if (!nic.up) facts.append(element("span", { class: "bad" }, "link down "));
  const latency = flowLatency(newer, older, nic.device);
  if (latency.count > 0) facts.append(`p50 ${time(quantile(latency, 0.5))}, p99 ${time(quantile(latency, 0.99))}`);
  if (odd) facts.append(element("span", { class: "bad" }, " slower than its peers"));
  const losses = nic.errors + nic.drops;
  if (losses > 0) facts.append(`${latency.count > 0 ? "; " : ""}${losses} errors and drops`);
  return facts;
}

function nicTile(nic, points, newer, older, odd) {
  const now = points.at(-1) ?? { receive: 0, transmit: 0 };
  const name = `${nic.device}/${nic.port}`;
  const link = nic.link_bytes_per_second;
  const share = link ? `, ${(100 * Math.max(now.receive, now.transmit) / link).toFixed(0)} % of ${bytes(link)}/s` : "";
  const numa = nic.numa === null ? "" : `, NUMA ${nic.numa}`;
  const tile = element("button", { type: "button", class: "tile", "data-nic": name, "aria-expanded": String(openTile === name) },
    element("h3", {}, nic.device, element("small", {}, `${nic.kind}${numa}`)),
    nicChart(nic, points),
    element("div", { class: "numbers" },
      element("b", { class: "receive" }, `in ${bytes(now.receive)}/s`),
      element("b", { class: "transmit" }, `out ${bytes(now.transmit)}/s`)),
    element("div", { class: "facts" }, `${nic.up ? "up" : "down"}${share}`),
    nicFacts(nic, newer, older, odd));
  if (odd) tile.classList.add("odd");
  if (openTile === name) tile.classList.add("open");
  tile.addEventListener("click", () => { openTile = openTile === name ? null : name; draw(); });
  return tile;
}

function drawNics(newer, older) {
  const rates = nicRates();
  const shown = newer.nics.filter((nic) => byId("virtual").checked || (nic.kind !== "virtual" && nic.kind !== "loopback") || newer.nics.length <= 3);
  const peak = (nic) => { const now = rates.get(`${nic.device}/${nic.port}`)?.at(-1); return now ? Math.max(now.receive, now.transmit) : 0; };
  const order = byId("order").value;
  if (order === "rate") shown.sort((a, b) => peak(b) - peak(a));
  if (order === "share") shown.sort((a, b) => peak(b) / (b.link_bytes_per_second ?? Infinity) - peak(a) / (a.link_bytes_per_second ?? Infinity));
  const odd = oddNics(newer, older, shown.map((nic) => nic.device));
  const focused = document.activeElement?.dataset?.nic;
  const tiles = shown.map((nic) => nicTile(nic, rates.get(`${nic.device}/${nic.port}`) ?? [], newer, older, odd.has(nic.device)));
  byId("nics").replaceChildren(...(tiles.length > 0 ? tiles : [element("p", { class: "empty" }, "No NIC is shown; virtual ones are hidden.")]));
  if (focused) document.querySelector(`[data-nic="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function drawHeat() {
  const [width, height, rows] = [720, 190, HEAT_LAST - HEAT_FIRST + 1];
  const chart = element("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "latency over time" });
  const columns = [];
  for (let index = 1; index < history.length; index += 1) columns.push(flowLatency(history[index], history[index - 1], null));
  const most = Math.max(1, ...columns.flatMap((column) => column.buckets.slice(HEAT_FIRST, HEAT_LAST + 1)));
  const [cellWidth, cellHeight] = [width / (HISTORY - 1), height / rows];
  for (let power = HEAT_LAST; power >= HEAT_FIRST; power -= 6) {
    const y = height - (power - HEAT_FIRST + 0.5) * cellHeight;
    chart.append(element("line", { x1: 0, x2: width, y1: y, y2: y, stroke: "var(--line)", "stroke-width": 0.5 }));
  }
  columns.forEach((column, index) => {
    const x = (index + HISTORY - history.length) * cellWidth;
    for (let power = HEAT_FIRST; power <= HEAT_LAST; power += 1) {
      const count = column.buckets[power] ?? 0;
      if (count === 0) continue;
      const strength = 0.15 + 0.85 * Math.log1p(count) / Math.log1p(most);
      chart.append(element("rect", { x, y: height - (power - HEAT_FIRST + 1) * cellHeight, width: cellWidth + 0.3, height: cellHeight + 0.3, fill: `rgb(var(--heat) / ${strength.toFixed(2)})` }));
    }
  });
  const scale = element("div", { class: "scale" });
  for (let power = HEAT_LAST; power >= HEAT_FIRST; power -= 6) scale.append(element("span", {}, time(2 ** power)));
  byId("heat").replaceChildren(scale, chart);
}

const row = (...cells) => element("tr", {}, ...cells.map((cell) => cell instanceof Node ? cell : element("td", {}, String(cell))));

function fill(table, rows, text) {
  const columns = table.tHead.rows[0].cells.length;
  const none = element("tr", {}, element("td", { colspan: columns, class: "empty" }, text));
  table.tBodies[0].replaceChildren(...(rows.length > 0 ? rows : [none]));
}

function drawDisks(newer, older) {
  const length = secondsBetween(newer, older);
  const disks = pairs(newer, older, "blocks", ["device", "direction"]).map(([disk, before]) => {
    const device = difference(disk.device_time, before?.device_time), queue = difference(disk.queue, before?.queue);
    return row(`${disk.device} ${disk.direction}`, `${bytes((disk.bytes - (before?.bytes ?? disk.bytes)) / length)}/s`, time(quantile(device, 0.5)), time(quantile(device, 0.99)), time(quantile(queue, 0.99)), "eBPF block_rq_issue, block_rq_complete");
  });
  const connections = pairs(newer, older, "tcp", ["device"]).map(([tcp, before]) => {
    const trips = difference(tcp.round_trip, before?.round_trip);
    const resent = tcp.retransmits - (before?.retransmits ?? tcp.retransmits);
    return row(`TCP round trips on ${tcp.device}`, `${(resent / length).toFixed(1)} retransmits/s`, time(quantile(trips, 0.5)), time(quantile(trips, 0.99)), "-", "eBPF sock_ops, tcp_retransmit_skb");
  });
  fill(byId("disks"), [...disks, ...connections], "Nothing seen yet; needs the eBPF probes, see below.");
}

function drawSlow(newer) {
  const items = newer.slow.slice(0, 30).map((batch) => {
    const stages = [["queue", batch.queue_ns], ["wire", batch.wire_ns], ["peer", batch.peer_ns], ["disk", batch.disk_ns]];
    const total = stages.reduce((sum, [, length]) => sum + length, 0);
    const bar = element("div", { class: "bar", role: "img", "aria-label": stages.map(([name, length]) => `${name} ${time(length)}`).join(", ") });
    for (const [name, length] of stages) if (length > 0) {
      const part = element("span", { class: name, title: `${name} ${time(length)}` });
      part.style.flexGrow = String(length / total);
      bar.append(part);
    }
    const status = batch.status === 0 ? "" : `, status ${batch.status}`;
    return element("li", {}, `${time(total)}: ${batch.direction} of ${bytes(batch.bytes)} in ${batch.operations} operations over ${batch.route} ${batch.device} to ${batch.peer || "?"}${batch.tenant ? `, tenant ${batch.tenant}` : ""}, process ${batch.pid}${status}`, bar);
  });
  byId("slow").replaceChildren(...(items.length > 0 ? items : [element("li", { class: "empty" }, "None so far.")]));
}

function drawShards(newer, older) {
  const length = secondsBetween(newer, older);
  const rows = pairs(newer, older, "tasks", ["program", "thread"]).map(([task, before]) => {
    const waits = difference(task.run_queue, before?.run_queue), sleeps = difference(task.off_cpu, before?.off_cpu);
    const share = 100 * waits.sum_ns / (length * 1e9 * Math.max(1, task.threads));
    return row(task.program, task.thread, task.threads, time(quantile(waits, 0.99)), `${share.toFixed(1)} %`, (sleeps.count / length).toFixed(0));
  });
  fill(byId("shards"), rows, "No thread of ours is watched.");
}

function drawProbes(newer, older) {
  const length = secondsBetween(newer, older);
  const costs = new Map();
  for (const [probe, before] of pairs(newer, older, "probes", ["probe", "program"])) {
    const sum = costs.get(probe.probe) ?? [0, 0];
    costs.set(probe.probe, [sum[0] + probe.runs - (before?.runs ?? probe.runs), sum[1] + probe.run_ns - (before?.run_ns ?? probe.run_ns)]);
  }
  const rows = newer.sources.map((source) => {
    const cost = costs.get(source.name);
    const measured = cost && cost[0] > 0;
    return element("tr", {},
      element("td", {}, source.name), element("td", { class: source.state }, source.state), element("td", { class: "wrap" }, source.shows),
      element("td", {}, measured ? (cost[0] / length).toFixed(0) : "-"),
      element("td", {}, measured ? `${(cost[1] / length / 1e7).toFixed(3)} % of a core` : "-"),
      element("td", { class: "wrap" }, source.reason ? `${source.reason}; ${source.remedy}` : source.source));
  });
  fill(byId("probes"), rows, "Nothing is known yet.");
}

function draw() {
  const newer = history.at(-1);
  if (!newer) return;
  const older = history.at(-2) ?? newer;
  byId("host").textContent = `on ${newer.host}`;
  drawNics(newer, older);
  drawHeat();
  drawDisks(newer, older);
  drawSlow(newer);
  drawShards(newer, older);
  drawProbes(newer, older);
}

function tell(text, stale) {
  byId("state").textContent = text;
  byId("state").classList.toggle("stale", stale);
}

async function poll() {
  try {
    const answer = await fetch("snapshot.json", { signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const snapshot = await answer.json();
    if (snapshot.monotonic_ns < (history.at(-1)?.monotonic_ns ?? 0)) history.length = 0;
    if (snapshot.monotonic_ns !== history.at(-1)?.monotonic_ns) history.push(snapshot);
    if (history.length > HISTORY) history.shift();
    const processes = snapshot.processes.length;
    const off = snapshot.sources.filter((source) => source.state === "off").length;
    tell(`${paused ? "Paused. " : ""}${new Date(snapshot.taken_ms).toLocaleTimeString()}, ${processes} ${processes === 1 ? "process" : "processes"} of ours, ${off === 0 ? "all sources on" : `${off} ${off === 1 ? "source" : "sources"} off`}`, false);
    if (!paused) draw();
  } catch (error) {
    tell(`The agent does not answer (${error.message}); what is shown is old`, true);
  }
  setTimeout(poll, INTERVAL_MS);
}

function setPaused(value) {
  paused = value;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused) draw();
}

function changeTheme() {
  const dark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

function moveFocus(step) {
  const tiles = [...document.querySelectorAll(".tile")];
  const at = tiles.indexOf(document.activeElement);
  tiles[(at + step + tiles.length) % tiles.length]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const onButton = event.target.tagName === "BUTTON";
  if (event.key === " " && !onButton) { setPaused(!paused); event.preventDefault(); }
  if (event.key === "t") changeTheme();
  if (event.key === "o") { const order = byId("order"); order.selectedIndex = (order.selectedIndex + 1) % order.options.length; draw(); }
  if (event.key === "ArrowRight" || event.key === "ArrowDown") { moveFocus(1); event.preventDefault(); }
  if (event.key === "ArrowLeft" || event.key === "ArrowUp") { moveFocus(-1); event.preventDefault(); }
});
byId("pause").addEventListener("click", () => setPaused(!paused));
byId("theme").addEventListener("click", changeTheme);
byId("order").addEventListener("change", draw);
byId("virtual").addEventListener("change", draw);
poll();
