package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/tools/localcluster/control"
)

// localCluster is the cluster of processes that tools/localcluster runs, harmed by its
// commands.
type localCluster struct {
	socket   string
	replicas []string
}

// harmBound is how long the cluster may take to carry a fault out: an upgrade restarts
// every replica.
const harmBound = 2 * time.Minute

// openCluster asks a running cluster where it is.
func openCluster(ctx context.Context, socket string) (*localCluster, places, error) {
	l := &localCluster{socket: socket}
	p, err := control.Find(ctx, socket)
	if err != nil {
		return nil, places{}, fmt.Errorf("--cluster: %w", err)
	}
	at := places{MQTT: []string{p.MQTT}, Client: p.Client, Secret: p.Secret}
	for i, address := range p.HTTP {
		at.HTTP = append(at.HTTP, "http://"+address)
		l.replicas = append(l.replicas, fmt.Sprintf("uns-%d", i))
	}
	return l, at, nil
}

func (l *localCluster) name() string { return "local cluster" }
func (l *localCluster) close() error { return nil }

func (l *localCluster) harm(ctx context.Context, f fault, replica string) (string, func(context.Context) error, error) {
	var harm, heal [][]string
	switch f.Name {
	case "kill":
		harm, heal = [][]string{{"kill", replica}}, [][]string{{"restart", replica}}
	case "stop":
		harm, heal = [][]string{{"stop", replica}}, [][]string{{"restart", replica}}
	case "nats-kill":
		harm, heal = [][]string{{"kill", "nats-1"}}, [][]string{{"restart", "nats-1"}}
	case "nats-cut":
		harm, heal = [][]string{{"cut", replica + "/nats"}}, [][]string{{"heal", replica + "/nats"}}
	case "nats-slow":
		harm, heal = [][]string{{"slow", "nats", "2s"}}, [][]string{{"heal", "nats"}}
	case "mesh-cut":
		harm, heal = [][]string{{"cut", "mesh"}}, [][]string{{"heal", "mesh"}}
	case "upgrade":
		for _, r := range l.replicas {
			harm = append(harm, []string{"upgrade", r})
		}
	default:
		return "", nil, fmt.Errorf("%s: %w", f.Name, errCannot)
	}
	if slices.Contains(harm[0], replica) && !slices.Contains(l.replicas, replica) {
		return "", nil, fmt.Errorf("%s: no replica %q: there are %s", f.Name, replica, strings.Join(l.replicas, ", "))
	}
	all := func(doing context.Context, commands [][]string) error {
		for i, c := range commands {
			if i > 0 && ctx.Err() != nil { // between two replicas it can be left
				return ctx.Err()
			}
			if _, err := control.Ask(doing, l.socket, c...); err != nil {
				return fmt.Errorf("localcluster %s: %w", strings.Join(c, " "), err)
			}
		}
		return nil
	}
	if ctx.Err() != nil {
		return "", nil, ctx.Err()
	}
	// A command that was given is waited for, also when interrupted: whether it was carried
	// out would not be known, and nothing would heal it.
	doing, cancel := context.WithTimeout(context.WithoutCancel(ctx), harmBound)
	defer cancel()
	if err := all(doing, harm); err != nil {
		return "", nil, err
	}
	var said []string
	for _, c := range harm {
		said = append(said, "localcluster "+strings.Join(c, " "))
	}
	if heal == nil {
		return strings.Join(said, "; "), nil, nil
	}
	return strings.Join(said, "; "), func(ctx context.Context) error { return all(ctx, heal) }, nil
}
