// Puts an overview on the page. Each part is made anew; what has not changed keeps its
// text, so that a screen reader is told of changes only.

import { band, bytes, duration, rate, reasonInWords, whyNoLink, whyNotReady } from "./words.js";
import { draw } from "./rates.js";

const $ = (id) => document.getElementById(id);
let shown = null; // the overview on the page
const silent = { by: "", since: new Map() }; // since when the one that answers cannot ask a replica, in its time

// node makes an element: props are properties, children text or nodes.
function node(name, props = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(props)) {
    if (k in e && k !== "list") e[k] = v;
    else e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

const chip = (tone, text) => node("span", { className: `chip ${tone}` }, text);
const why = (text) => (text ? node("span", { className: "why" }, text) : null);
const cell = (...children) => node("td", {}, ...children);
const number = (text) => node("td", { className: "n" }, text);
const head = (text) => node("th", { scope: "row" }, text);

// columns are a table's columns, each with its name and that of the group that begins with it.
function columns(table) {
  const [first, second] = table.tHead.rows, below = second ? [...second.cells] : [];
  return [...first.cells].flatMap((c) => (c.colSpan === 1 ? [{ name: c.textContent }]
    : below.splice(0, c.colSpan).map((b, i) => ({ name: b.textContent, group: i ? "" : c.textContent }))));
}

function rows(id, list, empty) {
  const table = $(id), heads = columns(table);
  if (!list.length) list.push(node("tr", {}, node("td", { colSpan: heads.length, className: "empty" }, empty)));
  // On a small screen the cells of a row stand below each other, each with its column's name.
  // A table that is laid out so is none to a screen reader any more, unless it is said to be.
  else for (const row of list) [...row.cells].forEach((c, i) => {
    c.setAttribute("data-column", heads[i].name);
    if (heads[i].group != null) c.setAttribute("data-group", heads[i].group);
  });
  table.tBodies[0].replaceChildren(...list);
  for (const [selector, role] of [["thead, tbody", "rowgroup"], ["tr", "row"], ["thead th", "columnheader"], ["tbody th", "rowheader"], ["td", "cell"]])
    for (const e of table.querySelectorAll(selector)) e.setAttribute("role", role);
}

// show puts an overview on the page; null shows the last one again.
export function show(overview, rates) {
  if (overview) {
    shown = overview;
    shown.rates = rates.take(overview);
    listen(overview);
  }
  if (!shown) return;
  const o = shown;
  const found = problems(o);
  verdict(o, found);
  $("problems").hidden = !found.length;
  attention(o, found);
  replicas(o);
  values(o, rates);
  refusals(o, rates);
  counts(o);
  sessions(o);
  bars(o);
}

// attention lists the problems. One that stays keeps its place in the page, for who stands on
// its link by the keyboard or reads it.
function attention(o, found) {
  const list = $("problems").lastElementChild, was = new Map([...list.children].map((li) => [li.dataset.problem, li]));
  const is = found.map((p) => {
    const key = `${p.key || p.title} ${p.page}`, li = was.get(key) || node("li", {}, node("strong"), "-", " ", runbook(o, p.page));
    li.dataset.problem = key;
    const [title, words] = li.childNodes;
    title.className = p.tone;
    if (title.textContent !== p.title) title.textContent = p.title;
    if (words.data !== p.words) words.data = p.words;
    return li;
  });
  for (const li of was.values()) if (!is.includes(li)) li.remove();
  is.forEach((li, i) => list.children[i] === li || list.insertBefore(li, list.children[i]));
}

function runbook(o, page) {
  return node("a", { href: `${o.runbooks}/${page}`, target: "_blank", rel: "noopener noreferrer" }, `Runbook: ${page.replace(/\.md.*/, "")}`);
}

// total is how many replicas there are, or should be. One that is gone is no member any
// more: the configuration alone says that it is missing.
const total = (o) => Math.max(o.expected, o.replicas.length);

// listen notes which replicas do not answer, and since when.
function listen(o) {
  if (silent.by !== o.replica) silent.since.clear();
  silent.by = o.replica;
  for (const r of o.replicas) {
    if (r.report) silent.since.delete(r.replica);
    else if (!silent.since.has(r.replica)) silent.since.set(r.replica, Date.parse(o.at));
  }
}

// serves is whether a replica serves devices for certain: it says so itself or, where it
// cannot be asked, goes on renewing its lease (every T / 10) and has not said otherwise in
// it. That the lease is young is not enough: one that was killed has renewed it just before.
const serves = (o, r) => (r.report ? r.report.ready : r.phase === "serving" && r.leaseAgeSeconds < o.memberTTLSeconds / 4 && r.leaseAgeSeconds + 0.5 < (Date.parse(o.at) - silent.since.get(r.replica)) / 1000);

const many = (n, one, more) => (n === 1 ? one : `${n} ${more}`);

// logged is the reason for which a link is down as it stands in the log, to search for.
const logged = (r) => (r.linkReason ? ` In the log: “${r.linkReason}”.` : "");

// problems are what an operator should look at, worst first.
function problems(o) {
  const list = [];
  // A replica that nobody reaches explains the missing links of the others.
  const unreached = o.replicas.filter((r) => !r.report).length;
  const missing = total(o) - o.replicas.length;
  if (missing) {
    list.push({ tone: "warn", title: `${many(missing, "One replica is", "replicas are")} missing`, page: "not-ready.md#missing",
      words: `There should be ${total(o)} (modules.uns.replicas), and ${many(o.replicas.length, "one is a member", "are members")} of the cluster. Devices are served by those, with their sessions. See why the missing ${missing === 1 ? "one does" : "ones do"} not run: its pod or process, then its log.` });
  }
  for (const r of o.replicas) {
    const report = r.report;
    if (report && !report.ready) {
      const { words, page } = whyNotReady(report.reason || "");
      list.push({ tone: "bad", title: `${r.replica} is not ready: ${report.reason}`, words, page });
    } else if (!report) {
      const age = o.memberTTLSeconds ? ` It last renewed its lease ${duration(r.leaseAgeSeconds)} ago; if it is dead, the others take it for gone from ${duration(1.5 * o.memberTTLSeconds)} on.` : "";
      const link = whyNoLink(r.linkReason);
      list.push({ tone: "warn", title: `${o.replica} cannot reach ${r.replica}`, page: r.phase === "serving" ? link.page : "not-ready.md",
        words: `${r.link === "down" ? `${link.words}${logged(r)}` : `${r.reportError}.`}${age} Its own figures are missing below. Live values for its subscribers wait for the link, ${bytes(r.waitingBytes)} of 64 MiB so far; persistent sessions miss nothing.` });
    } else if (r.link === "down" && r.phase === "serving") {
      const link = whyNoLink(r.linkReason);
      list.push({ tone: "warn", title: `${o.replica} has no link to ${r.replica}`, page: link.page,
        words: `${link.words}${logged(r)} Live subscribers on one side miss values of the other until it is back; persistent sessions do not. ${bytes(r.waitingBytes)} of 64 MiB wait for the link.` });
    }
    if (report && report.linksUp + unreached < report.linksExpected && r.link !== "down") {
      list.push({ tone: "warn", title: `${r.replica} has ${report.linksUp} of ${report.linksExpected} links`, page: "MaestroHubUNSBrokerMeshLinksDown.md", words: "Live values of the replicas it is not linked with come late there." });
    }
    if (report && report.ready) {
      const b = band(report.store);
      if (b.tone !== "good") list.push({ tone: b.tone, key: `slow ${r.replica}`, title: `NATS is slow at ${r.replica}: ${duration(report.store.roundTripSeconds)} a round trip`, words: b.words, page: "failure-table.md" });
      if (!report.historian.available) list.push({ tone: "bad", title: `${r.replica}: the historian is unavailable`, words: report.historian.reason || "", page: "MaestroHubUNSIngestStoreUnavailable.md" });
    }
  }
  for (const l of o.shared?.logs || []) {
    if (l.bytes != null && l.bytes > 0.9 * l.maxBytes) list.push({ tone: "warn", key: `log ${l.workspace}`, title: `The session log of workspace ${l.workspace} is ${Math.round((100 * l.bytes) / l.maxBytes)} % full`, words: "When it is full its oldest values go; sessions that have not read them miss them.", page: "MaestroHubUNSBrokerSessionLogValuesMissed.md" });
  }
  if (!o.shared) list.push({ tone: "warn", title: "What the replicas share cannot be read now", page: "not-ready.md#shared-state",
    words: `The shared stores (NATS) do not answer ${o.replica} in time, so sessions, wills and logs are not known now. It was told: “${o.sharedError || "nothing"}”.` });
  return list.sort((a, b) => (a.tone === "bad" ? 0 : 1) - (b.tone === "bad" ? 0 : 1));
}

// linked says which pairs have no link, or that all have: the Cluster row.
function linked(o) {
  const serving = o.replicas.filter((r) => r.phase === "serving");
  if (serving.length < 2) return o.memberTTLSeconds ? "No other replica serves: there is nothing to link." : "A single node: no cluster.";
  const short = serving.filter((r) => r.link === "down" || (r.report && r.report.linksUp < r.report.linksExpected));
  if (!short.length) return serving.length < total(o) ? `The ${serving.length} that serve are linked.` : `All ${serving.length} replicas are linked.`;
  return `Not linked with all others: ${short.map((r) => r.replica).join(", ")}.`;
}

function verdict(o, found) {
  const all = total(o), serving = o.replicas.filter((r) => serves(o, r)).length;
  const missing = all - o.replicas.length, unheard = o.replicas.filter((r) => !r.report).length;
  const tone = !serving ? "bad" : found.length ? "warn" : "good";
  // One that is cut off knows of itself only.
  const alone = !serving && unheard > 0;
  const first = [alone ? `${o.replica}, which answers, does not serve devices; whether the others do, it cannot know` : !serving ? "No replica serves devices" : serving < all ? `${serving} of ${all} replicas ${unheard ? "are known to serve" : "serve"}` : all === 1 ? "Serving" : `All ${all} replicas serve`];
  if (missing) first.push(`${many(missing, "one is", "are")} missing`);
  if (unheard && !alone) first.push(many(unheard, "one does not answer", "do not answer"));
  if (serving && first.length === 1 && found.length) first.push(many(found.length, "one thing needs attention", "things need attention"));
  const clients = Object.values(o.shared?.owners || {}).reduce((a, b) => a + b, 0);
  document.title = `${tone === "good" ? "" : "⚠ "}MQTT Broker`;
  say(tone, `${first.join("; ")}.`, `Cluster: ${linked(o)}`);
  $("connected").textContent = o.shared ? `${clients.toLocaleString("en")} ${clients === 1 ? "client" : "clients"} connected.` : "";
}

// say puts the verdict on the page; a screen reader reads it out each time it is another one.
export function say(tone, ...texts) {
  $("verdict").className = tone;
  const said = $("said");
  if (said.dataset.texts === texts.join("\n")) return;
  said.dataset.texts = texts.join("\n");
  said.replaceChildren(...texts.map((text, i) => node("p", { className: i ? "quiet" : "" }, text)));
}

// lease draws the age of a lease against T: the marks are T, 7/6 T (it fences itself) and
// 1.5 T (others may take it for gone).
function lease(age, ttl) {
  const ns = "http://www.w3.org/2000/svg", make = (name, attributes) => {
    const e = document.createElementNS(ns, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };
  const part = (seconds) => Math.min(100, (100 * seconds) / (1.7 * ttl));
  const svg = make("svg", { class: "lease", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(make("rect", { class: "ground", width: 100, height: 6 }), make("rect", { class: `age ${age >= (ttl * 7) / 6 ? "bad" : age > ttl / 2 ? "warn" : ""}`, width: part(age), height: 6 }),
    ...[1, 7 / 6, 1.5].map((m) => make("line", { class: "mark", x1: part(m * ttl), x2: part(m * ttl), y1: 0, y2: 6, "vector-effect": "non-scaling-stroke" })));
  return svg;
}

function replicas(o) {
  const ttl = o.memberTTLSeconds;
  const tone = { serving: "good", starting: "warn", stopping: "warn", fenced: "bad" };
  rows("replicas", o.replicas.map((r) => {
    const report = r.report;
    const state = report && !report.ready && r.phase === "serving" ? chip("bad", "not ready")
      : !report && r.phase === "serving" ? chip("warn", "no answer") : chip(tone[r.phase] || "warn", r.phase);
    const b = report && band(report.store);
    return node("tr", {},
      head(r.replica + (r.link === "self" && o.replicas.length > 1 ? " (answers)" : "")),
      cell(state, why(report?.reason || (r.refusing ? "refuses CONNECTs: NATS is slow" : ""))),
      cell(!ttl ? "–" : report ? chip(report.linksUp < report.linksExpected ? "warn" : "good", `${report.linksUp} of ${report.linksExpected}`) : chip("warn", "unknown"), why(r.link === "down" ? whyNoLink(r.linkReason).few : "")),
      cell(ttl ? `${duration(r.leaseAgeSeconds)} of ${duration(ttl)}` : "–", ttl ? lease(r.leaseAgeSeconds, ttl) : null),
      cell(b ? (report.store.kind === "memory" ? "in memory" : duration(report.store.roundTripSeconds)) : "–", b && b.tone !== "good" ? why(b.name) : null),
      number(report ? report.clients.toLocaleString("en") : (o.shared?.owners[r.replica] ?? "–").toString()),
      cell(report?.version || "–"),
      cell(report ? duration((Date.parse(report.at) - Date.parse(report.started)) / 1000) : "–"));
  }), "No replica.");
  $("lease-note").textContent = ttl ? `T (memberTTL) is ${duration(ttl)}. Each replica renews its lease every ${duration(ttl / 10)}; it steps aside by itself at ${duration((ttl * 7) / 6)}, and others take it for gone from ${duration(1.5 * ttl)} on (the three marks). Ages are as ${o.replica} sees them.` : "";
}

function values(o, rates) {
  const { rates: by, sum } = o.rates;
  const line = (name, r, className = "") => node("tr", { className }, head(name), ...[0, 1, 2].map((q) => number(rate(r?.received[q]))), number(rate(r?.stored)), ...[0, 1, 2].map((q) => number(rate(r?.delivered[q]))));
  const list = o.replicas.map((r) => line(r.replica, by.get(r.replica)));
  if (o.replicas.length > 1) list.push(line("All", sum.known ? sum : null, "total"));
  rows("rates", list, "No replica.");
  draw($("in-chart"), rates.history, "received");
  draw($("out-chart"), rates.history, "delivered");
  const now = (name) => (sum.known ? `${rate(sum[name][0] + sum[name][1] + sum[name][2])} a second now (QoS 0: ${rate(sum[name][0])}, QoS 1: ${rate(sum[name][1])}, QoS 2: ${rate(sum[name][2])}). The last 3 minutes are drawn.` : "Measuring.");
  $("in-now").textContent = now("received");
  $("out-now").textContent = now("delivered");
}

function refusals(o, rates) {
  const kinds = [["CONNECT", "connectsRefused"], ["Value", "valuesRefused"], ["Connection", "disconnected"]];
  const list = [];
  for (const r of o.replicas) {
    for (const [what, name] of kinds) {
      for (const [reason, total] of Object.entries(r.report?.counters[name] || {})) {
        if (name === "disconnected" && reason === "client") continue;
        list.push({ what, reason, total, since: rates.since(r.replica, name, reason, total), replica: r.replica });
      }
    }
  }
  list.sort((a, b) => b.since - a.since || b.total - a.total);
  rows("refused-by", list.slice(0, 40).map((l) => node("tr", {}, head(l.what),
    number(l.since ? `+${l.since.toLocaleString("en")}` : "0"), number(l.total.toLocaleString("en")), cell(reasonInWords(l.reason), why(l.reason)), cell(l.replica))), "Nothing was refused.");
}

function counts(o) {
  const sum = (f) => o.replicas.reduce((n, r) => n + (r.report ? f(r.report.counters) : 0), 0).toLocaleString("en");
  const entry = (name, value, words) => [node("dt", {}, name, why(words)), node("dd", {}, value)];
  $("counts").replaceChildren(
    ...entry("Wills waiting", o.shared ? o.shared.willsWaiting.toLocaleString("en") : "–", "of connections that ended; a device that comes back in time has none sent"),
    ...entry("Wills sent", sum((c) => c.willsPublished)), ...entry("Wills withheld", sum((c) => c.willsWithheld), "their device came back in time"),
    ...entry("Values missed by persistent sessions", sum((c) => c.missed), "their log had dropped them at its cap"),
    ...entry("Values dropped from full queues", sum((c) => c.dropped), "live subscribers that did not keep up"),
    ...entry("Live values lost on the mesh", sum((c) => c.meshLost), "a link was down and 64 MiB were full"),
    ...entry("Subscriptions acknowledged late", sum((c) => c.routesLate), "before every replica was known to have applied them"),
    ...entry("Counted by", o.replicas.filter((r) => r.report).map((r) => r.replica).join(", "), "since each one's start"));
}

function sessions(o) {
  const s = o.shared;
  if (!s) {
    $("sessions-note").textContent = "";
    return rows("sessions", [], "Not known now.");
  }
  const filter = $("filter").value;
  const list = s.sessions.filter((x) => x.clientId.includes(filter));
  $("sessions-note").textContent = `${s.persistent.toLocaleString("en")} in all workspaces, ${s.offline.toLocaleString("en")} without a connection; those away for long are kept up to ${s.maxOffline.toLocaleString("en")} (maxOfflineSessions). Listed: ${list.length.toLocaleString("en")} of this workspace, furthest behind first. Read from the shared stores by ${o.replica}.`;
  rows("sessions", list.map((x) => node("tr", {}, head(x.clientId), cell(x.client), cell(x.replica ? x.replica : chip("warn", "away")),
    number(!x.subscriptions ? "–" : x.behind == null ? "unknown" : x.behind.toLocaleString("en")), number(x.unfinished.toLocaleString("en")), number(x.missed ? x.missed.toLocaleString("en") : "0"),
    number(x.subscriptions.toLocaleString("en")), cell(x.expires ? duration(Math.max(0, (Date.parse(x.expires) - Date.parse(o.at)) / 1000)) : "–"))),
    filter ? "No client id has this in it." : "No persistent session in this workspace.");
}

function bars(o) {
  const bar = (name, used, most, text, at) => node("li", {}, node("div", {}, node("span", {}, name, at ? node("span", { className: "quiet" }, ` at ${at}`) : null), node("span", {}, text)),
    node("meter", { min: 0, max: most, low: most * 0.75, high: most * 0.9, optimum: 0, value: used, "aria-label": `${name}${at ? ` at ${at}` : ""}: ${text}` }));
  $("logs").replaceChildren(...(o.shared?.logs || []).map((l) => (l.bytes == null ? node("li", {}, `${l.workspace}: size not known`)
    : bar(`Workspace ${l.workspace}`, l.bytes, l.maxBytes, `${bytes(l.bytes)} of ${bytes(l.maxBytes)}`))));
  if (!$("logs").children.length) $("logs").append(node("li", { className: "empty" }, o.shared ? "No session log is open: no persistent session wants QoS 1 or 2 values." : "Not known now."));
  const list = o.replicas.flatMap((r) => (r.report?.limits || []).map((l) => bar(l.name, l.used, l.maximum, `${l.used.toLocaleString("en")} of ${l.maximum.toLocaleString("en")}`, r.replica)));
  if (o.shared) list.push(bar("maxOfflineSessions", Math.min(o.shared.offline, o.shared.maxOffline), o.shared.maxOffline, `${o.shared.offline.toLocaleString("en")} away, ${o.shared.maxOffline.toLocaleString("en")} kept`));
  $("limits").replaceChildren(...list);
}
