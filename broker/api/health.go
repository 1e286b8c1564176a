package api

import (
	"net/http"
	"regexp"
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
		writeJSON(w, http.StatusServiceUnavailable, health{Status: "unready", Reason: publicReason(err)})
		return
	}
	writeJSON(w, http.StatusOK, health{Status: "ready"})
}

func reason(err error) string {
	return NotReadyPrefix + strings.TrimPrefix(err.Error(), NotReadyPrefix)
}

// publicReason is for anybody who asks: file names, addresses of servers and what a
// library attached in further lines are left to the log.
func publicReason(err error) string {
	text, _, _ := strings.Cut(reason(err), "\n")
	return places.ReplaceAllString(text, "$1(see the log)")
}

// places are URLs, paths from the root and numeric addresses with a port.
var places = regexp.MustCompile(`(^|[\s"'(=])(?:[a-z][a-z0-9+.-]*://[^\s"')]*|/[^\s"':,;)]+|(?:\d+\.){3}\d+(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)`)
