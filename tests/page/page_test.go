package page_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

var clients = harness.Clients("press-7", "hmi", "admin")

// window is a browser tab.
type window struct {
	t   *testing.T
	ctx context.Context
}

// open starts a browser of a size and shows a page.
func open(t *testing.T, width, height int64, url string) *window {
	t.Helper()
	harness.Require(t, "/usr/bin/chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-quic", true), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(int(width), int(height)))
	allocated, free := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		stop()
		free()
	})
	// The first action starts the browser, which must outlive any bound of it.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	w := &window{t, ctx}
	w.run("open "+url, chromedp.Navigate(url))
	return w
}

func (w *window) run(what string, actions ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, harness.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		w.t.Fatalf("%s: %v\npage:\n%s", what, err, w.try("document.body.innerText"))
	}
}

// try evaluates an expression to a text, or says why it cannot.
func (w *window) try(expression string) string {
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits for an expression to be true.
func (w *window) until(what, expression string) {
	w.t.Helper()
	harness.Eventually(w.t, what, func() (bool, string) {
		said := w.try(expression)
		if said == "true" {
			return true, ""
		}
		return false, said + "; page:\n" + w.try("document.querySelector('main').innerText")
	})
}

// says waits until an element's text contains each of the texts.
func (w *window) says(selector string, texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		w.until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf("document.querySelector(%q).innerText.includes(%q)", selector, text))
	}
}

func (w *window) signIn(client, secret string) {
	w.t.Helper()
	w.run("sign in as "+client, chromedp.WaitVisible("#sign-in"), chromedp.SetValue("#client", client), chromedp.SetValue("#secret", secret), chromedp.Click("#sign-in button"))
}

// picture leaves a screenshot of the whole page, where they are wanted.
func (w *window) picture(name string) {
	w.t.Helper()
	folder := os.Getenv("PAGE_SCREENSHOTS")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// roles are those of a table and what is in it, as the browser tells a screen reader.
func (w *window) roles(table string) (roles []string) {
	w.t.Helper()
	w.run("ask for roles", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		document, err := cdp.Call(ctx, t, dom.GetDocument, dom.GetDocumentParams{})
		if err != nil {
			return err
		}
		of, err := cdp.Call(ctx, t, dom.QuerySelector, dom.QuerySelectorParams{NodeID: document.Root.NodeID, Selector: "#" + table})
		if err != nil {
			return err
		}
		roles = nil
		for _, role := range []string{"table", "row", "columnheader", "rowheader", "cell"} {
			found, err := cdp.Call(ctx, t, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{NodeID: of.NodeID, Role: role})
			if err != nil {
				return err
			}
			if len(found.Nodes) > 0 {
				roles = append(roles, role)
			}
		}
		slices.Sort(roles)
		return nil
	}))
	return roles
}

