// The agent's page: asks for a snapshot every second and shows what happened since the one before.
import { HISTORY, element, heatMap, nicChart, stageBar } from "./charts.js";
import { bytes, difference, flowLatency, nicName, nicRates, pairs, perSecond, percent, plural, quantile, rate, secondsBetween, time } from "./numbers.js";

const INTERVAL_MS = 1000;
const SLOW_SHOWN = 30, PAST_SHOWN = 64, LINKS_SHOWN = 32, HEATS_SHOWN = 8;
const OLD_MS = 5000; // the agent reads its host every second
const KINDS = ["ib", "roce", "soft_roce", "bond", "ethernet", "ipoib", "virtual", "loopback"];
const history = []; // the last two minutes
let past = null; // { snapshots, step_ms }: a stretch of the past, while the slider is there
let range = { first_ms: 0, last_ms: 0 }, wanted = 0;
const tiles = new Map(); // stay in the page from reading to reading, so that focus and clicks are not lost
let paused = false, openTile = null, changedAt = performance.now(), timer = null, asking = false;

const byId = (id) => document.getElementById(id);

// What the agent found slow, with the numbers behind it.
function drawSuspects(newer) {
  const suspects = newer.suspects ?? [];
  byId("slowness").hidden = suspects.length === 0;
  byId("suspects").replaceChildren(...suspects.map((suspect) => element("li", {},
    element("b", {}, `${suspect.kind} ${suspect.name}`), `: ${suspect.evidence} `,
    element("small", {}, `since ${new Date(suspect.since_ms).toLocaleTimeString()}`))));
  // A record of the past does not hold the list, which the newest reading has.
  const ended = ((history.at(-1) ?? newer).past_suspects ?? []).slice(0, PAST_SHOWN);
  byId("past").hidden = ended.length === 0;
  byId("past-suspects").replaceChildren(...ended.map((suspect) => {
    const when = `${new Date(suspect.since_ms).toLocaleString()} to ${new Date(suspect.until_ms).toLocaleTimeString()}`;
    const go = element("button", { type: "button", class: "when", title: "Show this time" }, when);
    go.addEventListener("click", () => goTo(suspect.until_ms));
    return element("li", {}, go, " ", element("b", {}, `${suspect.kind} ${suspect.name}`), `: ${suspect.evidence}`);
  }));
}

function newTile(name) {
  const tile = element("button", { type: "button", class: "tile", "data-nic": name });
  tile.addEventListener("click", () => { openTile = openTile === name ? null : name; draw(); });
  return tile;
}

function nicFacts(nic, now, points, latency, odd) {
  const facts = element("div", { class: "facts" });
  const add = (text, kind = "fact") => facts.append(element("span", { class: kind }, text));
  const link = nic.link_bytes_per_second;
  if (!nic.up) add("link down", "bad");
  else if (link) add(`${percent(Math.max(now.receive, now.transmit) / link)} of ${bytes(link)}/s`);
  if (latency.count > 0) add(`p50 ${time(quantile(latency, 0.5))}, p99 ${time(quantile(latency, 0.99))}`);
  if (odd) add("slower than its peers", "bad");
  const lost = points.reduce((sum, point) => sum + point.lost, 0);
  if (lost > 0) add(`${plural(lost, "error or drop", "errors and drops")} in two minutes`, "bad");
  return facts;
}

function drawTile(tile, nic, points, newer, older, odd) {
  const now = points.at(-1) ?? { receive: 0, transmit: 0 };
  const numa = nic.numa === null ? "" : `, NUMA ${nic.numa}`;
  const latency = flowLatency(newer, older, nic.device);
  tile.replaceChildren(
    element("h3", {}, nic.device, element("small", {}, `${nic.kind}${numa}`)),
    nicChart(nic, points, step()),
    element("div", { class: "numbers" },
      element("b", { class: "receive" }, `in ${bytes(now.receive)}/s`),
      element("b", { class: "transmit" }, `out ${bytes(now.transmit)}/s`)),
    nicFacts(nic, now, points, latency, odd));
  tile.classList.toggle("odd", odd);
  tile.classList.toggle("open", openTile === nicName(nic));
  tile.setAttribute("aria-expanded", String(openTile === nicName(nic)));
}

