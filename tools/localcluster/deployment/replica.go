package deployment

import (
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/proxy"
)

// Replica is one broker of a deployment.
type Replica struct {
	*launch.Broker
	ID   string
	NATS Way // to every NATS server
	Mesh Way // its links with every other replica

	entrance *proxy.Proxy // to its mesh listener, a lane for each other replica
	servers  []*proxy.Proxy
}

// prepare makes the replica's folder and its ways; it is not started.
func (d *Deployment) prepare(i int) (*Replica, error) {
	r := &Replica{ID: fmt.Sprintf("uns-%d", i)}
	ports, err := launch.Reserve(1)
	if err != nil {
		return nil, err
	}
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	advertise := listen
	var servers, urls []string
	for _, s := range d.NATS.Servers {
		servers = append(servers, s.Address)
	}
	if d.options.Direct {
		for _, s := range servers {
			urls = append(urls, "nats://"+s)
		}
	} else {
		if r.entrance, err = proxy.OpenLanes(listen, d.dialer); err != nil {
			return nil, err
		}
		advertise = r.entrance.Address
		if r.NATS, r.servers, err = open(servers...); err != nil {
			r.close()
			return nil, err
		}
		for _, p := range r.servers {
			urls = append(urls, "nats://"+p.Address)
		}
	}
	settings := map[string]any{
		"replicaId":               r.ID,
		"replicas":                d.options.Replicas,
		"brokerMemberTTL":         d.options.MemberTTL.String(),
		"brokerMesh":              map[string]any{"listen": listen, "advertise": advertise, "certFile": d.file("mesh.crt"), "keyFile": d.file("mesh.key")},
		"nats":                    map[string]any{"servers": urls, "user": user.Name, "password": user.Password, "copies": min(3, len(urls))},
		"historian.type":          "timescale",
		"historian.timescale.url": d.Postgres.URL("postgres"),
	}
	maps.Copy(settings, d.options.Settings)
	dir := d.file(r.ID)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", r.ID, err)
	}
	r.Broker, err = launch.PrepareBroker(launch.BrokerOptions{
		Binary: d.options.Binary, Dir: dir, Clients: d.options.Clients, Model: d.options.Model, Settings: settings, Env: d.options.Env,
	})
	if err != nil {
		r.close()
		return nil, fmt.Errorf("prepare %s: %w", r.ID, err)
	}
	return r, nil
}

func (r *Replica) close() {
	closeAll(r.servers)
	if r.entrance != nil {
		r.entrance.Close()
	}
}

// Pause stops the process where it stands; its connections stay open.
func (r *Replica) Pause() error { return r.Process().Signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (r *Replica) Resume() error { return r.Process().Signal(syscall.SIGCONT) }

// Alive reports whether the process runs, paused or not.
func (r *Replica) Alive() bool { return r.Process() != nil && r.Process().Running() }

// stopBound is the longest a planned stop may take, that of Kubernetes.
const stopBound = 30 * time.Second
