package api

import (
	"net/http"
	"time"
)

// Status is the answer of GET /api/v1/system/uns/settings/status.
type Status struct {
	Broker BrokerStatus `json:"broker"`
}

// BrokerStatus is what a replica says of itself.
type BrokerStatus struct {
	Mode          string          `json:"mode"`
	Version       string          `json:"version"`
	Started       time.Time       `json:"started"`
	UptimeSeconds int64           `json:"uptimeSeconds"`
	Ready         bool            `json:"ready"`
	Reason        string          `json:"reason,omitempty"`
	Cluster       ClusterStatus   `json:"cluster"`
	Clients       ClientsStatus   `json:"clients"`
	Sessions      SessionsStatus  `json:"sessions"`
	Listeners     []Listener      `json:"listeners"`
	Retained      int             `json:"retained"`
	Historian     HistorianStatus `json:"historian"`
	Model         FileStatus      `json:"model"`
	ClientsFile   FileStatus      `json:"clientsFile"`
}

// ClusterStatus is broker.cluster, the part operators and the MQTT Broker page
// read. The fields after LinksUp appear only when set.
type ClusterStatus struct {
	Replica string `json:"replica"`
	// Mesh is "off" on a single node, else the address of the mesh listener.
	Mesh        string   `json:"mesh"`
	Members     []string `json:"members"`
	MemberCount int      `json:"memberCount"`
	LinksUp     int      `json:"linksUp"`

	// StoreUnreachable says why the shared stores do not answer.
	StoreUnreachable   string `json:"storeUnreachable,omitempty"`
	Fenced             bool   `json:"fenced,omitempty"`
	DuplicateReplicaID bool   `json:"duplicateReplicaId,omitempty"`
	BelowFormatFloor   bool   `json:"belowFormatFloor,omitempty"`
	// SessionLogValuesMissed counts values the log dropped before a session read them.
	SessionLogValuesMissed int64 `json:"sessionLogValuesMissed,omitempty"`
	// SessionLogReadsHeld counts sessions whose log reads wait for the store.
	SessionLogReadsHeld int64 `json:"sessionLogReadsHeld,omitempty"`
}

// ClientsStatus counts connected MQTT clients.
type ClientsStatus struct {
	Connected int `json:"connected"`
	Maximum   int `json:"maximum"`
}

// SessionsStatus counts sessions: persistent ones, those of them offline, and the
// subscriptions of all.
type SessionsStatus struct {
	Persistent    int `json:"persistent"`
	Offline       int `json:"offline"`
	Subscriptions int `json:"subscriptions"`
}

// Listener is one open listener.
type Listener struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// HistorianStatus says whether the historian takes writes, and if not why.
type HistorianStatus struct {
	Kind      string `json:"kind"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"`
}

// FileStatus names a file that is followed and why its last change was not taken.
type FileStatus struct {
	File  string `json:"file"`
	Error string `json:"error,omitempty"`
}

func (a *API) status(w http.ResponseWriter, _ *http.Request, _ caller) *refusal {
	s := a.o.Status()
	if err := a.o.Ready(); err != nil {
		s.Broker.Reason = reason(err)
	} else {
		s.Broker.Ready = true
	}
	writeJSON(w, http.StatusOK, s)
	return nil
}