function arranged(nics, rates) {
  const rate = (nic) => { const now = rates.get(nicName(nic))?.at(-1); return now ? Math.max(now.receive, now.transmit) : 0; };
  const share = (nic) => nic.link_bytes_per_second ? rate(nic) / nic.link_bytes_per_second : 0;
  const kind = (nic) => KINDS.indexOf(nic.kind);
  const orders = { rate: (a, b) => rate(b) - rate(a), share: (a, b) => share(b) - share(a), kind: (a, b) => kind(a) - kind(b) };
  return nics.toSorted((a, b) => orders[byId("order").value](a, b) || a.device.localeCompare(b.device, "en", { numeric: true }) || a.port - b.port);
}

function drawNics(newer, older) {
  const rates = nicRates(shownHistory());
  const isShown = (nic) => byId("virtual").checked || !["virtual", "loopback"].includes(nic.kind) || newer.nics.length <= 3;
  const shown = arranged(newer.nics.filter(isShown), rates);
  const blamed = (newer.suspects ?? []).filter((suspect) => suspect.kind === "nic");
  const odd = new Set(blamed.map((suspect) => suspect.name));
  const wanted = shown.map((nic) => {
    const name = nicName(nic);
    if (!tiles.has(name)) tiles.set(name, newTile(name));
    drawTile(tiles.get(name), nic, rates.get(name) ?? [], newer, older, odd.has(nic.device));
    return tiles.get(name);
  });
  const nics = byId("nics");
  if (wanted.length === 0) wanted.push(element("p", { class: "empty" }, newer.nics.length > 0 ? "Only virtual NICs are here; tick \u201cvirtual NICs\u201d to see them." : "The agent sees no NIC on this host."));
  if (wanted.some((tile, index) => nics.children[index] !== tile) || nics.children.length !== wanted.length) {
    const focused = nics.contains(document.activeElement) ? document.activeElement : null;
    nics.replaceChildren(...wanted);
    focused?.focus({ preventScroll: true });
  }
}

const row = (...cells) => element("tr", {}, ...cells.map((cell) => cell instanceof Node ? cell : element("td", {}, String(cell))));

function fill(table, rows, text) {
  const columns = table.tHead.rows[0].cells.length;
  const none = element("tr", {}, element("td", { colspan: columns, class: "empty" }, text));
  table.tBodies[0].replaceChildren(...(rows.length > 0 ? rows : [none]));
}

function bytesPerSecond(amount, seconds) {
  const found = rate(amount, seconds);
  return found === null ? "-" : `${bytes(found)}/s`;
}

// Why a source shows nothing, if it is off; otherwise the text for a source that has had nothing to show.
function absence(newer, name, text) {
  if (past) return "Nothing recorded for this moment.";
  const source = newer.sources.find((source) => source.name === name);
  return source?.state === "off" ? `Off: ${source.reason}. To change that: ${source.remedy}.` : text;
}

// Disks that keep objects; a disk that was opened again counts from 0.
function drawTier(newer, older) {
  const length = secondsBetween(newer, older);
  const disks = newer.disks ?? [];
  byId("tier").hidden = disks.length === 0;
  const rows = pairs(newer, older, "disks", ["pid", "path"]).map(([disk, before]) => {
    const since = (before?.errors ?? 0) <= disk.errors && (before?.written_bytes ?? 0) <= disk.written_bytes ? before : undefined;
    const grown = (field) => Math.max(0, disk[field] - (since?.[field] ?? disk[field]));
    const [reads, writes] = [difference(disk.reads, since?.reads), difference(disk.writes, since?.writes)];
    const next = disk.retry_ms > 0 ? `; tried again at ${new Date(disk.retry_ms).toLocaleTimeString()}` : "";
    const state = disk.state === "healthy" ? "serves" : element("td", { class: "wrap off" }, `${disk.state}: ${disk.reason}${next}`);
    const full = disk.capacity_bytes > 0 ? `${bytes(disk.used_bytes)} (${percent(disk.used_bytes / disk.capacity_bytes)})` : "-";
    return row(disk.path, `${disk.program} ${disk.pid}`, state, full, disk.capacity_bytes > 0 ? bytes(disk.capacity_bytes) : "-",
      bytesPerSecond(grown("read_bytes"), length), time(quantile(reads, 0.5)), time(quantile(reads, 0.99)),
      bytesPerSecond(grown("written_bytes"), length), time(quantile(writes, 0.99)));
  });
  fill(byId("logs"), rows, "");
}

