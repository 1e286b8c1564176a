package balancer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// routes leads this machine's traffic for an address.
type routes interface {
	// Lead has traffic for the address go over the gateway.
	Lead(address, gateway netip.Addr) error
	// Drop ends that; an address that is not led is no error.
	Drop(address netip.Addr) error
}

// Run serves until ctx ends.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("balancer", flag.ExitOnError)
	klog.InitFlags(flags)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	pool := flags.String("pool", "", "network the addresses are taken from, in CIDR notation")
	_ = flags.Parse(args) // ExitOnError
	network, err := netip.ParsePrefix(*pool)
	if err != nil {
		return fmt.Errorf("-pool (%q) must be a network such as 10.0.0.0/24: %w", *pool, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return newBalancer(client, network, kernel{}).run(ctx)
}

// balancer holds what is known. One goroutine works on it.
type balancer struct {
	client  kubernetes.Interface
	pool    netip.Prefix
	routes  routes
	factory informers.SharedInformerFactory
	queue   workqueue.TypedRateLimitingInterface[string]
	led     map[netip.Addr]netip.Addr // address to gateway, as the routes are
}

func newBalancer(client kubernetes.Interface, pool netip.Prefix, r routes) *balancer {
	return &balancer{
		client: client, pool: pool, routes: r, led: map[netip.Addr]netip.Addr{},
		factory: informers.NewSharedInformerFactory(client, 0),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
}

// everything is the queue's only item: each change has all Services looked at.
const everything = "everything"

func (b *balancer) run(ctx context.Context) error {
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { b.queue.Add(everything) },
		UpdateFunc: func(any, any) { b.queue.Add(everything) },
		DeleteFunc: func(any) { b.queue.Add(everything) },
	}
	for _, i := range []cache.SharedIndexInformer{
		b.factory.Core().V1().Services().Informer(),
		b.factory.Core().V1().Nodes().Informer(),
		b.factory.Discovery().V1().EndpointSlices().Informer(),
	} {
		if _, err := i.AddEventHandler(changed); err != nil {
			return fmt.Errorf("watch the cluster: %w", err)
		}
	}
	b.factory.Start(ctx.Done())
	b.factory.WaitForCacheSync(ctx.Done())
	context.AfterFunc(ctx, b.queue.ShutDown)
	for {
		item, shutdown := b.queue.Get()
		if shutdown {
			return b.dropAllBut(nil)
		}
		if err := b.sync(ctx); err != nil {
			klog.Errorf("%v", err)
			b.queue.AddRateLimited(item)
		} else {
			b.queue.Forget(item)
		}
		b.queue.Done(item)
	}
}

// sync gives each Service its address and leads each address to where it belongs.
func (b *balancer) sync(ctx context.Context) error {
	services, err := b.factory.Core().V1().Services().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	used := map[netip.Addr]bool{}
	for _, s := range services {
		if a := assigned(s); a.IsValid() {
			used[a] = true
		}
	}
	var errs []error
	wanted := map[netip.Addr]netip.Addr{}
	for _, s := range services {
		if s.Spec.Type != core.ServiceTypeLoadBalancer || s.DeletionTimestamp != nil || s.Spec.LoadBalancerClass != nil {
			continue
		}
		address := assigned(s)
		if !address.IsValid() {
			if address, err = b.free(used); err == nil {
				err = b.assign(ctx, s, address)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("give %s/%s an address: %w", s.Namespace, s.Name, err))
				continue
			}
			used[address] = true
		}
		gateway, err := b.gateway(s, b.led[address])
		if err != nil {
			errs = append(errs, fmt.Errorf("find a node for %s/%s: %w", s.Namespace, s.Name, err))
		} else if gateway.IsValid() {
			wanted[address] = gateway
		}
	}
	for address, gateway := range wanted {
		if b.led[address] == gateway {
			continue
		}
		if err := b.routes.Lead(address, gateway); err != nil {
			errs = append(errs, err)
			continue
		}
		b.led[address] = gateway
		klog.Infof("%s goes over %s", address, gateway)
	}
	return errors.Join(append(errs, b.dropAllBut(wanted))...)
}

// dropAllBut ends the routes of addresses that are not wanted.
func (b *balancer) dropAllBut(wanted map[netip.Addr]netip.Addr) error {
	var errs []error
	for address := range b.led {
		if _, keep := wanted[address]; keep {
			continue
		}
		if err := b.routes.Drop(address); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(b.led, address)
		klog.Infof("%s goes nowhere", address)
	}
	return errors.Join(errs...)
}

// assigned is the address a Service has.
func assigned(s *core.Service) netip.Addr {
	for _, i := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil {
			return a
		}
	}
	return netip.Addr{}
}

// free is the lowest address of the pool that nobody has.
func (b *balancer) free(used map[netip.Addr]bool) (netip.Addr, error) {
	for a := b.pool.Masked().Addr().Next(); b.pool.Contains(a); a = a.Next() {
		if !used[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %s are in use", b.pool)
}

func (b *balancer) assign(ctx context.Context, s *core.Service, address netip.Addr) error {
	s = s.DeepCopy()
	direct := core.LoadBalancerIPModeVIP
	s.Status.LoadBalancer.Ingress = []core.LoadBalancerIngress{{IP: address.String(), IPMode: &direct}}
	_, err := b.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, meta.UpdateOptions{})
	if err == nil {
		klog.Infof("%s/%s has %s", s.Namespace, s.Name, address)
	}
	return err
}

// gateway is the address of a node that can take a Service's traffic: the one that
// does now, if it still can. None is no error.
func (b *balancer) gateway(s *core.Service, now netip.Addr) (netip.Addr, error) {
	nodes, err := b.factory.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		return netip.Addr{}, err
	}
	slices, err := b.factory.Discovery().V1().EndpointSlices().Lister().EndpointSlices(s.Namespace).
		List(labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: s.Name}))
	if err != nil {
		return netip.Addr{}, err
	}
	serving := map[string]bool{}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if e.NodeName != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
				serving[*e.NodeName] = true
			}
		}
	}
	local := s.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal
	var best netip.Addr
	for _, n := range nodes {
		address := internal(n)
		if !address.IsValid() || !ready(n) || local && !serving[n.Name] {
			continue
		}
		if address == now {
			return now, nil
		}
		if !best.IsValid() || address.Less(best) {
			best = address
		}
	}
	return best, nil
}

func internal(n *core.Node) netip.Addr {
	for _, a := range n.Status.Addresses {
		if a.Type == core.NodeInternalIP {
			if parsed, err := netip.ParseAddr(a.Address); err == nil {
				return parsed
			}
		}
	}
	return netip.Addr{}
}

func ready(n *core.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == core.NodeReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}
