package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"maestrohub.io/uns/tests/kubernetes/way"
)

// kube is a cluster: its API, and the programs an operator uses.
type kube struct {
	*kubernetes.Clientset
	kubeconfig string
	programs   string
	ways       *way.Ways
}

// connect finds the cluster and the programs, or says what is missing.
func connect(ctx context.Context, kubeconfig, programs string) (*kube, error) {
	if kubeconfig == "" {
		return nil, errors.New("no cluster: give -kubeconfig, or bring a lab up: go run -C tools/kubelab . up --nodes 3 && eval \"$(go run -C tools/kubelab . env)\"")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200 // a few watchers at once, on a cluster of one's own
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return nil, fmt.Errorf("reach the cluster of %s: %w", kubeconfig, err)
	}
	if programs, err = filepath.Abs(programs); err != nil {
		return nil, err
	}
	k := &kube{Clientset: client, kubeconfig: kubeconfig, programs: programs}
	for _, name := range []string{"kubectl", "helm"} {
		if _, err := k.program(name); err != nil {
			return nil, err
		}
	}
	if k.isLab(ctx) == nil {
		k.ways, err = way.Inside(config)
	} else {
		k.ways, err = way.Find(ctx, config)
	}
	return k, err
}

// program is the path of kubectl, helm or kubelab: of the lab's, or from PATH.
func (k *kube) program(name string) (string, error) {
	path := filepath.Join(k.programs, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s in %s or PATH: %w", name, k.programs, err)
	}
	return path, nil
}

// command runs a program against the cluster and returns what it printed.
func (k *kube) command(ctx context.Context, name string, args ...string) (string, error) {
	return k.commandWith(ctx, nil, name, args...)
}

// commandWith is command with more environment.
func (k *kube) commandWith(ctx context.Context, env []string, name string, args ...string) (string, error) {
	path, err := k.program(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(append(os.Environ(), env...), "KUBECONFIG="+k.kubeconfig)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out.String(), nil
}

// mustRun is command for a test that cannot go on without.
func (k *kube) mustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := k.command(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lab runs a command of the lab's, or skips the test on a cluster that is none.
func (k *kube) lab(t *testing.T, args ...string) {
	t.Helper()
	k.needLab(t)
	k.mustRun(t, "kubelab", append([]string{"--repository", root}, args...)...)
}

// needLab skips a test that reaches below Kubernetes on a cluster that is no lab.
func (k *kube) needLab(t *testing.T) {
	t.Helper()
	if err := k.isLab(t.Context()); err != nil {
		t.Skipf("this row needs a lab of tools/kubelab: %v", err)
	}
}

// isLab is an error unless the cluster is the lab of this machine, which may be up
// beside the cluster that the tests are for: a container of the wrong one would be
// killed.
func (k *kube) isLab(ctx context.Context) error {
	if _, err := k.command(ctx, "kubelab", "--repository", root, "status"); err != nil {
		return err
	}
	env, err := k.command(ctx, "kubelab", "--repository", root, "env")
	if err != nil {
		return err
	}
	mine, err := os.Stat(k.kubeconfig)
	if err != nil {
		return err
	}
	_, path, _ := strings.Cut(env, "KUBECONFIG=")
	path, _, _ = strings.Cut(path, "\n")
	if its, err := os.Stat(path); err != nil || !os.SameFile(mine, its) {
		return fmt.Errorf("the kubeconfig is %s, the lab's is %s (%v)", k.kubeconfig, path, err)
	}
	return nil
}

// makeNamespace makes a namespace that enforces the restricted Pod Security Standard.
func (k *kube) makeNamespace(ctx context.Context, name string) error {
	_, err := k.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s is there already: another run of these tests goes on, or one was killed; `kubectl delete namespace %[1]s`", name)
	}
	return err
}

// makeClaim makes a volume claim, or finds it made.
func (k *kube) makeClaim(ctx context.Context, namespace, name string) error {
	_, err := k.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &core.PersistentVolumeClaim{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: core.PersistentVolumeClaimSpec{AccessModes: []core.PersistentVolumeAccessMode{core.ReadWriteOnce},
			Resources: core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: resource.MustParse("1Gi")}}},
	}, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// deleteNamespaces deletes namespaces and waits until they are gone.
func (k *kube) deleteNamespaces(ctx context.Context, names ...string) error {
	var errs []error
	for _, name := range names {
		if err := k.CoreV1().Namespaces().Delete(ctx, name, meta.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete namespace %s: %w", name, err))
		}
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for _, name := range names {
		for {
			_, err := k.CoreV1().Namespaces().Get(ctx, name, meta.GetOptions{})
			if apierrors.IsNotFound(err) {
				break
			}
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
				errs = append(errs, fmt.Errorf("namespace %s is not gone: %w", name, ctx.Err()))
			}
			break
		}
	}
	return errors.Join(errs...)
}

// pods returns the pods of a component ("uns", "nats") in the order of their names.
func (k *kube) pods(ctx context.Context, namespace, component string) ([]core.Pod, error) {
	list, err := k.CoreV1().Pods(namespace).List(ctx, meta.ListOptions{LabelSelector: "app.kubernetes.io/name=" + component})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s in %s: %w", component, namespace, err)
	}
	return list.Items, nil
}

// outside are the addresses that what comes from outside the cluster has when it
// reaches a pod, as peers of a NetworkPolicy: the networks of the nodes, and what a node
// has itself of the network of its pods, as Flannel and kindnet give it.
func (k *kube) outside(ctx context.Context) (peers []any, err error) {
	nodes, err := k.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	seen := map[netip.Prefix]bool{}
	peer := func(network netip.Prefix) {
		if !seen[network] {
			seen[network] = true
			peers = append(peers, map[string]any{"ipBlock": map[string]any{"cidr": network.String()}})
		}
	}
	for _, n := range nodes.Items {
		if pods, err := netip.ParsePrefix(n.Spec.PodCIDR); err == nil && pods.Addr().Is4() {
			peer(netip.PrefixFrom(pods.Masked().Addr(), 31))
		}
		for _, a := range n.Status.Addresses {
			address, err := netip.ParseAddr(a.Address)
			if a.Type != core.NodeInternalIP || err != nil || !address.Is4() {
				continue
			}
			peer(netip.PrefixFrom(address, 24).Masked())
		}
	}
	return peers, nil
}

// isReady reports whether a pod is ready and not on its way out.
func isReady(p *core.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

// until waits for a condition of any length of time, and returns how long it took.
func until(t *testing.T, within time.Duration, what string, condition func() (bool, string)) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		ok, now := condition()
		if ok {
			break
		}
		if time.Since(began) > within {
			t.Fatalf("waited %v for %s; last: %s", within, what, now)
		}
	}
	return time.Since(began)
}

// describe says how the pods of namespaces are, and why, for a test that failed.
func (k *kube) describe(ctx context.Context, namespaces ...string) string {
	var out strings.Builder
	for _, n := range namespaces {
		pods, err := k.command(ctx, "kubectl", "-n", n, "get", "pods", "-o", "wide")
		fmt.Fprintf(&out, "%s\n%s", n, pods)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
		events, err := k.command(ctx, "kubectl", "-n", n, "get", "events", "--sort-by=.lastTimestamp")
		lines := strings.Split(strings.TrimSpace(events), "\n")
		fmt.Fprintln(&out, strings.Join(lines[max(0, len(lines)-25):], "\n"))
		if err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	return out.String()
}
