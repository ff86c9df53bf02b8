// The verdict on a cluster: who is slow, NIC by peer, hosts. Texts of agents are never markup.

const PERIOD_MS = 2000;
const STALE_MS = 10000;
const part = (id) => document.getElementById(id);

let answered = 0;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function duration(ns) {
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toPrecision(3)} ms`;
  return `${(ns / 1e9).toPrecision(3)} s`;
}

function lasting(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function showCulprits(verdict) {
  const list = part("culprits");
  const items = verdict.culprits.map((one) => {
    const item = element("li");
    item.append(element("b", `${one.kind} ${one.name}`));
    const share = one.links ? `, ${one.sick_links} of its ${one.links} links` : "";
    item.append(`${share}, for ${lasting(verdict.taken_ms - one.since_ms)}`);
    one.evidence.forEach((text) => item.append(element("small", text)));
    return item;
  });
  const agents = verdict.hosts.length;
  const none = agents ? "Nothing: no agent sees a link, NIC, disk or thread that is slower than its like." : "No agent reports to this master. Start agents with --report_to=MASTER.";
  list.className = items.length ? "some" : "";
  list.replaceChildren(...(items.length ? items : [element("li", none, agents ? "well" : "empty")]));
}

// Both directions of a pair of NIC and host, as one field of the row of either end.
function fields(verdict) {
  const found = new Map();
  const add = (near, far, link) => {
    if (!near.nic) return;
    const row = `${near.host}/${near.nic}`;
    if (!found.has(row)) found.set(row, { host: near.host, cells: new Map() });
    const cells = found.get(row).cells;
    const cell = cells.get(far.host) ?? { ns: null, sick: false, again: 0 };
    if (link.round_trip_ns !== null) cell.ns = Math.max(cell.ns ?? 0, link.round_trip_ns);
    cell.sick ||= link.is_sick;
    cell.again += link.sent_again;
    cells.set(far.host, cell);
  };
  for (const link of verdict.links) {
    add(link.from, link.to, link);
    add(link.to, link.from, link);
  }
  return found;
}

function showMatrix(verdict) {
  const table = part("matrix");
  const found = fields(verdict);
  const rows = [...found.keys()].sort();
  const columns = [...new Set([...found.values()].flatMap((row) => [...row.cells.keys()]))].sort();
  const times = [...found.values()].flatMap((row) => [...row.cells.values()].map((cell) => cell.ns)).filter((ns) => ns);
  const [least, most] = [Math.min(...times), Math.max(...times)];
  part("least").textContent = times.length ? duration(least) : "";
  part("most").textContent = times.length ? duration(most) : "";
  if (!rows.length) {
    table.replaceChildren(element("caption", "Nothing moves between hosts whose agents report here.", "empty"));
    return;
  }
  const head = element("tr");
  const corner = element("th", "NIC");
  corner.scope = "col";
  head.append(corner, ...columns.map((name) => { const th = element("th", name); th.scope = "col"; return th; }));
  const body = rows.map((name) => {
    const { host, cells } = found.get(name);
    const row = element("tr");
    const title = element("th", name);
    title.scope = "row";
    row.append(title);
    for (const column of columns) {
      const cell = cells.get(column);
      const field = element("td", cell ? (cell.ns === null ? "?" : duration(cell.ns)) : "");
      if (column === host) field.className = "own";
      if (cell?.ns) {
        const heat = most > least ? Math.log(cell.ns / least) / Math.log(most / least) : 0;
        field.style.backgroundColor = `rgb(var(--heat) / ${(0.12 + 0.63 * heat).toFixed(2)})`;
      }
      if (cell?.sick) { field.classList.add("sick"); field.textContent += " !"; }
      if (cell) field.title = `${name} to ${column}: ${cell.again} segments sent again in the last seconds${cell.sick ? "; an agent complains about it" : ""}`;
      row.append(field);
    }
    return row;
  });
  table.replaceChildren(head, ...body);
}

function showHosts(verdict) {
  const rows = verdict.hosts.map((one) => {
    const row = element("tr");
    row.append(element("td", one.host), element("td", one.nics.join(", ")), element("td", `${lasting(one.age_ms)} ago`));
    return row;
  });
  const silent = (verdict.silent ?? []).map((one) => {
    const row = element("tr");
    row.append(element("td", one.host), element("td", ""), element("td", `silent for ${lasting(one.age_ms)}`));
    return row;
  });
  part("hosts").tBodies[0].replaceChildren(...rows, ...silent);
}

function show(verdict) {
  showCulprits(verdict);
  showMatrix(verdict);
  showHosts(verdict);
  const clock = new Date(verdict.taken_ms).toLocaleTimeString();
  part("state").textContent = `${verdict.hosts.length} agents, ${verdict.links.length} links, ${clock}`;
}

async function turn() {
  try {
    const answer = await fetch("api/v1/cluster/verdict", { signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    answered = Date.now();
    document.body.classList.remove("old");
  } catch (error) {
    if (Date.now() - answered > STALE_MS) {
      document.body.classList.add("old");
      part("state").textContent = `The master does not answer (${error.message}); what is shown is old`;
    }
  }
  setTimeout(turn, PERIOD_MS);
}

turn();
