package natsserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Leader returns the server that leads a stream, asking over nc.
func (c *Cluster) Leader(ctx context.Context, nc *nats.Conn, stream string) (*Server, error) {
	var answer struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
		Error json.RawMessage `json:"error"`
	}
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, nil)
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("leader of %s: %w", stream, err)
	}
	for _, s := range c.Servers {
		if s.Name == answer.Cluster.Leader {
			return s, nil
		}
	}
	return nil, fmt.Errorf("leader of %s: none; answer %s", stream, m.Data)
}

// StepDown makes a stream's leader hand over, as a server does that is drained.
func (c *Cluster) StepDown(ctx context.Context, nc *nats.Conn, stream string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil); err != nil {
		return fmt.Errorf("leader of %s steps down: %w", stream, err)
	}
	return nil
}
