// Rates of each replica from its own counters. Two reports of the same life of a replica
// make a rate; counters that fell, or another start time, begin anew.

export class Rates {
  constructor() { this.last = new Map(); this.begun = new Map(); this.history = []; }

  // take returns the rates of each replica that has reported twice, and notes the sums.
  take(overview) {
    const rates = new Map();
    const sum = { received: [0, 0, 0], delivered: [0, 0, 0], stored: 0, known: false };
    for (const { replica, report } of overview.replicas) {
      if (!report) continue;
      const at = Date.parse(report.at) / 1000;
      const before = this.last.get(replica);
      const begun = this.begun.get(replica);
      if (!begun || begun.started !== report.started) this.begun.set(replica, { started: report.started, counters: report.counters });
      this.last.set(replica, { at, started: report.started, counters: report.counters });
      if (!before || before.started !== report.started || at <= before.at) {
        if (before?.rates && before.started === report.started) { rates.set(replica, before.rates); this.last.get(replica).rates = before.rates; add(sum, before.rates); }
        continue;
      }
      const per = (now, then) => Math.max(0, now - then) / (at - before.at);
      const c = report.counters, b = before.counters;
      const r = { received: c.received.map((n, i) => per(n, b.received[i])), delivered: c.delivered.map((n, i) => per(n, b.delivered[i])), stored: per(c.stored, b.stored) };
      this.last.get(replica).rates = r;
      rates.set(replica, r);
      add(sum, r);
    }
    if (sum.known) this.history = [...this.history.slice(-89), sum];
    return { rates, sum };
  }

  // since returns what a counter by reason has grown by while the page is open.
  since(replica, name, reason, now) { return now - (this.begun.get(replica)?.counters[name][reason] || 0); }
}

function add(sum, r) {
  for (const i of [0, 1, 2]) { sum.received[i] += r.received[i]; sum.delivered[i] += r.delivered[i]; }
  sum.stored += r.stored;
  sum.known = true;
}

// draw stacks the three QoS of the history as areas, newest at the right.
export function draw(svg, history, name) {
  const width = 300, height = 72, steps = 89;
  const highest = Math.max(1, ...history.map((h) => h[name][0] + h[name][1] + h[name][2]));
  const x = (i) => width - (history.length - 1 - i) * (width / steps);
  const y = (v) => height - 2 - (v / highest) * (height - 8);
  const areas = [];
  for (const qos of [0, 1, 2]) {
    const top = [], bottom = [];
    history.forEach((h, i) => {
      const below = h[name].slice(0, qos).reduce((a, b) => a + b, 0);
      top.push(`${x(i).toFixed(1)},${y(below + h[name][qos]).toFixed(1)}`);
      bottom.unshift(`${x(i).toFixed(1)},${y(below).toFixed(1)}`);
    });
    const area = document.createElementNS("http://www.w3.org/2000/svg", "polygon");
    area.setAttribute("points", [...top, ...bottom].join(" "));
    area.setAttribute("class", `q${qos}`);
    areas.push(area);
  }
  svg.replaceChildren(...areas);
}
