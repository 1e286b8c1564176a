package jetstream_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/broker/state/statetest"
)

const (
	logMaxBytes = 256 << 10
	memberTTL   = 5 * time.Second
)

func logBounds(o *jetstream.Options) { o.LogMaxBytes, o.MemberTTL = logMaxBytes, memberTTL }

func TestThreeServersKeepTheLaws(t *testing.T) {
	statetest.Run(t, opener(logBounds), statetest.Options{LogMaxBytes: logMaxBytes, LogOverhead: 64, MembersTTL: memberTTL, Patience: 20 * time.Second})
}

// dropStreams deletes what a test left, so that the servers have only the
// running test's streams to look after.
func dropStreams(t testing.TB, account string) {
	nc, err := nats.Connect(servers(t).Servers[0].URL(account))
	if err != nil {
		return // it has no account left to clean
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.NAMES", nil)
	if err != nil {
		return
	}
	var names struct {
		Streams []string `json:"streams"`
	}
	if json.Unmarshal(m.Data, &names) != nil {
		return
	}
	for _, name := range names.Streams {
		nc.RequestWithContext(ctx, "$JS.API.STREAM.DELETE."+name, nil)
	}
}