func (w *window) dark(on bool) {
	w.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	w.run("theme", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

func TestThePageShowsAClusterWhileAReplicaDies(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // of the whole test: it starts a replica again
	defer cancel()
	d, err := deployment.Start(ctx, deployment.Options{Binary: harness.Binary(t), Replicas: 3, MemberTTL: 5 * time.Second, Clients: clients})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range d.Replicas {
				t.Logf("%s printed:\n%s", r.ID, r.Output())
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	brokers := make([]*harness.Broker, len(d.Replicas))
	for i, r := range d.Replicas {
		brokers[i] = harness.Attach(r.Broker, clients)
	}
	// A session that is away and one device that publishes for it.
	kept := brokers[1].ConnectAs("hmi", "hmi-1")
	kept.CleanStart, kept.SessionExpiry = false, 600
	away := brokers[1].Dial(t)
	away.Connect(kept)
	away.Subscribe(harness.Data("line/#"), 1)
	away.Close()
	device := brokers[0].Dial(t)
	device.Connect(brokers[0].ConnectAs("press-7", "press-7-a"))
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			device.Publish(harness.Inbox("press-7", "line/1"), 1, fmt.Sprint(i))
		}
	}
	publish(0, 50)
	// One that only publishes: it keeps a session and reads nothing.
	silent := brokers[1].ConnectAs("press-7", "press-7-kept")
	silent.CleanStart, silent.SessionExpiry = false, 600
	brokers[1].Dial(t).Connect(silent)
	// Something is refused.
	device.Publish("mHv1.0/"+harness.Workspace+"/line/1", 1, "1")

	w := open(t, 1280, 900, "http://"+d.Replicas[0].HTTP+"/")
	w.signIn("admin", "wrong")
	w.says("#refused", "no such client, or not its secret")
	w.picture("1-refused")
	w.signIn("admin", harness.Secret("admin"))
	w.says("#verdict", "All 3 replicas serve.", "All 3 replicas are linked.")
	w.says("#answer", "Answered by "+d.Replicas[0].ID)
	for _, r := range d.Replicas {
		w.says("#replicas", r.ID)
	}
	// A log's sequences have gaps, so what is behind is an estimate.
	w.until("about 50 values are behind", behind(45, 55))
	w.says("#logs", harness.Workspace)
	w.says("#limits", "maxClients at "+d.Replicas[2].ID)
	publish(50, 80)
	w.says("#in-now", "QoS 1")
	w.until("about 80 values are behind", behind(72, 88))
	w.until("a session without a subscription is behind nothing, and last", `[...document.querySelectorAll("#sessions tbody tr")].map(r => r.cells[0].innerText + " " + r.cells[3].innerText).at(-1) === "press-7-kept –"`)
	w.says("#refused-by", "not published to an inbox")
	w.until("every count of what was refused is in sight", unscrolled("refused-by"))
	w.until("no error of the page", `!document.body.classList.contains("stale")`)
	w.picture("2-whole")
	w.dark(true)
	w.picture("3-dark")
	w.dark(false)

	do := func(verb, way string) {
		t.Helper()
		if _, err := d.Do(ctx, verb, way, ""); err != nil {
			t.Fatal(err)
		}
	}
	do("cut", "mesh")
	w.says("#verdict", "All 3 replicas serve; 2 do not answer.")
	w.says("#problems", "In the log: “", "Runbook: MaestroHubUNSBrokerMeshLinksDown")
	w.until("in few words why the two are not linked", `(l => l.length === 2 && l.every(e => ["the connection was cut", "nobody listens there", "nothing comes from it"].includes(e.textContent)) || l.map(e => e.textContent).join("; "))([...document.querySelectorAll("#replicas td:nth-child(3) .why")].filter(e => e.textContent))`)
	w.until("the link leads to that part of the runbook", `[...document.querySelectorAll("#problems a")].every(a => a.href.endsWith("/MaestroHubUNSBrokerMeshLinksDown.md#reachability")) || document.querySelector("#problems").innerHTML`)
	w.picture("4-mesh-cut")
	w.run("on a phone", chromedp.EmulateViewport(390, 844))
	w.until("nothing is wider than the screen", `[...document.querySelectorAll("main section *")].filter(e => e.checkVisibility() && !e.closest("thead") && e.getBoundingClientRect().right > 390).map(e => e.outerHTML.slice(0, 80)).join("; ") || true`)
	w.picture("4-mesh-cut-phone")
	w.run("and back", chromedp.EmulateViewport(1280, 900))
	do("heal", "mesh")
	w.says("#verdict", "All 3 replicas serve.")

	w.try(`(window.verdicts = [], new MutationObserver(() => verdicts.push(document.querySelector("#verdict").innerText)).observe(document.querySelector("#verdict"), {childList: true, subtree: true}))`)
	d.Replicas[2].Kill()
	w.says("#problems", d.Replicas[0].ID+" cannot reach "+d.Replicas[2].ID, "Runbook: MaestroHubUNSBrokerMeshLinksDown")
	w.says("#verdict", "2 of 3 replicas are known to serve; one does not answer.")
	w.until("it is never said to serve while it is dead", `verdicts.every(v => !v.includes("does not answer") || v.includes("2 of 3")) || verdicts.join("; then: ")`)
	w.picture("5-killed")
	w.until("every warning has a contrast of 4.5, too", accessible)
	w.dark(true)
	w.until("also in the dark", accessible)
	w.dark(false)
	w.until("the dead one is judged gone", fmt.Sprintf(`!document.querySelector("#replicas").innerText.includes(%q)`, d.Replicas[2].ID))
	w.says("#verdict", "2 of 3 replicas serve; one is missing.", "The 2 that serve are linked.")
	w.says("#problems", "One replica is missing", "Runbook: not-ready")
	w.picture("6-missing")
	w.run("stand on the link", chromedp.Focus("#problems a"))
	w.until("the page is refreshed twice", `(window.seen ||= new Set()).add(document.querySelector("#answer").textContent).size > 2`)
	w.until("who stands on a link by the keyboard still does", `document.activeElement.matches("#problems a") || document.activeElement.outerHTML.slice(0, 80)`)
	if err := d.Replicas[2].Start(ctx); err != nil {
		t.Fatal(err)
	}
	w.says("#verdict", "All 3 replicas serve.", "All 3 replicas are linked.")

	t.Run("on a phone", func(t *testing.T) {
		p := open(t, 390, 844, "http://"+d.Replicas[0].HTTP+"/")
		p.signIn("admin", harness.Secret("admin"))
		p.says("#verdict", "All 3 replicas serve.")
		p.until("nothing is wider than the screen", "document.documentElement.scrollWidth <= 390")
		for _, table := range []string{"replicas", "rates", "refused-by", "sessions"} {
			p.until(table+" is seen without a scroll", unscrolled(table))
			p.until(table+" says of each figure what it is, and of each group", named(table))
			if roles := p.roles(table); !slices.Equal(roles, []string{"cell", "columnheader", "row", "rowheader", "table"}) {
				t.Errorf("to a screen reader %s consists of %v", table, roles)
			}
		}
		p.until("every text has a contrast of 4.5, every control a name", accessible)
		p.picture("7-phone")
		p.dark(true)
		p.picture("8-phone-dark")
	})

	t.Run("signing in while the replica has no way to NATS", func(t *testing.T) {
		cut := d.Replicas[1]
		p := open(t, 1280, 900, "http://"+cut.HTTP+"/")
		p.run("wait for the form", chromedp.WaitVisible("#sign-in"))
		p.try(`(window.said = [], new MutationObserver(() => said.push(document.querySelector("#signing").textContent)).observe(document.querySelector("#signing"), {childList: true}))`)
		do("cut", cut.ID+"/nats")
		p.signIn("admin", harness.Secret("admin"))
		p.picture("9-signing-in")
		p.says("#verdict", "serve")
		p.until("it said at once what it does, then why it takes a moment", `said[0] === "Signing in…" && said[1].includes("answer late")`)
		p.until("the token was not waited for", `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/token")).every(e => e.responseEnd > performance.getEntriesByType("resource").find(o => o.name.endsWith("/broker")).startTime)`)
		p.says("#verdict", cut.ID+", which answers, does not serve devices")
		p.picture("10-nats-cut")
		do("heal", cut.ID+"/nats")
		p.says("#verdict", "All 3 replicas serve.")
	})

	w.says("#verdict", "All 3 replicas serve.")
	w.try(`(window.said = [], new MutationObserver(() => said.push(document.querySelector("#said").innerText)).observe(document.querySelector("#said"), {childList: true, subtree: true, characterData: true}))`)
	w.try(`(window.ask = fetch, window.fetch = () => Promise.reject(new TypeError("cut")))`)
	w.says("#verdict", "cannot be reached", "trying again")
	w.try(`(window.fetch = ask)`)
	w.says("#verdict", "All 3 replicas serve.") // which is what it had said before
	d.Replicas[0].Kill()
	w.says("#verdict", "cannot be reached", "trying again")
	w.until("what is read out is so once only", `said.every((s, i) => s !== said[i - 1]) || said.join("; then: ")`)
	w.picture("11-unreachable")
	w.until("the alarm has a contrast of 4.5, too", accessible)
	w.dark(true)
	w.until("also in the dark", accessible)
}

// named is whether on a small screen each cell shows the name of its column, and the first
// of a group that of the group.
func named(table string) string {
	return fmt.Sprintf(`(t => {
  const groups = [...t.tHead.querySelectorAll("[scope=colgroup]")].map(g => g.textContent), names = [...t.tHead.querySelectorAll("[scope=col]")].map(c => c.textContent);
  for (const row of t.tBodies[0].rows) {
    const shown = [...row.cells].map(c => getComputedStyle(c, "::before").content.split(" / ")[0].replaceAll('"', ""));
    for (const g of groups) if (shown.filter(s => s.startsWith(g)).length !== 1) return "group " + g + ": " + shown.join();
    for (const [i, s] of shown.entries()) if (i && !names.some(n => s.endsWith(n))) return row.cells[i].textContent + " is " + s;
  }
  return t.tBodies[0].rows.length > 0;
})(document.getElementById(%q))`, table)
}

// unscrolled is whether a table fits into its place.
func unscrolled(table string) string {
	return fmt.Sprintf(`(b => b.scrollWidth <= b.clientWidth || b.scrollWidth + " in " + b.clientWidth)(document.getElementById(%q).closest(".scroll"))`, table)
}

// behind is whether hmi-1 is shown to be so many values behind.
func behind(least, most int) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#sessions tbody tr")].some(r => r.cells[0].innerText === "hmi-1" && r.cells[3].innerText >= %d && r.cells[3].innerText <= %d)`, least, most)
}

