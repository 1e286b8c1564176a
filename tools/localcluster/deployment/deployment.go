package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/launch/postgres"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// Options say what deployment to start.
type Options struct {
	Replicas  int           // 0: 2
	MemberTTL time.Duration // 0: 10 s
	Binary    string        // of the broker; "": built from this repository
	Clients   []launch.Client
	Model     string         // model.yaml; "": none
	Settings  map[string]any // of every replica, as launch.BrokerOptions has them
	Env       []string       // of every replica
	// Direct leaves the proxies out, which cost CPU time where that is measured: no way
	// can be harmed.
	Direct bool
	// SyncAlways makes the NATS servers sync each write before they answer.
	SyncAlways bool
}

// Deployment is one broker with all it needs.
type Deployment struct {
	Replicas []*Replica
	NATS     *natsserver.Cluster
	Postgres *postgres.Server

	dir     string
	options Options
	service *service
}

// account is the NATS account of the broker, user who joins it. The servers
// listen on loopback only; the password keeps nobody out.
const account = "BROKER"

var user = natsserver.User{Name: "uns-broker", Password: "uns-broker"}

// maxPayload is what the chart sets: 8 MiB.
const maxPayload = 8 << 20

// Start starts a deployment and waits until every replica is ready.
func Start(ctx context.Context, o Options) (*Deployment, error) {
	d, err := Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := d.StartReplicas(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Prepare is Start without the start of the replicas.
func Prepare(ctx context.Context, o Options) (*Deployment, error) {
	if o.Replicas == 0 {
		o.Replicas = 2
	}
	if o.MemberTTL == 0 {
		o.MemberTTL = 10 * time.Second
	}
	if o.Binary == "" {
		var err error
		if o.Binary, err = launch.BuildBroker(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "localcluster-")
	if err != nil {
		return nil, fmt.Errorf("start a local cluster: %w", err)
	}
	d := &Deployment{dir: dir, options: o}
	if err := d.fill(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a local cluster: %w", err), d.Close())
	}
	return d, nil
}

// fill starts the stores and prepares the replicas.
func (d *Deployment) fill(ctx context.Context) error {
	if err := launch.SelfSignedTo(d.file("mesh.crt"), d.file("mesh.key"), "mesh"); err != nil {
		return err
	}
	var err error
	if d.NATS, err = natsserver.Start(natsserver.Options{
		Dir: d.file("nats"), Accounts: []string{account}, Users: map[string]natsserver.User{account: user}, MaxPayload: maxPayload, SyncAlways: d.options.SyncAlways,
	}); err != nil {
		return err
	}
	if d.Postgres, err = postgres.Prepare(ctx, postgres.Options{}); err != nil {
		return err
	}
	if err := d.Postgres.Start(ctx); err != nil {
		return err
	}
	if err := d.NATS.Ready(ctx); err != nil {
		return err
	}
	for i := range d.options.Replicas {
		r, err := d.prepare(i)
		if err != nil {
			return err
		}
		d.Replicas = append(d.Replicas, r)
	}
	d.link()
	d.service, err = openService(d.Replicas)
	return err
}

// Address is the one address of all replicas: a connection to it reaches one that is
// ready. It is closed at once while none is.
func (d *Deployment) Address() string { return d.service.listener.Addr().String() }

// StartReplicas starts every replica that does not run, all at once, and waits
// until all are ready.
func (d *Deployment) StartReplicas(ctx context.Context) error {
	return d.each(func(r *Replica) error {
		if r.Alive() {
			return nil
		}
		return r.Start(ctx)
	})
}

// each does something with all replicas at once.
func (d *Deployment) each(do func(*Replica) error) error {
	errs := make([]error, len(d.Replicas))
	var all sync.WaitGroup
	for i, r := range d.Replicas {
		all.Go(func() {
			if err := do(r); err != nil {
				errs[i] = fmt.Errorf("%s: %w", r.ID, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Slow holds what NATS sends to any replica for so long; 0 ends it.
func (d *Deployment) Slow(delay time.Duration) {
	for _, r := range d.Replicas {
		r.NATS.Hold(delay)
	}
}

// NATSURL is where a NATS client joins the broker's account, on any server.
func (d *Deployment) NATSURL() string {
	url := ""
	for _, s := range d.NATS.Servers {
		url += fmt.Sprintf(",nats://%s:%s@%s", user.Name, user.Password, s.Address)
	}
	return url[1:]
}

// PIDs are the ids of all processes of the deployment.
func (d *Deployment) PIDs() []int {
	var pids []int
	for _, r := range d.Replicas {
		pids = append(pids, r.Process().PID())
	}
	for _, s := range d.NATS.Servers {
		pids = append(pids, s.PID())
	}
	return append(pids, d.Postgres.PIDs()...)
}

func (d *Deployment) file(name string) string { return filepath.Join(d.dir, name) }

// Close ends every process and removes the folders.
func (d *Deployment) Close() error {
	if d.service != nil {
		d.service.close()
	}
	for _, r := range d.Replicas {
		r.Kill()
		r.close()
	}
	if d.NATS != nil {
		d.NATS.Close()
	}
	var err error
	if d.Postgres != nil {
		err = d.Postgres.Remove()
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}
