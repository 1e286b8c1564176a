package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/tools/kubelab/images"
	"maestrohub.io/uns/tools/kubelab/machine"
	"maestrohub.io/uns/tools/kubelab/pki"
	"maestrohub.io/uns/tools/kubelab/process"
)

// Up brings the lab up. One that is up whole is left as it is; what is half up is
// taken down first.
func (l *Lab) Up(ctx context.Context) error {
	return l.exclusively(func() error { return l.up(ctx) })
}

func (l *Lab) up(ctx context.Context) error {
	now, err := l.Status()
	if err != nil {
		return err
	}
	switch {
	case now.Whole() && now.Nodes == l.Nodes:
		l.Say("the lab is up already, with %d nodes", now.Nodes)
		return nil
	case now.Whole():
		return fmt.Errorf("a lab with %d nodes is up, %d were asked for: take it down first (kubelab down)", now.Nodes, l.Nodes)
	case now.Nodes > 0:
		l.Say("the lab is half up (ended: %s): taking it down first", or(strings.Join(now.Ended, ", "), "none; its start was interrupted"))
		if err := l.down(ctx); err != nil {
			return err
		}
	}
	if err := l.able(ctx); err != nil {
		return err
	}
	if there := l.network().Present(); len(there) > 0 {
		// Its folder is gone, so nothing says who made it.
		return fmt.Errorf("a lab that is not in %s has left %s; `kubelab down` removes it", l.Dir, strings.Join(there, ", "))
	}
	if err := unused(ctx); err != nil {
		return err
	}
	began := time.Now()
	set, err := l.Build(ctx)
	if err != nil {
		return err
	}
	if err := l.start(ctx, set); err != nil {
		// Not with ctx, which may be why.
		return errors.Join(fmt.Errorf("bring the lab up: %w", err), l.down(context.Background()))
	}
	l.Say("the lab is up, %v", time.Since(began).Round(time.Second))
	return nil
}

// Build builds everything Up needs and keeps it in the cache: the programs, minutes of
// two cores the first time, and the images.
func (l *Lab) Build(ctx context.Context) (images.Set, error) {
	began := time.Now()
	if err := l.build(ctx); err != nil {
		return nil, err
	}
	l.Say("programs built in %v", time.Since(began).Round(time.Second))
	set, err := l.Images(ctx)
	if err != nil {
		return nil, err
	}
	l.Say("images built, %v", time.Since(began).Round(time.Second))
	return set, nil
}

// Images builds the images.
func (l *Lab) Images(ctx context.Context) (images.Set, error) {
	return images.Build(ctx, images.Options{Root: l.Root, Cache: l.Cache, Say: l.Say})
}

// start takes what it needs of the machine and starts everything.
func (l *Lab) start(ctx context.Context, set images.Set) error {
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return err
	}
	sysctls, err := machine.ReadSysctls(machine.KubeletSysctls)
	if err != nil {
		return err
	}
	if err := l.save(state{Nodes: l.Nodes, Sysctls: sysctls}); err != nil {
		return err
	}
	if err := l.certificates(); err != nil {
		return err
	}
	if err := l.configure(); err != nil {
		return err
	}
	if err := l.network().Make(ctx); err != nil {
		return err
	}
	for _, n := range l.nodes() {
		if err := n.system().Make(); err != nil {
			return err
		}
	}
	table, err := l.table()
	if err != nil {
		return err
	}
	s := &starting{l: l, table: table}
	if err := s.all(ctx, set); err != nil {
		return err
	}
	return l.save(state{Nodes: l.Nodes, Sysctls: sysctls, Ready: true})
}

func (l *Lab) certificates() error {
	c := pki.Cluster{Server: l.Server(), Nodes: map[string]string{}, Hosts: []string{
		hostAddress.Addr().String(), services.Addr().Next().String(),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain,
	}}
	for _, n := range l.nodes() {
		c.Nodes[n.Name] = n.Address.String()
	}
	return pki.Make(l.file("pki"), c)
}

// starting starts the parts in their order.
type starting struct {
	l     *Lab
	table *process.Table
}

func (s *starting) all(ctx context.Context, set images.Set) error {
	l := s.l
	early := []part{l.registryPart(), l.etcdPart(), l.apiServerPart()}
	for _, n := range l.nodes() {
		early = append(early, l.containerdPart(n))
	}
	if err := s.start(early...); err != nil {
		return err
	}
	// While the API server starts, the images find their place.
	pushed := make(chan error, 1)
	go func() { pushed <- s.push(ctx, set) }()
	if err := s.until(ctx, 2*time.Minute, "the API server to be ready", []string{"etcd", "apiserver"}, func(ctx context.Context) error {
		_, err := l.kubectl(ctx, nil, "get", "--raw", "/readyz")
		return err
	}); err != nil {
		return errors.Join(err, <-pushed)
	}
	if err := errors.Join(s.start(l.controllerParts()...), <-pushed); err != nil {
		return err
	}
	manifests, err := l.render("cluster.yaml", Node{})
	if err != nil {
		return err
	}
	if _, err := l.kubectl(ctx, manifests, "apply", "-f", "-"); err != nil {
		return err
	}
	var nodes sync.WaitGroup
	errs := make([]error, l.Nodes)
	for i, n := range l.nodes() {
		nodes.Go(func() { errs[i] = s.node(ctx, n) })
	}
	nodes.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if _, err := l.kubectl(ctx, nil, "wait", "--for=condition=Ready", "node", "--all", "--timeout=90s"); err != nil {
		return err
	}
	_, err = l.kubectl(ctx, nil, "-n", "kube-system", "rollout", "status", "daemonset/coredns", "--timeout=90s")
	return err
}

// push waits for the registry and fills it.
func (s *starting) push(ctx context.Context, set images.Set) error {
	err := s.until(ctx, 30*time.Second, "the registry to answer", []string{"registry"}, func(ctx context.Context) error {
		return images.Answers(ctx, s.l.Registry())
	})
	if err != nil {
		return err
	}
	return set.Push(ctx, s.l.Registry(), true)
}

// node starts what runs on a node.
func (s *starting) node(ctx context.Context, n Node) error {
	containerd := n.partName("containerd")
	if err := s.until(ctx, 30*time.Second, containerd+" to answer", []string{containerd}, func(ctx context.Context) error {
		_, err := command(ctx, nil, "/usr/bin/ctr", "--address", n.Containerd, "version")
		return err
	}); err != nil {
		return err
	}
	parts := s.l.nodeParts(n)
	if err := s.start(parts...); err != nil {
		return err
	}
	if err := s.until(ctx, time.Minute, n.Name+" to be known", []string{parts[0].name}, func(ctx context.Context) error {
		_, err := s.l.kubectl(ctx, nil, "get", "node", n.Name)
		return err
	}); err != nil {
		return err
	}
	return s.start(s.l.policyPart(n))
}

func (s *starting) start(parts ...part) error {
	for _, p := range parts {
		if err := s.table.Start(p.name, p.args...); err != nil {
			return err
		}
	}
	return nil
}

// until waits for an answer. It gives up as soon as one of the processes it depends
// on has ended, and shows what that said last.
func (s *starting) until(ctx context.Context, within time.Duration, what string, depends []string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		for _, name := range depends {
			alive, readErr := s.table.Alive(name)
			if readErr == nil && !alive {
				return fmt.Errorf("wait for %s: %s has ended; it said:\n%s", what, name, s.table.Tail(name, 15))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w; logs are in %s", what, ctx.Err(), err, filepath.Dir(s.table.Log(depends[0])))
		}
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
