package contract

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tools/launch"
)

const repository = "../../"

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(repository + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The paths that Kubernetes asks are the broker's, on the port of its HTTP listener.
func TestTheProbesAreTheBrokers(t *testing.T) {
	document := read(t, "broker/api/openapi.yaml")
	each(t, func(t *testing.T, _ map[string]any, r *Release) {
		c := statefulSet(t, r).Spec.Template.Spec.Containers[0]
		for name, probe := range map[string]string{"startup": c.StartupProbe.HTTPGet.Path, "readiness": c.ReadinessProbe.HTTPGet.Path, "liveness": c.LivenessProbe.HTTPGet.Path} {
			if !strings.Contains(document, "\n  "+probe+":\n") {
				t.Errorf("%s probe asks %s, which the broker does not have", name, probe)
			}
		}
		// A fence or a store that is away must restart nothing.
		if c.LivenessProbe.HTTPGet.Path != "/health/live" || c.StartupProbe.HTTPGet.Path != "/health/live" || c.ReadinessProbe.HTTPGet.Path != "/health/ready" {
			t.Error("only readiness may follow the stores")
		}
		https := loaded(t, r).HTTP.TLS.CertFile != ""
		if (c.ReadinessProbe.HTTPGet.Scheme == "HTTPS") != https {
			t.Errorf("probes speak %s, the listener has TLS: %v", c.ReadinessProbe.HTTPGet.Scheme, https)
		}
	})
}

// The pod is what the image is made for: its user, its folder, its ports.
func TestThePodIsTheImages(t *testing.T) {
	image, base := read(t, "tools/image/image.go"), read(t, "tools/image/main.go")
	spec := statefulSet(t, render(t, map[string]any{"uns": map[string]any{"mqtt": map[string]any{"embedded": map[string]any{
		"tls": map[string]any{"secretName": "s"}, "webSocket": map[string]any{"enabled": true}}}}})).Spec.Template.Spec
	c := spec.Containers[0]
	if !strings.Contains(image, `"`+c.WorkingDir+`"`) {
		t.Errorf("works in %s, which is not the image's", c.WorkingDir)
	}
	if *spec.SecurityContext.RunAsUser != 65532 || !strings.Contains(read(t, "tools/image/build.go")+image+read(t, "tools/image/layer.go"), "65532") {
		t.Errorf("runs as %d, which is not the image's user", *spec.SecurityContext.RunAsUser)
	}
	if len(c.Ports) != 5 {
		t.Errorf("%d ports are open, want MQTT, MQTT over TLS, WebSocket, HTTP and mesh", len(c.Ports))
	}
	for _, p := range c.Ports {
		if port := fmt.Sprintf(`"%d/tcp"`, p.ContainerPort); !strings.Contains(base, port) {
			t.Errorf("the image does not expose %s (%s)", port, p.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if m.Name == "data" && m.MountPath != c.WorkingDir+"/"+config.Default().DataDir {
			t.Errorf("data is mounted at %s; the broker's commands look in %s/%s", m.MountPath, c.WorkingDir, config.Default().DataDir)
		}
	}
}

// Every command line of the broker in a manifest is one the broker has, flag by flag.
func TestTheCommandsInTheManifestsAreTheBrokers(t *testing.T) {
	broker, err := launch.Build(".", "./broker", "broker")
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`^--[a-z-]+`)
	tried := make(map[string]bool)
	for name, values := range installations(t) {
		if name == "values-local-lab.yaml" {
			values = Merged(values, At("backup.enabled", true))
		}
		r := render(t, values)
		for _, p := range pods(t, r) {
			for _, c := range p.containers() {
				if !strings.Contains(c.Image, "uns-broker") || tried[strings.Join(c.Args, " ")] {
					continue
				}
				tried[strings.Join(c.Args, " ")] = true
				command := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return strings.HasPrefix(a, "-") || strings.ContainsAny(a, "/:.$=") })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				help, err := exec.CommandContext(ctx, broker, append(command, "--help")...).CombinedOutput()
				cancel()
				if err != nil {
					t.Errorf("%s, %s: broker %s: %v\n%s", p.of, c.Name, strings.Join(command, " "), err, help)
				}
				for _, a := range c.Args {
					if name := flag.FindString(a); name != "" && !strings.Contains(string(help), name+" ") {
						t.Errorf("%s, %s: broker %s has no %s", p.of, c.Name, strings.Join(command, " "), name)
					}
				}
			}
		}
	}
	if len(tried) < 3 {
		t.Errorf("%d command lines found: run, try and secrets at least", len(tried))
	}
}

// pages are the texts that name what the broker has.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, root := range []string{"runbooks", "alerts", "chart", "README.md", "UPGRADING.md", "broker/README.md"} {
		err := filepath.WalkDir(repository+root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if slices.Contains([]string{".md", ".yaml", ".json", ".tpl", ".txt"}, filepath.Ext(path)) {
				data, err := os.ReadFile(path)
				all[strings.TrimPrefix(path, repository)] = string(data)
				return err
			}
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return all
}

// A bucket, log or metric that a page names is one that the broker has: a command
// typed from the page at night must not answer "not found".
func TestPagesNameWhatThereIs(t *testing.T) {
	buckets := []string{state.SessionState, state.SessionCursor, state.SessionWill, state.SessionQoS2, state.Retained, state.ClusterFloor,
		state.Sessions, state.Routes, state.Members, state.Locks, state.APIClients}
	bucket := regexp.MustCompile(`\bKV_([a-z0-9-]*[a-z0-9])(\W|$)`)
	log := regexp.MustCompile(`\bLOG_[a-z-]+`)
	metric := regexp.MustCompile(`\bmaestrohub_uns_[a-z0-9_]*[a-z0-9]`)
	known := make(map[string]bool)
	for _, m := range metric.FindAllString(metrics.Reference(), -1) {
		known[m] = true
	}
	// A page may name what several have in common, for a search.
	common := func(name string) bool {
		for m := range known {
			if strings.HasPrefix(m, name+"_") {
				return true
			}
		}
		return false
	}
	seen := 0
	for page, text := range pages(t) {
		for _, m := range bucket.FindAllStringSubmatch(text, -1) {
			seen++
			if m[2] != "*" && m[1] != "mqtt" && !slices.Contains(buckets, m[1]) {
				t.Errorf("%s: KV_%s: the broker has no such bucket", page, m[1])
			}
		}
		for _, m := range log.FindAllString(text, -1) {
			if !strings.HasPrefix(m, strings.TrimSuffix(state.LogStream, "-")) {
				t.Errorf("%s: %s: logs begin with %s", page, m, state.LogStream)
			}
		}
		for _, m := range metric.FindAllString(text, -1) {
			seen++
			if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(m, "_bucket"), "_count"), "_sum"); !known[m] && !known[base] && !common(m) {
				t.Errorf("%s: %s: the broker has no such metric", page, m)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d names found: is the pattern right?", seen)
	}
}