func TestThePageOfASingleNode(t *testing.T) {
	reader := launch.Client{ID: "reader", Secret: harness.Secret("reader"), Workspace: harness.Workspace, Scopes: []string{"uns:read"}}
	b := harness.Start(t, harness.Options{Clients: append(slices.Clone(clients), reader)})
	w := open(t, 1280, 900, "http://"+b.HTTP+"/")
	w.signIn("reader", harness.Secret("reader"))
	w.says("#refused", "uns_settings:update")
	w.picture("12-no-scope")
	w.signIn("admin", harness.Secret("admin"))
	w.says("#verdict", "Serving.", "A single node")
	w.until("every text has a contrast of 4.5 in both themes, every control a name", accessible)
	w.dark(true)
	w.until("also in the dark", accessible)
	for _, dark := range []bool{true, false} {
		w.dark(dark)
		w.walk()
	}
	w.run("leave", chromedp.Click("#leave"))
	w.run("and the sign-in is back", chromedp.WaitVisible("#sign-in"))
	if token := w.try("sessionStorage.getItem('token')"); token != "null" {
		t.Errorf("after signing out the token %q is still kept", token)
	}
	if strings.Contains(w.try("document.documentElement.innerHTML"), harness.Secret("admin")) {
		t.Errorf("after signing out the secret is still in the page")
	}
}

