// The MQTT Broker page: signs in, asks one replica for the overview every 2 s, and shows
// it. Text from the broker goes into text nodes only.

import { Rates } from "./rates.js";
import { show } from "./figures.js";

const every = 2000, patience = 6000;
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

async function signIn() {
  let answer;
  try {
    answer = await ask("/api/v1/oauth2/token", {
      method: "POST",
      body: new URLSearchParams({ grant_type: "client_credentials", client_id: session.client, client_secret: session.secret, scope: "uns_settings:update" }),
    });
  } catch (e) {
    if (e instanceof Refused) throw e;
    session.token = direct;
    return;
  }
  session.token = answer.access_token;
  sessionStorage.setItem("token", session.token);
}

// While the shared stores are away no token is made, and the credential itself still opens
// this one page.
const basic = () => `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(`${session.client}:${session.secret}`)))}`;
const overview = () => ask("/api/v1/system/uns/broker", { headers: { Authorization: session.token === direct ? basic() : `Bearer ${session.token}` } });
const direct = "direct";

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

async function turn() {
  clearTimeout(timer);
  try {
    let o;
    try {
      o = await overview();
    } catch (e) {
      if (!(e instanceof Refused) || !session.secret) throw e;
      await signIn(); // the token ran out
      o = await overview();
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
    const verdict = $("verdict");
    const text = `${e.message} The figures below are from ${new Date(answered).toLocaleTimeString()}; trying again.`;
    verdict.className = "bad";
    if (verdict.textContent !== text) verdict.replaceChildren(Object.assign(document.createElement("p"), { textContent: text }));
  }
  if (!paused && session.token) timer = setTimeout(turn, every);
}

$("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  session.client = $("client").value;
  session.secret = $("secret").value;
  button.disabled = true;
  try {
    await signIn();
    await turn();
    if (session.token) $("main").focus();
  } catch (e) {
    leave(e.message);
  } finally {
    button.disabled = false;
  }
});
$("leave").addEventListener("click", () => leave());
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause";
  $("pause").setAttribute("aria-pressed", paused);
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

if (session.token) turn();
else leave();
