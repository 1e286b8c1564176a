package kubernetes_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	kubeconfig = flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster")
	programs   = flag.String("programs", filepath.Join(root, ".cache", "kubelab", "programs"), "folder with kubectl, helm and, for a lab, kubelab")
	registry   = flag.String("registry", strings.TrimPrefix(os.Getenv("E2E_REGISTRY"), "http://"), "registry that has the images, for global.imageRegistry; empty: the lab's, which stands in for every one")
	manager    = flag.Bool("certmanager", false, "compile cert-manager's controllers, which takes minutes, and have them make a release's certificates")
	yours      = flag.Bool("yours", false, "treat the lab as a cluster of yours: a registry with a password, and rows from where nothing within the cluster is reached")
	rowsIn     = flag.String("namespace", "e2e", "namespace of the shared release; another than that of a run that goes on")
	keep       = flag.Bool("keep", false, "leave the shared release and its namespaces at the end, and take up one that was left")
)

// root is the repository, seen from this package.
const root = "../.."

// cluster is the one all tests run on.
var cluster *kube

func TestMain(m *testing.M) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	os.Exit(run(ctx, m))
}

func run(ctx context.Context, m *testing.M) int {
	var err error
	if cluster, err = connect(ctx, *kubeconfig, *programs); err != nil {
		fmt.Fprintln(os.Stderr, "tests/kubernetes:", err)
		return 1
	}
	// An interrupted run leaves nothing behind either: what is shared is removed, then
	// the process ends.
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "tests/kubernetes: interrupted; removing what is shared", removeShared())
			os.Exit(1)
		case <-ended:
		}
	}()
	// Enough for those that wait for their lane, too.
	if err := flag.Set("test.parallel", "100"); err != nil {
		fmt.Fprintln(os.Stderr, "tests/kubernetes:", err)
		return 1
	}
	code := m.Run()
	if err := undefine(); err != nil {
		fmt.Fprintln(os.Stderr, "tests/kubernetes:", err)
		code = 1
	}
	if *keep {
		return code
	}
	if err := removeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "tests/kubernetes:", err)
		return 1
	}
	return code
}

// removeShared removes the shared release with everything of it.
func removeShared() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	sharing.Lock()
	defer sharing.Unlock()
	if shared == nil {
		return nil
	}
	s := shared
	shared = nil
	return s.release.discard(ctx)
}

// row prints a line of the table, which the runner shows as it comes.
func row(t *testing.T, what, promised string, measured any) {
	t.Helper()
	if d, is := measured.(time.Duration); is {
		measured = d.Round(max(d/1000, time.Millisecond)) // three figures
	}
	t.Logf("| %-66s | %-30s | %v |", what, promised, measured)
}