function drawDisks(newer, older) {
  const length = secondsBetween(newer, older);
  const disks = pairs(newer, older, "blocks", ["device", "direction"]).map(([disk, before]) => {
    const device = difference(disk.device_time, before?.device_time), queue = difference(disk.queue, before?.queue);
    return row(`${disk.device} ${disk.direction}`, bytesPerSecond(disk.bytes - (before?.bytes ?? disk.bytes), length), time(quantile(device, 0.5)), time(quantile(device, 0.99)), time(quantile(queue, 0.99)), "eBPF block_rq_issue, block_rq_complete");
  });
  const connections = pairs(newer, older, "tcp", ["device"]).map(([tcp, before]) => {
    const trips = difference(tcp.round_trip, before?.round_trip);
    const resent = tcp.retransmits - (before?.retransmits ?? tcp.retransmits);
    return row(`TCP round trips on ${tcp.device}`, `${perSecond(resent, length, 1)} retransmits/s`, time(quantile(trips, 0.5)), time(quantile(trips, 0.99)), "-", "eBPF sock_ops, tcp_retransmit_skb");
  });
  const links = pairs(newer, older, "links", ["device", "peer"]).filter(([link]) => link.connections > 0).map(([link, before]) => {
    const resent = link.retransmits - (before?.retransmits ?? link.retransmits);
    return row(`TCP to ${link.peer} on ${link.device}`, `${perSecond(resent, length, 1)} retransmits/s`, link.asked_round_trip_ns ? time(link.asked_round_trip_ns) : "-", "-", "-", "sockets of our processes (smoothed)");
  });
  fill(byId("disks"), [...disks, ...connections, ...links.slice(0, LINKS_SHOWN)], absence(newer, "blocks", "Nothing seen yet."));
}

function drawSlow(newer) {
  const slow = past ? past.snapshots.flatMap((one) => one.slow).toSorted((a, b) => b.ended_ms - a.ended_ms) : newer.slow;
  const batches = slow.slice(0, SLOW_SHOWN).map((batch) => {
    const stages = [["queue", batch.queue_ns], ["wire", batch.wire_ns], ["peer", batch.peer_ns], ["disk", batch.disk_ns]];
    return { batch, stages, total: stages.reduce((sum, [, length]) => sum + length, 0) };
  });
  const longest = Math.max(1, ...batches.map(({ total }) => total));
  const items = batches.map(({ batch, stages, total }) => {
    const size = batch.operations === 1 ? bytes(batch.bytes) : `${bytes(batch.bytes)} in ${batch.operations} operations`;
    const tenant = batch.tenant ? `, tenant ${batch.tenant}` : "";
    const status = batch.status === 0 ? "" : `, status ${batch.status}`;
    const when = new Date(batch.ended_ms).toLocaleTimeString();
    const where = `${when}: ${batch.direction} of ${size} over ${batch.route} ${batch.device} to ${batch.peer || "an unnamed peer"}${tenant}, ${batch.program} (process ${batch.pid})${status}`;
    return element("li", {}, element("b", {}, time(total)), element("span", {}, where), stageBar(stages, total, longest));
  });
  byId("slow").replaceChildren(...(items.length > 0 ? items : [element("li", { class: "empty" }, absence(newer, "batches", "None so far."))]));
}

function drawShards(newer, older) {
  const length = secondsBetween(newer, older);
  const tasks = pairs(newer, older, "tasks", ["program", "thread"]).map(([task, before]) => {
    const waits = difference(task.run_queue, before?.run_queue), sleeps = difference(task.off_cpu, before?.off_cpu);
    return { task, waits, sleeps, share: rate(waits.sum_ns / (1e9 * Math.max(1, task.threads)), length) };
  });
  tasks.sort((a, b) => b.share - a.share);
  const rows = tasks.map(({ task, waits, sleeps, share }) => row(task.program, task.thread, task.threads, percent(share), time(quantile(waits, 0.99)), perSecond(sleeps.count, length)));
  fill(byId("shards"), rows, absence(newer, "tasks", "No thread of ours is watched."));
}

