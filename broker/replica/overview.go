package replica

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/server"
)

// overviewAge is how old what was read from the store may be when it is shown again:
// every page that is open asks every 2 s, and reading costs some records per client.
const overviewAge = 4 * time.Second

// overviews keeps the last answer of the store, by workspace.
type overviews struct {
	mu   sync.Mutex // held while reading: one reader at a time
	last map[string]sharedOverview
}

type sharedOverview struct {
	at     time.Time
	shared *api.Shared
}

// overview describes the cluster for the MQTT Broker page: what each replica says of
// itself, and what all share.
func (r *Replica) overview(ctx context.Context, workspace string) api.Overview {
	o := api.Overview{At: time.Now().UTC(), Replica: r.id, Runbooks: runbooks(r.version), Expected: r.config.Replicas}
	if r.member != nil {
		o.MemberTTLSeconds = r.config.MemberTTL.Seconds()
		o.Replicas = r.member.overview(ctx)
	} else {
		o.Replicas = []api.ReplicaStatus{{Replica: r.id, Phase: cluster.Serving.String(), Link: "self"}}
	}
	for i := range o.Replicas {
		if o.Replicas[i].Link == "self" {
			report := r.report()
			o.Replicas[i].Report = &report
		}
	}
	shared, err := r.sharedOverview(ctx, workspace)
	if o.Shared = shared; err != nil {
		o.SharedError = err.Error()
	}
	return o
}

// runbooks is where the pages of a release are: the same place the alerts lead to. A build
// that is no release has the newest ones.
func runbooks(version string) string {
	if release := strings.TrimPrefix(version, "v"); released.MatchString(release) {
		return "https://maestrohub.io/uns/v" + release + "/runbooks"
	}
	return "https://maestrohub.io/uns/runbooks"
}

var released = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// overview asks every member that is linked for its report, all at once.
func (m *member) overview(ctx context.Context) []api.ReplicaStatus {
	members, ages := m.member.Members(), m.member.Ages()
	links := make(map[string]mesh.PeerStatus)
	for _, p := range m.mesh.Status().Peers {
		links[p.Replica] = p
	}
	all := make([]api.ReplicaStatus, 0, len(members)+1)
	self := false
	for _, e := range members {
		id := e.Incarnation.Replica
		s := api.ReplicaStatus{Replica: id, Phase: e.Phase.String(), LeaseAgeSeconds: ages[id].Seconds(), Refusing: e.Refusing}
		switch link, known := links[id]; {
		case id == m.r.id:
			s.Link, self = "self", true
		case known && link.Up:
			s.Link, s.WaitingBytes = "up", link.BufferedBytes
		case known:
			s.Link, s.WaitingBytes, s.LinkReason = "down", link.BufferedBytes, link.Reason
		default:
			s.Link = "down"
		}
		all = append(all, s)
	}
	if !self { // it serves nobody now, and says so itself
		all = append(all, api.ReplicaStatus{Replica: m.r.id, Phase: cluster.Fenced.String(), LeaseAgeSeconds: ages[m.r.id].Seconds(), Link: "self"})
	}
	var asked sync.WaitGroup
	for i := range all {
		if s := &all[i]; s.Link != "self" {
			asked.Go(func() {
				raw, err := m.mesh.Report(ctx, s.Replica)
				if err == nil {
					err = json.Unmarshal(raw, &s.Report)
				}
				if err != nil {
					s.Report, s.ReportError = nil, err.Error()
				}
			})
		}
	}
	asked.Wait()
	return all
}

// reported is the report as it goes over the mesh.
func (r *Replica) reported() []byte {
	b, err := json.Marshal(r.report())
	if err != nil {
		r.log.Error("broker cluster: the report of this replica cannot be written", "error", err)
	}
	return b
}

// report is what this replica says of itself.
func (r *Replica) report() api.Report {
	status := r.status()
	b := &status.Broker
	rep := api.Report{Replica: r.id, At: time.Now().UTC(), Version: r.version, Started: b.Started, Ready: true, Historian: b.Historian,
		Clients: b.Clients.Connected, Retained: b.Retained, Store: api.StoreStatus{Kind: "memory"}}
	if err := r.unready(); err != nil {
		rep.Ready, rep.Reason = false, err.Error()
	}
	if m := r.member; m != nil {
		now := time.Now()
		rep.Store = api.StoreStatus{Kind: "jetstream", RoundTripSeconds: m.fresh.RoundTrip().Seconds(), SilentSeconds: m.fresh.Unreachable(now).Seconds()}
		rep.LinksUp, rep.LinksExpected = m.mesh.Status().LinksUp, m.linksExpected()
	}
	rep.Counters, rep.Limits = r.figures()
	return rep
}

// linksExpected is how many links there should be: one to each other member that serves.
func (m *member) linksExpected() (n int) {
	for _, e := range m.member.Members() {
		if e.Incarnation.Replica != m.r.id && e.Phase == cluster.Serving {
			n++
		}
	}
	return n
}

