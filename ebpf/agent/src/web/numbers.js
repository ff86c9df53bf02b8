// Numbers out of two snapshots, and how they are written. Pure: nothing here knows the page.

export function bytes(value) {
  if (value === null || !Number.isFinite(value)) return "-";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value >= 100 || unit === 0 ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]}`;
}

// Of one reading alone there are no rates.
export const rate = (amount, seconds) => seconds > 0 ? amount / seconds : null;

export function perSecond(amount, seconds, digits = 0) {
  const found = rate(amount, seconds);
  return found === null ? "-" : found.toFixed(digits);
}

export function time(ns) {
  if (ns === null || !Number.isFinite(ns)) return "-";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) if (ns >= size) return `${(ns / size).toPrecision(3)} ${unit}`;
  return `${ns.toFixed(0)} ns`;
}

export function percent(share) {
  if (share === null || !Number.isFinite(share)) return "-";
  const value = 100 * share;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value.toFixed(value < 1 ? 2 : value < 10 ? 1 : 0)} %`;
}

export const plural = (count, one, many) => `${count} ${count === 1 ? one : many}`;

const key = (item, names) => names.map((name) => item[name]).join("\u0000");

// Pairs each series of the newer snapshot with the same one of the older.
export function pairs(newer, older, list, names) {
  const before = new Map((older?.[list] ?? []).map((item) => [key(item, names), item]));
  return (newer[list] ?? []).map((item) => [item, before.get(key(item, names))]);
}

// An agent that was started again counts its own time from 0; the clock of the day goes on.
export function secondsBetween(newer, older) {
  const counted = (newer.monotonic_ns - older.monotonic_ns) / 1e9;
  return counted > 0 || newer === older ? counted : Math.max(0, newer.taken_ms - older.taken_ms) / 1000;
}

export function difference(now, before) {
  const less = (counts, earlier) => (counts ?? []).map((count, index) => count - (earlier?.[index] ?? 0));
  // Records of the past have no finer buckets.
  const isFiner = !before?.count || before.quarters?.length > 0;
  return {
    count: now.count - (before?.count ?? 0),
    sum_ns: now.sum_ns - (before?.sum_ns ?? 0),
    buckets: less(now.buckets, before?.buckets),
    quarters: isFiner ? less(now.quarters, before?.quarters) : [],
  };
}

function merge(distributions) {
  const sum = { count: 0, sum_ns: 0, buckets: [], quarters: [] };
  for (const one of distributions) {
    sum.count += one.count;
    sum.sum_ns += one.sum_ns;
    for (const name of ["buckets", "quarters"]) {
      (one[name] ?? []).forEach((count, index) => { sum[name][index] = (sum[name][index] ?? 0) + count; });
    }
  }
  return sum;
}

// The first power of two of nanoseconds that has finer buckets.
const QUARTERED_POWER = 10;

// The value below which this share lies, evenly spread inside its bucket, as the agent's own verdicts count.
export function quantile(distribution, share) {
  const total = distribution.buckets.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let left = share * total;
  for (const [power, count] of distribution.buckets.entries()) {
    if (count > 0 && count >= left) return 2 ** power * (1 + partBelow(distribution, power, left / count));
    left -= count;
  }
  return null;
}

// How far inside a power of two its values of this share lie, by the four finer buckets that some powers have.
function partBelow(distribution, power, share) {
  const first = 4 * (power - QUARTERED_POWER);
  const quarters = first < 0 ? [] : (distribution.quarters ?? []).slice(first, first + 4);
  let left = share * quarters.reduce((sum, count) => sum + count, 0);
  for (const [quarter, count] of quarters.entries()) {
    if (count > 0 && count >= left) return (quarter + left / count) / 4;
    left -= count;
  }
  return share;
}

// Latency of what the data plane moved between two snapshots, over one device or (null) over all.
export function flowLatency(newer, older, device) {
  // Records of the past hold sums over programs and shards, so sums are compared.
  const sum = (snapshot) => {
    const sums = new Map();
    for (const flow of snapshot.flows ?? []) {
      if (device !== null && flow.device !== device) continue;
      const name = key(flow, ["device", "route", "direction"]);
      sums.set(name, [...(sums.get(name) ?? []), flow.latency]);
    }
    return sums;
  };
  const before = sum(older);
  return merge([...sum(newer)].map(([name, all]) => difference(merge(all), merge(before.get(name) ?? []))));
}

export const nicName = (nic) => `${nic.device}/${nic.port}`;

// Rates of every NIC, snapshot by snapshot: name -> [{ at, receive, transmit, lost }].
export function nicRates(history) {
  const rates = new Map();
  for (let index = 1; index < history.length; index += 1) {
    const [newer, older] = [history[index], history[index - 1]];
    const length = secondsBetween(newer, older);
    for (const [nic, before] of pairs(newer, older, "nics", ["device", "port"])) {
      if (!before || length <= 0) continue;
      const grown = (field) => Math.max(0, nic[field] - before[field]);
      const name = nicName(nic);
      if (!rates.has(name)) rates.set(name, []);
      rates.get(name).push({
        at: newer.taken_ms, receive: grown("receive_bytes") / length, transmit: grown("transmit_bytes") / length, lost: grown("errors") + grown("drops"),
      });
    }
  }
  return rates;
}
