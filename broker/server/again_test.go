package server

import (
	"context"
	"log/slog"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/value"
)

// A member that was lost is replaced by one that is away and takes from the session log,
// which this replica has had no reason yet to open.
func TestAMessageIsGivenAnewByALogThatNobodyHereHasOpened(t *testing.T) {
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &Server{ctx: ctx, metrics: metrics.New(), log: slog.New(slog.DiscardHandler), workspaces: map[string]*workspace{},
		options: Options{Config: &config.Config{}, Store: store, LogID: func(workspace string) string { return workspace }}}
	s.shared = &shared{server: s}
	w := s.workspace("plant")
	w.wanted.Set("mHv1.0/plant/line", wantedKey{client: "away", share: "all"}, wantedSub{client: "away", key: "all/mHv1.0/plant/line", qos: 1})
	w.redirect([]lostShare{{value: &value.Value{Workspace: "plant", Name: "mHv1.0/plant/line", Topic: "line", QoS: 1, Payload: []byte("1")}, key: "all/mHv1.0/plant/line"}}, "lost")
	log, err := store.Log(t.Context(), "plant")
	if err != nil {
		t.Fatal(err)
	}
	tail := log.Tail(1)
	defer tail.Stop()
	entries, err := tail.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeRecord(entries[0].Data)
	if err != nil || len(v.Shares) != 1 || v.Shares[0].Session != "away" {
		t.Errorf("appended for %+v, %v; want the member that is away", v, err)
	}
}
