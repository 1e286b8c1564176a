package api

import (
	"context"
	"net/http"
	"time"
)

// Overview is the answer of GET /api/v1/system/uns/broker: what the MQTT Broker page
// shows. Figures of a replica are in its own Report; what all replicas share is in
// Shared and was read from the store by Replica.
type Overview struct {
	At      time.Time `json:"at"`
	Replica string    `json:"replica"` // who answers
	// Runbooks is where the runbooks of this release are, for links.
	Runbooks string `json:"runbooks"`
	// MemberTTLSeconds is memberTTL (T), which every figure of membership follows from.
	// 0 on a single node.
	MemberTTLSeconds float64 `json:"memberTTLSeconds"`
	// Expected is how many replicas the configuration of the one that answers says there
	// are: one that is gone is no member any more and is missed by this alone.
	Expected    int             `json:"expected"`
	Replicas    []ReplicaStatus `json:"replicas"`
	Shared      *Shared         `json:"shared"` // null: it could not be read, as SharedError says
	SharedError string          `json:"sharedError,omitempty"`
}

// ReplicaStatus is one member as the replica that answers sees it.
type ReplicaStatus struct {
	Replica string `json:"replica"`
	// Phase is starting, serving, fenced or stopping.
	Phase string `json:"phase"`
	// LeaseAgeSeconds is for how long its lease was not renewed: gone from 1.5 T on.
	LeaseAgeSeconds float64 `json:"leaseAgeSeconds"`
	// Refusing: it refuses CONNECTs because the shared stores are slow or away.
	Refusing bool `json:"refusing"`
	// Link is self, up or down; LinkReason says why it is down.
	Link       string `json:"link"`
	LinkReason string `json:"linkReason,omitempty"`
	// WaitingBytes are live values that wait for the link, of the 64 MiB it may be.
	WaitingBytes int `json:"waitingBytes"`
	// Report is what it says of itself; null if it did not answer, as ReportError says.
	Report      *Report `json:"report"`
	ReportError string  `json:"reportError,omitempty"`
}

// Report is what a replica says of itself.
type Report struct {
	Replica string    `json:"replica"`
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Ready   bool      `json:"ready"`
	Reason  string    `json:"reason,omitempty"`
	// LinksUp of LinksExpected: one to each other member that serves.
	LinksUp       int             `json:"linksUp"`
	LinksExpected int             `json:"linksExpected"`
	Store         StoreStatus     `json:"store"`
	Historian     HistorianStatus `json:"historian"`
	Clients       int             `json:"clients"`
	Retained      int             `json:"retained"`
	Limits        []LimitStatus   `json:"limits"`
	Counters      Counters        `json:"counters"`
}

// StoreStatus is how the shared stores answer this replica.
type StoreStatus struct {
	// Kind is memory (a single node) or jetstream.
	Kind string `json:"kind"`
	// RoundTripSeconds is what the last write that was confirmed took.
	RoundTripSeconds float64 `json:"roundTripSeconds"`
	// SilentSeconds is for how long no write was confirmed.
	SilentSeconds float64 `json:"silentSeconds"`
}

// LimitStatus is a limit and how much of it is used. Name is the configuration's.
type LimitStatus struct {
	Name    string `json:"name"`
	Used    int64  `json:"used"`
	Maximum int64  `json:"maximum"`
	Unit    string `json:"unit,omitempty"` // bytes, or none for a number of things
}

// Counters only grow while a replica runs; two answers make a rate. The arrays are by
// QoS.
type Counters struct {
	Received  [3]float64 `json:"received"`  // publishes: QoS 0 received, QoS 1 and 2 acknowledged
	Delivered [3]float64 `json:"delivered"` // deliveries: QoS 0 sent, QoS 1 and 2 acknowledged
	Stored    float64    `json:"stored"`
	// ConnectsRefused, ValuesRefused and Disconnected are by reason, as the metrics name them.
	ConnectsRefused map[string]float64 `json:"connectsRefused"`
	ValuesRefused   map[string]float64 `json:"valuesRefused"`
	Disconnected    map[string]float64 `json:"disconnected"`
	WillsPublished  float64            `json:"willsPublished"`
	WillsWithheld   float64            `json:"willsWithheld"`
	Dropped         float64            `json:"dropped"` // from full subscriber queues
	Missed          float64            `json:"missed"`  // by persistent sessions, from the log
	MeshLost        float64            `json:"meshLost"`
	RoutesLate      float64            `json:"routesLate"`
}

// Shared is what all replicas share.
type Shared struct {
	// Owners counts, by replica, the client identifiers it holds a connection of.
	Owners map[string]int `json:"owners"`
	// Persistent counts persistent sessions of all workspaces, Offline those without a
	// connection, of at most MaxOffline that have been so for long.
	Persistent   int `json:"persistent"`
	Offline      int `json:"offline"`
	MaxOffline   int `json:"maxOffline"`
	WillsWaiting int `json:"willsWaiting"`
	// Sessions are the persistent ones of the caller's workspace, those furthest behind
	// first and those without a subscription last, MaxSessions at most.
	Sessions []SharedSession `json:"sessions"`
	Logs     []SharedLog     `json:"logs"`
}

// MaxSessions is how many sessions an Overview lists.
const MaxSessions = 200

// SharedSession is one persistent session.
type SharedSession struct {
	ClientID string `json:"clientId"`
	Client   string `json:"client"` // the API client it belongs to
	// Replica holds its connection; absent while it has none.
	Replica string `json:"replica,omitempty"`
	// Behind is about how many entries of its log it has not read; null if it has no
	// stored position, or no subscription and so reads none.
	Behind        *uint64    `json:"behind"`
	Unfinished    int        `json:"unfinished"`
	Missed        uint64     `json:"missed"`
	Expires       *time.Time `json:"expires,omitempty"`
	Subscriptions int        `json:"subscriptions"`
}

// SharedLog is one workspace's session log; null bytes are not known.
type SharedLog struct {
	Workspace string `json:"workspace"`
	Bytes     *int64 `json:"bytes"`
	MaxBytes  int64  `json:"maxBytes"`
}

// overviewBound is how long an overview may take: a replica or store that does not
// answer by then is shown as such.
const overviewBound = 2 * time.Second

func (a *API) overview(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	ctx, cancel := context.WithTimeout(r.Context(), overviewBound)
	defer cancel()
	writeJSON(w, http.StatusOK, a.o.Overview(ctx, c.workspace()))
	return nil
}
