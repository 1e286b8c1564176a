package nats_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"maestrohub.io/uns/broker/secrets"
	"maestrohub.io/uns/tests/contract"
	"maestrohub.io/uns/tools/launch"
)

// whole is the chart that carries the NATS chart.
const whole = "../../chart"

// vault is a secrets.Store in memory.
type vault map[secrets.Ref]*secrets.Secret

func (v vault) Read(_ context.Context, r secrets.Ref) (*secrets.Secret, error) {
	if s := v[r]; s != nil {
		return s, nil
	}
	return nil, secrets.ErrMissing
}

func (v vault) Create(_ context.Context, s *secrets.Secret) error {
	v[s.Ref] = s
	return nil
}

func (v vault) Change(_ context.Context, c secrets.Change) error {
	s := v[c.Ref]
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	maps.Copy(s.Annotations, c.Annotations)
	for key, value := range c.Data {
		if s.Data[key] = value; value == nil {
			delete(s.Data, key)
		}
	}
	return nil
}

// installation is the chart rendered, with the Secrets its Job makes.
type installation struct {
	release *contract.Release
	set     *appsv1.StatefulSet
	secrets vault
}

// values are the chart's with accounts and mutual TLS, each server on an address of its
// own instead of one machine each.
func values(overlay map[string]any) map[string]any {
	v := map[string]any{
		"global": map[string]any{"natsAuth": map[string]any{"enabled": true}, "natsTLS": map[string]any{"enabled": true, "mutual": true}},
		"nats": map[string]any{"config": map[string]any{
			"jetstream": map[string]any{"fileStore": map[string]any{"dir": dataDir}},
			"merge":     map[string]any{"host": "<< $POD_IP >>", "cluster": map[string]any{"host": "<< $POD_IP >>"}},
		}},
	}
	return contract.Merged(v, overlay)
}

// install renders the chart and makes its Secrets, or follows its plan over those there are.
func install(t *testing.T, overlay map[string]any, there vault) *installation {
	t.Helper()
	r, err := contract.Render(contract.Install{Chart: whole, Values: values(overlay)})
	must(t, err)
	i := &installation{release: r, secrets: there}
	if i.secrets == nil {
		i.secrets = vault{}
	}
	for _, o := range r.Objects {
		object, known, err := o.Typed()
		must(t, err)
		if !known {
			continue
		}
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			if object.Name == "maestrohub-nats" {
				i.set = object
			}
		case *batchv1.Job:
			for _, e := range object.Spec.Template.Spec.Containers[0].Env {
				if e.Name == "SECRETS_PLAN" {
					plan, err := secrets.ParsePlan([]byte(e.Value))
					must(t, err)
					must(t, secrets.Ensure(t.Context(), i.secrets, plan, 0, func(string) {}))
				}
			}
		}
	}
	if i.set == nil {
		t.Fatal("the chart has no StatefulSet maestrohub-nats")
	}
	return i
}

// files are what the pod's projected volume holds.
func (i *installation) files(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, v := range i.set.Spec.Template.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				data, _ := i.release.Object("ConfigMap", s.ConfigMap.Name).Field("data").(map[string]any)
				for key, text := range data {
					files[key] = []byte(text.(string))
				}
			}
			if s.Secret != nil {
				secret := i.secret(t, i.set.Namespace, s.Secret.Name)
				for _, item := range s.Secret.Items {
					content := secret[item.Key]
					if len(content) == 0 {
						t.Fatalf("Secret %s has no key %s", s.Secret.Name, item.Key)
					}
					files[item.Path] = content
				}
			}
		}
	}
	return files
}

func (i *installation) secret(t *testing.T, namespace, name string) map[string][]byte {
	t.Helper()
	s := i.secrets[secrets.Ref{Namespace: namespace, Name: name}]
	if s == nil {
		t.Fatalf("no Secret %s/%s was made", namespace, name)
	}
	return s.Data
}

// programs builds what the containers' images hold, once, and returns their folder.
var programs = sync.OnceValues(func() (folder string, err error) {
	for _, tool := range []struct{ pkg, name string }{
		{"github.com/nats-io/nats-server/v2", "nats-server"},
		{"github.com/nats-io/natscli/nats", "nats"},
		{"github.com/nats-io/nack/cmd/nats-server-config-reloader", "nats-server-config-reloader"},
	} {
		path, err := launch.Build("tools/peers", tool.pkg, tool.name)
		if err != nil {
			return "", err
		}
		folder = filepath.Dir(path)
	}
	return folder, nil
})

// pods are the servers of the StatefulSet, on loopback addresses of their own.
func (i *installation) pods(t *testing.T, net int) []*pod {
	t.Helper()
	binaries, err := programs()
	must(t, err)
	hosts := map[string]string{}
	name := i.set.Name
	for n := range int(*i.set.Spec.Replicas) {
		address := fmt.Sprintf("127.77.%d.%d", net, n+1)
		hosts[fmt.Sprintf("%s-%d.%s-headless", name, n, name)] = address
		hosts[fmt.Sprintf("%s.%s.svc", name, i.set.Namespace)] = address
	}
	var pods []*pod
	for n := range int(*i.set.Spec.Replicas) {
		p := newPod(t, fmt.Sprintf("%s-%d", name, n), fmt.Sprintf("127.77.%d.%d", net, n+1), &i.set.Spec.Template.Spec, hosts, binaries)
		p.project(t, i.files(t))
		pods = append(pods, p)
	}
	return pods
}

// ask asks a server's monitoring port as the kubelet does.
func (p *pod) ask(ctx context.Context, path string) int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+":8222"+path, nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// await waits until a condition holds and returns how long it took.
func await(t *testing.T, within time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Since(began) > within {
			t.Fatalf("waited %v for %s", within, what)
		}
		<-tick.C
	}
	return time.Since(began)
}