// Runs and nanoseconds of each probe between two snapshots.
function probeCosts(newer, older) {
  const costs = new Map();
  for (const [probe, before] of pairs(newer, older, "probes", ["probe", "program"])) {
    const [runs, spent] = costs.get(probe.probe) ?? [0, 0];
    costs.set(probe.probe, [runs + probe.runs - (before?.runs ?? probe.runs), spent + probe.run_ns - (before?.run_ns ?? probe.run_ns)]);
  }
  return costs;
}

function drawProbes(newer, older) {
  const length = secondsBetween(newer, older);
  const costs = probeCosts(newer, older);
  const core = (spent) => `${percent(rate(spent / 1e9, length))} of a core`;
  const rows = newer.sources.map((source) => {
    const [runs, spent] = costs.get(source.name) ?? [0, 0];
    const why = source.reason ? `${source.reason}; ${source.remedy}` : source.source;
    return element("tr", {},
      element("td", {}, source.name), element("td", { class: source.state }, source.state), element("td", { class: "wrap" }, source.shows),
      element("td", {}, runs > 0 ? perSecond(runs, length) : "-"), element("td", {}, runs > 0 ? core(spent) : "-"),
      element("td", { class: "wrap" }, why));
  });
  fill(byId("probes"), rows, "Nothing is known yet.");
  const all = [...costs.values()].reduce((sum, [, spent]) => sum + spent, 0);
  byId("cost").textContent = all > 0 ? `All probes together: ${core(all)}; reading the host: ${time(newer.collect_ns)} each second.` : `Reading the host: ${time(newer.collect_ns)} each second.`;
}

const shownHistory = () => past ? past.snapshots : history;
const step = () => past ? past.step_ms : INTERVAL_MS;

// All together, then each NIC that moved something.
function drawHeat(seen, newer) {
  byId("heat").replaceChildren(...heatMap(seen, step()));
  const busy = [...new Set(newer.flows.filter((flow) => flow.device !== "" && flow.operations > (seen[0].flows.find((one) => one.device === flow.device && one.route === flow.route && one.direction === flow.direction && one.shard === flow.shard && one.program === flow.program)?.operations ?? 0)).map((flow) => flow.device))];
  const maps = busy.length < 2 ? [] : busy.sort().slice(0, HEATS_SHOWN).map((device) => element("figure", { "data-heat": device },
    element("figcaption", {}, device), element("div", { class: "heat" }, ...heatMap(seen, step(), device, `of ${device} `))));
  byId("nic-heats").replaceChildren(...maps);
}

// The slider: how far back, and where the page is.
function drawTime() {
  const slider = byId("time");
  range.last_ms = Math.max(range.last_ms, history.at(-1)?.taken_ms ?? 0);
  if (!range.first_ms) range.first_ms = history[0]?.taken_ms ?? 0;
  slider.min = String(range.first_ms);
  slider.max = String(range.last_ms);
  if (!past) slider.value = slider.max;
  const at = past?.snapshots.at(-1)?.taken_ms;
  byId("when").textContent = past ? (at ? new Date(at).toLocaleString() : "not watched") : "now";
  byId("now").hidden = !past;
  document.body.classList.toggle("past", past !== null);
}

