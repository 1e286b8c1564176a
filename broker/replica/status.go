package replica

import (
	"errors"
	"time"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/mqtt"
)

// errStopping is the reason of a replica that is on its way out.
var errStopping = errors.New("the replica is stopping")

// ready says why devices should be sent elsewhere, nil if they need not be.
func (r *Replica) ready() error {
	err := r.unready()
	if err != nil {
		r.metrics.Ready.Set(0)
	} else {
		r.metrics.Ready.Set(1)
	}
	return err
}

func (r *Replica) unready() error {
	if r.stopping.Load() {
		return errStopping
	}
	if r.doors.Load() == nil {
		return r.opening.Load().waits()
	}
	for _, p := range r.probes {
		if err := p.state(); err != nil {
			return err
		}
	}
	if r.member != nil {
		return r.member.unready()
	}
	return nil
}

// status describes the replica as it is now.
func (r *Replica) status() api.Status {
	stats := r.server.Stats()
	b := api.BrokerStatus{
		Mode: "embedded", Version: r.version, Started: r.begun.UTC(), UptimeSeconds: int64(time.Since(r.begun) / time.Second),
		Cluster: api.ClusterStatus{Replica: r.id, Mesh: "off", Members: []string{r.id}, MemberCount: 1,
			SessionLogValuesMissed: int64(stats.Missed), SessionLogReadsHeld: int64(stats.ReadsHeld)},
		Clients:     api.ClientsStatus{Connected: stats.Clients, Maximum: stats.MaxClients},
		Sessions:    api.SessionsStatus{Persistent: stats.Persistent, Offline: stats.Offline, Subscriptions: stats.Subscriptions},
		Listeners:   []api.Listener{},
		Retained:    r.retained.Len(),
		Historian:   api.HistorianStatus{Kind: string(r.config.Historian.Type), Available: true},
		Model:       api.FileStatus{File: r.config.ModelFile},
		ClientsFile: api.FileStatus{File: r.config.ClientsFile},
	}
	if r.member != nil {
		r.member.describe(&b.Cluster)
	}
	for _, p := range r.probes {
		err := p.state()
		switch {
		case err == nil:
		case p.name == historianProbe:
			b.Historian.Available, b.Historian.Reason = false, err.Error()
		default:
			b.Cluster.StoreUnreachable = err.Error()
		}
	}
	if d := r.doors.Load(); d != nil {
		b.Listeners = d.listeners()
	}
	if err := r.model.Err(); err != nil {
		b.Model.Error = err.Error()
	}
	if r.seeder != nil {
		if err := r.seeder.err(); err != nil {
			b.ClientsFile.Error = err.Error()
		}
	}
	return api.Status{Broker: b}
}

// connections lists the MQTT clients of a workspace connected here.
func (r *Replica) connections(workspace string) []api.Connection {
	var all []api.Connection
	for _, c := range r.server.Connections(workspace) {
		all = append(all, api.Connection{ClientID: c.ClientID, Client: c.Identity, Protocol: protocol(c.Version), Listener: c.Transport,
			Address: c.Remote, Connected: c.Since.UTC(), CleanSession: !c.Persistent, Subscriptions: c.Subscriptions})
	}
	return all
}

func protocol(v mqtt.Version) string {
	switch v {
	case mqtt.V31:
		return "3.1"
	case mqtt.V311:
		return "3.1.1"
	}
	return "5"
}
