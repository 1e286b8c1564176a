package api

import (
	"net/http"
	"sort"
	"time"
)

// Connection is one MQTT client connected to this replica.
type Connection struct {
	// ClientID is the MQTT client identifier, Client the API client's id.
	ClientID      string    `json:"clientId"`
	Client        string    `json:"client"`
	Protocol      string    `json:"protocol"`
	Listener      string    `json:"listener,omitempty"`
	Address       string    `json:"address,omitempty"`
	Connected     time.Time `json:"connected"`
	CleanSession  bool      `json:"cleanSession"`
	Subscriptions int       `json:"subscriptions"`
}

func (a *API) connections(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	workspace, refused := c.inWorkspace(r)
	if refused != nil {
		return refused
	}
	if q := newQuery(r); q.refused != nil {
		return q.refused
	}
	body := struct {
		Connections []Connection `json:"connections"`
	}{Connections: []Connection{}}
	for _, connection := range a.o.Connections(workspace) {
		if c.seesAll() || connection.Client == c.id() {
			body.Connections = append(body.Connections, connection)
		}
	}
	sort.Slice(body.Connections, func(i, j int) bool { return body.Connections[i].ClientID < body.Connections[j].ClientID })
	writeJSON(w, http.StatusOK, body)
	return nil
}