async function recorded(from, to) {
  const answer = await fetch(`history.json?from=${Math.round(from)}&to=${Math.round(to)}`, { signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(`${answer.status}`);
  const found = await answer.json();
  range = { first_ms: found.first_ms, last_ms: Math.max(found.last_ms, range.last_ms) };
  return found;
}

// Shows the time before a moment of the past; the finest steps that there are of it.
async function goTo(at) {
  if (at >= range.last_ms - INTERVAL_MS) return goOnNow();
  const number = ++wanted;
  try {
    let found = await recorded(at - (HISTORY - 1) * INTERVAL_MS, at);
    if (found.step_ms > INTERVAL_MS) found = await recorded(at - (HISTORY - 1) * found.step_ms, at);
    if (number !== wanted) return;
    past = { snapshots: found.snapshots, step_ms: found.step_ms };
    byId("time").value = String(at);
    drawTime();
    if (past.snapshots.length > 0) draw();
    else tell("The agent did not watch at that time");
  } catch (error) {
    tell(`The history cannot be read (${error.message})`);
  }
}

function goOnNow() {
  wanted += 1;
  past = null;
  tell("");
  drawTime();
  draw();
}

function draw() {
  const seen = shownHistory();
  const newer = seen.at(-1);
  if (!newer) return;
  const older = seen.at(-2) ?? newer;
  byId("host").textContent = `on ${newer.host}`;
  drawSuspects(newer);
  drawNics(newer, older);
  drawHeat(seen, newer);
  drawTier(newer, older);
  drawDisks(newer, older);
  drawSlow(newer);
  drawShards(newer, older);
  drawProbes(newer, older);
}

function take(snapshot) {
  // The clock was set back.
  if (snapshot.taken_ms < (history.at(-1)?.taken_ms ?? 0)) history.length = 0;
  if (snapshot.taken_ms !== history.at(-1)?.taken_ms) {
    history.push(snapshot);
    changedAt = performance.now();
  } else history[history.length - 1] = snapshot; // a record of this moment says less
  if (history.length > HISTORY) history.shift();
  const off = snapshot.sources.filter((source) => source.state === "off").length;
  const sources = off === 0 ? "all sources on" : `${plural(off, "source", "sources")} off`;
  byId("state").textContent = `${new Date(snapshot.taken_ms).toLocaleTimeString()}, ${plural(snapshot.processes.length, "process", "processes")} of ours, ${sources}`;
}

// What is wrong, if anything; old numbers look old.
function tell(trouble) {
  const at = history.at(-1)?.taken_ms;
  const shown = trouble && at ? `${trouble}; what is shown is of ${new Date(at).toLocaleTimeString()}` : trouble;
  if (byId("trouble").textContent !== shown) byId("trouble").textContent = shown;
  document.body.classList.toggle("old", trouble !== "");
}

// A page that is paused or hidden asks for nothing.
const looks = () => !paused && !document.hidden;

async function poll() {
  try {
    const answer = await fetch("snapshot.json", { signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const snapshot = await answer.json();
    if (!paused) {
      take(snapshot);
      drawTime();
      if (!past) draw();
    }
    if (!past) tell(!paused && performance.now() - changedAt > OLD_MS ? "The agent answers but no longer reads its host" : "");
  } catch (error) {
    tell(`The agent does not answer (${error.message})`);
  }
  asking = false;
  goOn(INTERVAL_MS);
}

// Asks again, unless the page is hidden or an answer is awaited.
function goOn(delay) {
  clearTimeout(timer);
  timer = null;
  if (!looks() || asking) return;
  timer = setTimeout(() => { asking = true; poll(); }, delay);
}

// Nothing is known of the time the page was hidden: an agent gets as long as ever to read its host.
function lookAgain() {
  changedAt = performance.now();
  goOn(0);
}

function setPaused(value) {
  paused = value;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Go on" : "Pause";
  lookAgain();
}

function changeTheme() {
  const dark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

function moveFocus(step) {
  const all = [...document.querySelectorAll(".tile")];
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : (at + step + all.length) % all.length;
  all[next]?.focus();
}

const KEYS = {
  t: changeTheme,
  o: () => { const order = byId("order"); order.selectedIndex = (order.selectedIndex + 1) % order.options.length; draw(); },
  Escape: () => { openTile = null; draw(); },
};
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
  if (event.key === " " && event.target.tagName !== "BUTTON") { setPaused(!paused); event.preventDefault(); }
  KEYS[event.key]?.();
  // Lists and tables that scroll keep the arrows for themselves.
  if (STEPS[event.key] && !event.target.closest(".scroll, #slow")) { moveFocus(STEPS[event.key]); event.preventDefault(); }
});
byId("pause").addEventListener("click", () => setPaused(!paused));
byId("theme").addEventListener("click", changeTheme);
byId("order").addEventListener("change", draw);
byId("virtual").addEventListener("change", draw);
byId("time").addEventListener("input", () => goTo(Number(byId("time").value)));
byId("now").addEventListener("click", goOnNow);
document.addEventListener("visibilitychange", lookAgain);

// The page begins with what the agent has recorded.
async function begin() {
  try {
    const now = (await recorded(1, 1)).last_ms;
    history.push(...(await recorded(now - (HISTORY - 1) * INTERVAL_MS, now)).snapshots);
  } catch {
    // It begins empty, and the first question says what is wrong.
  }
  lookAgain();
}

begin();
