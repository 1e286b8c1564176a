package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"
)

// prometheus is a Prometheus in the cluster that scrapes the replicas every second and
// has the chart's rules twice: as they are, and with every span a tenth (label span:
// tenth), so that an alert resolves in a minute.
type prometheus struct{ address string }

// tenth makes every span of a rule file a tenth.
func tenth(rules []byte) []byte {
	spans := regexp.MustCompile(`(\[|:|for: )([0-9]+)(m|h|s)\b`)
	rules = spans.ReplaceAllFunc(rules, func(m []byte) []byte {
		p := spans.FindSubmatch(m)
		d, err := time.ParseDuration(string(p[2]) + string(p[3]))
		if err != nil {
			return m
		}
		return append(append([]byte(nil), p[1]...), strconv.Itoa(int((d/10).Seconds()))+"s"...)
	})
	ages := regexp.MustCompile(`(process_start_time_seconds < )([0-9]+)`)
	rules = ages.ReplaceAllFunc(rules, func(m []byte) []byte {
		p := ages.FindSubmatch(m)
		n, _ := strconv.Atoi(string(p[2])) // digits
		return append(append([]byte(nil), p[1]...), strconv.Itoa(n/10)...)
	})
	rules = bytes.ReplaceAll(rules, []byte("- name: maestrohub."), []byte("- name: tenth.maestrohub."))
	return regexp.MustCompile(`(?m)^( *)severity: `).ReplaceAll(rules, []byte("${1}span: tenth\n${1}severity: "))
}

func TestTenthChangesSpansAlone(t *testing.T) {
	in := "- name: maestrohub.x\n  expr: increase(a_total[10m]) > 0 and avg_over_time((b > bool 0)[5m:30s]) > 0.4 and time() - process_start_time_seconds < 600\n  for: 5m\n    severity: warning\n"
	want := "- name: tenth.maestrohub.x\n  expr: increase(a_total[60s]) > 0 and avg_over_time((b > bool 0)[30s:3s]) > 0.4 and time() - process_start_time_seconds < 60\n  for: 30s\n    span: tenth\n    severity: warning\n"
	if got := string(tenth([]byte(in))); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// startPrometheus starts it in a namespace of its own, which is gone with the test. It
// scrapes every address that the name has.
func startPrometheus(t *testing.T, names string) *prometheus {
	t.Helper()
	const namespace = "e2e-prometheus"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cluster.deleteNamespaces(ctx, namespace); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.makeNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(root, "chart/files/alerts/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("rule files: %q, %v", files, err)
	}
	args := []string{"-n", namespace, "create", "configmap", "rules"}
	for _, f := range files {
		rules, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		scaled := filepath.Join(dir, "tenth-"+filepath.Base(f))
		if err := os.WriteFile(scaled, tenth(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--from-file="+f, "--from-file="+scaled)
	}
	cluster.mustRun(t, "kubectl", args...)
	manifest, err := template.ParseFiles("testdata/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := manifest.Execute(&out, map[string]string{"Namespace": namespace, "Names": names, "Image": image("prom/prometheus:latest")}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster.mustRun(t, "kubectl", "apply", "-f", file)
	p := &prometheus{}
	until(t, 2*time.Minute, "Prometheus to be ready", func() (bool, string) {
		pods, err := cluster.pods(t.Context(), namespace, "prometheus")
		if err != nil || len(pods) != 1 {
			return false, fmt.Sprintf("%d pods, %v", len(pods), err)
		}
		p.address = cluster.toPod(t, &pods[0], 9090)
		return isReady(&pods[0]), string(pods[0].Status.Phase)
	})
	return p
}

// get asks Prometheus's API.
func (p *prometheus) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s answered %d: %s", path, response.StatusCode, body)
	}
	return json.Unmarshal(body, into)
}

// query returns how many series an expression has now.
func (p *prometheus) query(ctx context.Context, expression string) (int, error) {
	var answer struct {
		Data struct {
			Result []json.RawMessage `json:"result"`
		} `json:"data"`
	}
	err := p.get(ctx, "query?query="+url.QueryEscape(expression), &answer)
	return len(answer.Data.Result), err
}

// alert is one that is pending or firing.
type alert struct {
	State  string            `json:"state"`
	Labels map[string]string `json:"labels"`
}

// firing are the names of the alerts that fire, of the rules as they are or of those
// with a tenth of the spans.
func (p *prometheus) firing(ctx context.Context, scaled bool) (map[string]bool, error) {
	var answer struct {
		Data struct {
			Alerts []alert `json:"alerts"`
		} `json:"data"`
	}
	err := p.get(ctx, "alerts", &answer)
	names := map[string]bool{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" && (a.Labels["span"] == "tenth") == scaled {
			names[strings.TrimPrefix(a.Labels["alertname"], "MaestroHubUNS")] = true
		}
	}
	return names, err
}

// rules returns the rules that are loaded and those of them that do not evaluate.
func (p *prometheus) rules(ctx context.Context) (loaded int, broken []string, err error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Name      string `json:"name"`
					Health    string `json:"health"`
					LastError string `json:"lastError"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	err = p.get(ctx, "rules", &answer)
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			loaded++
			if r.Health != "ok" {
				broken = append(broken, r.Name+": "+r.Health+" "+r.LastError)
			}
		}
	}
	return loaded, broken, err
}
