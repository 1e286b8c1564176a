package api

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestAFaultInOneRequestIsAnsweredAndReported(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Status = func() Status { panic("a fault") }
	})
	c := r.client("admin", "plant", ScopeSettings)
	response := r.undocumented(c, "/api/v1/system/uns/settings/status")
	response.want(t, 500, codeInternal)
	if !strings.Contains(log.String(), "a fault") || !strings.Contains(log.String(), "stack=") {
		t.Errorf("the log says %s, want the fault and where it was", log.String())
	}
	if a := r.get(c, "/health/live"); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}