// walk goes over the page by the keyboard alone: what can be used is reached in the order it
// is read in, and seen where one stands, by a ring with a contrast of 3 (WCAG 2.2, 2.4.7, 1.4.11).
func (w *window) walk() {
	w.t.Helper()
	w.try(`(b => (b.tabIndex = -1, b.focus(), b.removeAttribute("tabindex")))(document.body)`)
	usable := w.try(`[...document.querySelectorAll("a, button, input, [tabindex='0']")].filter(e => e.checkVisibility()).map(e => e.id || e.className || e.textContent).join()`)
	var reached []string
	for range strings.Count(usable, ",") + 1 {
		w.run("the tab key", chromedp.KeyEvent("\t"))
		reached = append(reached, w.try(`(e => e.id || e.className || e.textContent)(document.activeElement)`))
		w.until("the ring around "+reached[len(reached)-1], ringed)
	}
	if got := strings.Join(reached, ","); got != usable {
		w.t.Errorf("by the keyboard one reaches %s, and there is %s", got, usable)
	}
	w.run("to the figures", chromedp.Focus(".skip"), chromedp.KeyEvent("\r"))
	w.until("the first link leads past the head", `document.activeElement.id === "main" || document.activeElement.outerHTML.slice(0, 80)`)
}

// ringed is whether one sees where the keyboard stands.
const ringed = `(() => {
  const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
  const e = document.activeElement, s = getComputedStyle(e);
  if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) return e.outerHTML.slice(0, 80) + ": no ring";
  let on = e.parentElement;
  while (on && rgb(getComputedStyle(on).backgroundColor)[3] === 0) on = on.parentElement;
  const [a, b] = [light(rgb(s.outlineColor)), light(rgb(getComputedStyle(on || document.documentElement).backgroundColor).slice(0, 3))].sort((x, y) => y - x);
  return (a + .05) / (b + .05) >= 3 || e.outerHTML.slice(0, 80) + ": a ring of contrast " + (a + .05) / (b + .05);
})()`

// accessible checks what can be computed: contrast of text on its ground (WCAG 2.2, 1.4.3) and
// that each control has a name. It returns true or what is wrong.
const accessible = `(() => {
  const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length && c[3] !== 0) return c } return [255, 255, 255] };
  for (const e of document.querySelectorAll("main *, header *")) {
    if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    // What is faint as a whole is so much nearer to what it stands on.
    const clear = (() => { let o = 1; for (let f = e; f; f = f.parentElement) o *= getComputedStyle(f).opacity; return o })();
    const on = ground(e).slice(0, 3);
    const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3).map((v, i) => v * clear + on[i] * (1 - clear))), light(on)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) return e.tagName + " " + e.innerText.slice(0, 40) + ": contrast " + ratio.toFixed(2);
  }
  for (const e of document.querySelectorAll("button, input, meter, a, [role=region], [role=img]")) {
    const by = (e.getAttribute("aria-labelledby") || "").split(" ").map(i => document.getElementById(i)?.textContent || "").join("");
    if (!(e.getAttribute("aria-label") || by || e.labels?.length || e.textContent.trim())) return e.outerHTML.slice(0, 80) + ": no name";
  }
  if (!document.documentElement.lang || !document.title) return "no language or title";
  return true;
})()`
