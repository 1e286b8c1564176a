package policy

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// resync is how often every rule is written again, whatever has changed.
const resync = 30 * time.Second

// pause is how long the rules stay as they are at least. Writing them takes dozens of
// programs on each node, whichever pod has come or gone; without it, a third of two
// cores where releases come and go.
const pause = time.Second

// Run enforces policies until ctx ends.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("policy", flag.ExitOnError)
	klog.InitFlags(flags)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	node := flags.String("node", "", "name of this node")
	services := flags.String("services", "", "CIDR of the ClusterIPs")
	_ = flags.Parse(args) // ExitOnError
	if *node == "" || *services == "" {
		return fmt.Errorf("-node (%q) and -services (%q) must be given", *node, *services)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return enforce(ctx, client, settings(*node, *services))
}

// settings are kube-router's, with everything but the policies off.
func settings(node, services string) *options.KubeRouterConfig {
	c := options.NewKubeRouterConfig()
	c.HostnameOverride = node
	c.ClusterIPCIDRs = []string{services}
	c.EnableIPv4, c.EnableIPv6 = true, false
	c.RunFirewall = true
	c.IPTablesSyncPeriod = resync
	return c
}

func enforce(ctx context.Context, client kubernetes.Interface, config *options.KubeRouterConfig) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return fmt.Errorf("open iptables: %w", err)
	}
	var guard sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &guard, tables, sets)
	if err != nil {
		return fmt.Errorf("make the policy controller: %w", err)
	}
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{{pods, controller.PodEventHandler}, {namespaces, controller.NamespaceEventHandler}, {policies, controller.NetworkPolicyEventHandler}} {
		if _, err := w.informer.AddEventHandler(w.handler); err != nil {
			return fmt.Errorf("watch the cluster: %w", err)
		}
	}
	// The controller begins each writing of all rules with a beat, and waits until that
	// is read; nobody asks for its health.
	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for {
			select {
			case <-beats:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(beats, ctx.Done(), &running)
	<-ctx.Done()
	return nil // what it wrote goes with the network namespace
}
