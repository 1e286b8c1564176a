package alerts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// prometheus is a server that scrapes replicas and evaluates the rules every few seconds.
type prometheus struct {
	url   string
	began time.Time
	rules []string // absolute paths of the plain files
}

func startPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	harness.Require(t, "/usr/bin/prometheus", "/usr/bin/promtool")
	rules, err := filepath.Glob("../../alerts/rules/*.yaml")
	if err != nil || len(rules) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for i := range rules {
		if rules[i], err = filepath.Abs(rules[i]); err != nil {
			t.Fatal(err)
		}
	}
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 5s, scrape_timeout: 4s, evaluation_interval: 2s}\nrule_files:\n")
	for _, r := range rules {
		fmt.Fprintf(&config, "  - %s\n", r)
	}
	config.WriteString("scrape_configs:\n  - job_name: maestrohub-uns\n    static_configs:\n")
	for pod, address := range targets {
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {namespace: maestrohub, pod: %s}}\n", address, pod)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	ports, err := launch.Reserve(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	harness.Program(t, launch.Spec{Name: "prometheus", Path: "/usr/bin/prometheus", Args: []string{
		"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address, "--log.level=warn"}})
	p := &prometheus{url: "http://" + address, rules: rules, began: time.Now()}
	p.await(t, time.Minute, "Prometheus to scrape every replica", func() (bool, string) {
		up := p.query(t, `sum(up{job="maestrohub-uns"})`)
		return up == float64(len(targets)), fmt.Sprint(up)
	})
	return p
}

// get asks the API; the answer's data is decoded into data. false while there is none.
func (p *prometheus) get(t *testing.T, path string, parameters url.Values, data any) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+parameters.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false // not up yet
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	answer := struct{ Data any }{data}
	if err := json.Unmarshal(body, &answer); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %v: %s", path, response.Status, err, body)
	}
	return true
}

// query returns the one value of an instant query, 0 if there is none.
func (p *prometheus) query(t *testing.T, expr string) float64 {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	if !p.get(t, "/api/v1/query", url.Values{"query": {expr}}, &data) || len(data.Result) == 0 {
		return 0
	}
	v, err := strconv.ParseFloat(data.Result[0].Value[1].(string), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// firing are the alerts that fire now, each once, with how many replicas they are of.
func (p *prometheus) firing(t *testing.T) map[string]int {
	t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	p.get(t, "/api/v1/alerts", nil, &data)
	firing := map[string]int{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			firing[a.Labels["alertname"]]++
		}
	}
	return firing
}

// fires waits until an alert fires and says how long that took.
func (p *prometheus) fires(t *testing.T, within time.Duration, alert string) {
	t.Helper()
	began := time.Now()
	p.await(t, within, alert+" to fire", func() (bool, string) {
		f := p.firing(t)
		return f[alert] > 0, fmt.Sprint(f)
	})
	t.Logf("%s fires, after %v", alert, time.Since(began).Round(time.Second))
}

// resolves waits until an alert does not fire any more.
func (p *prometheus) resolves(t *testing.T, within time.Duration, alert string) {
	t.Helper()
	began := time.Now()
	p.await(t, within, alert+" to resolve", func() (bool, string) {
		f := p.firing(t)
		return f[alert] == 0, fmt.Sprint(f)
	})
	t.Logf("%s resolves, after %v", alert, time.Since(began).Round(time.Second))
}

func (p *prometheus) await(t *testing.T, within time.Duration, what string, condition func() (bool, string)) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := condition()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v for %s; last: %s", within, what, state)
		}
	}
}

// replayed is what every alert names, of every replica.
const replayed = `{job="maestrohub-uns",__name__=~"process_start_time_seconds|maestrohub_uns_(ingest_(store_unavailable|store_hung_writes|quarantined)_total|live_mirror_dropped_total|broker_(session_log_(values_missed|appends_refused|appends_reordered)_total|session_log_appends_held|session_subscriptions_kept_total|subscribe_index_wait_timeouts_total|cluster_.*))"}`

// replayStep is the scrape interval of the replay: the chart's.
const replayStep = 30 * time.Second

// allResolve continues what was scraped at its last values and has promtool evaluate the rules over both: each of
// the alerts fires at the end of what was scraped, and none does once the longest window, an hour, is over.
func (p *prometheus) allResolve(t *testing.T, alerts []string) {
	t.Helper()
	end := time.Now()
	steps := int(end.Sub(p.began) / replayStep)
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	start := end.Add(-time.Duration(steps) * replayStep)
	if !p.get(t, "/api/v1/query_range", url.Values{"query": {replayed}, "step": {fmt.Sprint(replayStep.Seconds())},
		"start": {fmt.Sprintf("%.3f", float64(start.UnixMilli())/1000)}, "end": {fmt.Sprintf("%.3f", float64(end.UnixMilli())/1000)}}, &data) {
		t.Fatal("Prometheus does not answer")
	}
	if len(data.Result) < 12 {
		t.Fatalf("%d series were scraped", len(data.Result))
	}
	var file strings.Builder
	fmt.Fprintf(&file, "rule_files: [%s]\nevaluation_interval: 30s\ntests:\n  - interval: 30s\n    input_series:\n", strings.Join(p.rules, ", "))
	for _, series := range data.Result {
		var labels []string
		for k, v := range series.Metric {
			if k != "__name__" {
				labels = append(labels, fmt.Sprintf("%s=%q", k, v))
			}
		}
		slices.Sort(labels)
		at := map[int]string{}
		for _, v := range series.Values {
			n := int(v[0].(float64)-float64(start.UnixMilli())/1000+0.5) / int(replayStep.Seconds())
			at[n] = v[1].(string)
		}
		last := "_"
		values := make([]string, 0, steps+1)
		for n := range steps + 1 {
			v, ok := at[n]
			if !ok {
				v = "_"
			} else {
				// promtool's clock begins at 1970: a process is as old there as it was here.
				if series.Metric["__name__"] == "process_start_time_seconds" {
					f, err := strconv.ParseFloat(v, 64)
					if err != nil {
						t.Fatal(err)
					}
					v = strconv.FormatFloat(f-float64(start.UnixMilli())/1000, 'f', 3, 64)
				}
				last = v
			}
			values = append(values, v)
		}
		more := last + "x140" // seventy minutes
		if last == "_" {
			more = "_x140"
		}
		fmt.Fprintf(&file, "      - {series: '%s{%s}', values: '%s %s'}\n", series.Metric["__name__"], strings.Join(labels, ", "), strings.Join(values, " "), more)
	}
	slices.Sort(alerts)
	fmt.Fprintf(&file, "    promql_expr_test:\n      - expr: count by (alertname) (ALERTS{alertstate=\"firing\",alertname=~\"%s\"}) > bool 0\n        eval_time: %ds\n        exp_samples:\n",
		strings.Join(alerts, "|"), steps*int(replayStep.Seconds()))
	for _, a := range alerts {
		fmt.Fprintf(&file, "          - {labels: '{alertname=%q}', value: 1}\n", a)
	}
	fmt.Fprintf(&file, "      - expr: count by (alertname) (ALERTS)\n        eval_time: %ds\n        exp_samples: []\n", steps*int(replayStep.Seconds())+65*60)
	path := filepath.Join(t.TempDir(), "replay.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "/usr/bin/promtool", "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s\nof\n%s", err, out, file.String())
	}
}
