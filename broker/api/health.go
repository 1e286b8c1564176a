package api

import (
	"net/http"
	"strings"
)

// NotReadyPrefix begins the reason of every 503 of /health/ready, by which
// operators and alerts know it.
const NotReadyPrefix = "broker-cluster-store: "

type health struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// live depends on nothing: a restart cures no outage of a store.
func (a *API) live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, health{Status: "live"})
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.o.Ready(); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, health{Status: "unready", Reason: reason(err)})
		return
	}
	writeJSON(w, http.StatusOK, health{Status: "ready"})
}

func reason(err error) string {
	return NotReadyPrefix + strings.TrimPrefix(err.Error(), NotReadyPrefix)
}