// sharedOverview reads what all replicas share, or repeats what was read a moment ago.
func (r *Replica) sharedOverview(ctx context.Context, workspace string) (*api.Shared, error) {
	r.overviews.mu.Lock()
	defer r.overviews.mu.Unlock()
	if last := r.overviews.last[workspace]; last.shared != nil && time.Since(last.at) < overviewAge {
		return last.shared, nil
	}
	o, err := r.server.Overview(ctx, workspace)
	if err != nil {
		return nil, err
	}
	s := &api.Shared{Owners: o.Owners, Persistent: o.Persistent, Offline: o.Offline, MaxOffline: r.config.Limits.MaxOfflineSessions,
		WillsWaiting: o.WillsWaiting, Sessions: []api.SharedSession{}, Logs: []api.SharedLog{}}
	if r.member == nil {
		s.Owners = map[string]int{r.id: o.Owners[""]}
	}
	for _, session := range listed(o.Sessions) {
		s.Sessions = append(s.Sessions, r.sharedSession(&session))
	}
	for _, l := range o.Logs {
		log := api.SharedLog{Workspace: l.Workspace, MaxBytes: l.Most}
		if l.Bytes >= 0 {
			log.Bytes = &l.Bytes
		}
		s.Logs = append(s.Logs, log)
	}
	if r.overviews.last == nil {
		r.overviews.last = make(map[string]sharedOverview)
	}
	r.overviews.last[workspace] = sharedOverview{time.Now(), s}
	return s, nil
}

// listed are the sessions an overview lists, of all in their order. One without a
// subscription reads nothing: it must not push those out that have something to read.
func listed(all []server.SessionOverview) []server.SessionOverview {
	slices.SortStableFunc(all, func(a, b server.SessionOverview) int {
		return cmp.Compare(min(b.Subscriptions, 1), min(a.Subscriptions, 1))
	})
	return all[:min(len(all), api.MaxSessions)]
}

func (r *Replica) sharedSession(o *server.SessionOverview) api.SharedSession {
	s := api.SharedSession{ClientID: o.ClientID, Client: o.Identity, Replica: o.Replica, Unfinished: o.Unfinished, Missed: o.Missed, Subscriptions: o.Subscriptions}
	if !o.Unknown && o.Subscriptions > 0 {
		s.Behind = &o.Behind
	}
	if !o.Expires.IsZero() {
		at := o.Expires.UTC()
		s.Expires = &at
	} else if r.member == nil {
		s.Replica = r.id
	}
	return s
}

// figures reads the counters and the limits with their use.
func (r *Replica) figures() (api.Counters, []api.LimitStatus) {
	f := gather(r)
	acked := func(direction, one, two string) (by [3]float64) {
		other := map[string]string{"received": "sent", "sent": "received"}[direction]
		publish := f.of("uns_broker_packets_"+direction+"_total", "publish")
		back := "uns_broker_packets_" + other + "_total"
		by[1], by[2] = f.of(back, one), f.of(back, two)
		// Every QoS 2 PUBLISH has a PUBREC, so what has neither is QoS 0; one that waits for
		// its acknowledgment counts as such until it has it.
		by[0] = max(0, publish-by[1]-f.of(back, "pubrec"))
		return by
	}
	c := api.Counters{
		Received: acked("received", "puback", "pubcomp"), Delivered: acked("sent", "puback", "pubcomp"),
		Stored:          f.of("uns_ingest_values_accepted_total", ""),
		ConnectsRefused: f.by("uns_broker_connect_refused_total"), ValuesRefused: f.by("uns_ingest_values_refused_total"),
		Disconnected:   f.by("uns_broker_disconnects_total"),
		WillsPublished: f.of("uns_broker_wills_published_total", ""), WillsWithheld: f.of("uns_broker_wills_withheld_total", ""),
		Dropped: f.of("uns_broker_messages_dropped_total", ""), Missed: f.of("uns_broker_session_log_values_missed_total", ""),
		MeshLost: f.of("uns_broker_cluster_mesh_values_lost_total", ""), RoutesLate: f.of("uns_broker_subscribe_index_wait_timeouts_total", ""),
	}
	l := &r.config.Limits
	limits := []api.LimitStatus{
		{Name: "maxClients", Used: int64(f.of("uns_broker_clients_connected", "")), Maximum: int64(l.MaxClients)},
		{Name: "maxPendingConnections", Used: int64(f.of("uns_broker_connections_pending", "")), Maximum: int64(l.MaxPendingConnections)},
		{Name: "maxConnectsAuthenticating", Used: int64(f.of("uns_broker_connects_authenticating", "")), Maximum: int64(l.MaxConnectsAuthenticating)},
	}
	return c, limits
}

// families are the metrics as they are now: by name without the prefix, and by the value
// of their one label.
type families map[string]map[string]float64

func gather(r *Replica) families {
	all, err := r.metrics.Gatherer().Gather()
	if err != nil {
		r.log.Error("embedded broker: the metrics cannot be read", "error", err)
	}
	f := make(families, len(all))
	for _, family := range all {
		by := make(map[string]float64)
		for _, m := range family.GetMetric() {
			label := ""
			if pairs := m.GetLabel(); len(pairs) == 1 {
				label = pairs[0].GetValue()
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				by[label] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				by[label] = m.GetGauge().GetValue()
			}
		}
		f[strings.TrimPrefix(family.GetName(), "maestrohub_")] = by
	}
	return f
}

// of is one metric's value; a name that does not exist is a fault of this file, which
// its test finds.
func (f families) of(name, label string) float64 {
	by, ok := f[name]
	if !ok {
		panic(fmt.Sprintf("no metric %q", name))
	}
	return by[label]
}

// by are the values of a metric that are not zero, by its label.
func (f families) by(name string) map[string]float64 {
	out := make(map[string]float64)
	for label, v := range f[name] {
		if v != 0 {
			out[label] = v
		}
	}
	return out
}
