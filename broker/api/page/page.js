// The MQTT Broker page: signs in, asks one replica for the overview every 2 s, and shows
// it. Text from the broker goes into text nodes only.

import { Rates } from "./rates.js";
import { say, show } from "./figures.js";

const every = 2000, patience = 6000, headStart = 700;
const $ = (id) => document.getElementById(id);
const session = { token: sessionStorage.getItem("token"), client: "", secret: "" };
let rates = new Rates(), timer = 0, paused = false, answered = 0;

class Refused extends Error {}

async function ask(path, options = {}) {
  let response;
  try {
    // Without "omit" a browser answers 401 with a dialog of its own, and this page waits for it.
    response = await fetch(path, { ...options, credentials: "omit", signal: AbortSignal.timeout(patience), cache: "no-store" });
  } catch (e) {
    throw new Error(e.name === "TimeoutError" ? `No answer within ${patience / 1000} s.` : "The broker cannot be reached.");
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const said = body.detail || body.error_description || `The broker answered ${response.status}.`;
  throw response.status === 401 || response.status === 403 || (response.status === 400 && body.error) ? new Refused(said) : new Error(said);
}

const overview = (authorization) => ask("/api/v1/system/uns/broker", { headers: { Authorization: authorization } });
const basic = () => `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(`${session.client}:${session.secret}`)))}`;
const authorization = () => (session.token === direct ? basic() : `Bearer ${session.token}`);
const direct = "direct";

// signIn gets a token. While the shared stores are away none is made, and the credential
// itself still opens this one page: where the token takes longer than a moment, the
// figures are asked for in that way beside it, and returned if they come first.
function signIn() {
  const { client, secret } = session;
  const token = ask("/api/v1/oauth2/token", {
    method: "POST",
    body: new URLSearchParams({ grant_type: "client_credentials", client_id: client, client_secret: secret, scope: "uns_settings:update" }),
  });
  return new Promise((resolve, reject) => {
    let begun = false, failed = 0, decided = false;
    const no = (e) => {
      failed++;
      // A refusal is an answer; anything else leaves the other way open.
      if (e instanceof Refused || failed === 2) {
        decided = true;
        reject(e);
      } else directly();
    };
    const directly = () => {
      if (begun || decided) return;
      begun = true;
      $("signing").textContent = "Signing in… The shared stores (NATS) answer late, so this replica is asked with the credential itself.";
      overview(basic()).then((o) => {
        if (decided || session.secret !== secret) return;
        decided = true;
        session.token = direct;
        resolve(o);
      }, no);
    };
    const timer = setTimeout(directly, headStart);
    token.then((answer) => {
      clearTimeout(timer);
      if (session.client !== client || session.secret !== secret) return; // signed out meanwhile
      decided = true;
      session.token = answer.access_token; // also when the figures came first: from now on
      sessionStorage.setItem("token", session.token);
      resolve(null);
    }, (e) => {
      clearTimeout(timer);
      no(e);
    });
  });
}

function leave(why) {
  clearTimeout(timer);
  sessionStorage.removeItem("token");
  Object.assign(session, { token: null, client: "", secret: "" });
  rates = new Rates();
  for (const id of ["figures", "answer", "pause", "leave"]) $(id).hidden = true;
  $("sign-in").hidden = false;
  $("refused").hidden = !why;
  $("refused").textContent = why || "";
  $("secret").value = "";
  $($("client").value ? "secret" : "client").focus();
  document.title = "MQTT Broker";
}

// turn shows the figures, those that are there already or new ones, and goes on so.
async function turn(first) {
  clearTimeout(timer);
  try {
    let o = first;
    try {
      o ||= await overview(authorization());
    } catch (e) {
      if (!(e instanceof Refused) || !session.secret) throw e;
      o = (await signIn()) || (await overview(authorization())); // the token ran out
    }
    if (!session.token) return;
    answered = Date.now();
    document.body.classList.remove("stale");
    for (const id of ["figures", "answer", "pause", "leave"]) $(id).hidden = false;
    $("sign-in").hidden = true;
    show(o, rates);
    $("answer").textContent = `Answered by ${o.replica} at ${new Date(o.at).toLocaleTimeString()}`;
  } catch (e) {
    if (e instanceof Refused) return leave(e.message);
    if (!answered) return leave(e.message);
    document.body.classList.add("stale");
    say("bad", `${e.message} The figures below are from ${new Date(answered).toLocaleTimeString()}; trying again.`);
  }
  if (!paused && session.token) timer = setTimeout(() => turn(), every);
}

$("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  session.client = $("client").value;
  session.secret = $("secret").value;
  button.disabled = true;
  $("refused").hidden = true;
  $("signing").textContent = "Signing in…";
  try {
    await turn(await signIn());
    if (session.token) $("main").focus();
  } catch (e) {
    leave(e.message);
  } finally {
    button.disabled = false;
    $("signing").textContent = "";
  }
});
$("leave").addEventListener("click", () => leave());
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused) turn();
});
$("filter").addEventListener("input", () => show(null, rates));

const themes = ["system", "light", "dark"];
function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "system" ? "Theme: as the system" : `Theme: ${name}`;
  localStorage.setItem("theme", name);
}
$("theme").addEventListener("click", () => theme(themes[(themes.indexOf(localStorage.getItem("theme") || "system") + 1) % themes.length]));
theme(themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "system");

if (session.token) {
  $("answer").hidden = false;
  $("answer").textContent = "Asking the broker…";
  turn();
} else leave();
