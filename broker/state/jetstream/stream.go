package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/broker/state"
)

// bucketConfig is the stream of a bucket. Every message of it is republished,
// which is how it is watched. There is no SubjectDeleteMarkerTTL: its markers can
// remove a newer acknowledged write. Tombstones expire by a TTL of their own
// instead. Direct gets are allowed for listings, which are read by batch; a
// single record is always asked of the leader.
func (s *Store) bucketConfig(name string) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:               state.BucketStream + name,
		Subjects:           []string{bucketPrefix + name + ".>"},
		Storage:            jetstream.FileStorage,
		Replicas:           s.options.Replicas,
		MaxMsgsPerSubject:  1,
		Discard:            jetstream.DiscardNew,
		DenyDelete:         true,
		AllowRollup:        true, // `nats kv purge` uses it
		AllowDirect:        true,
		AllowMsgTTL:        true,
		AllowAtomicPublish: true,
		Duplicates:         dedupe,
		RePublish:          &jetstream.RePublish{Source: bucketPrefix + name + ".>", Destination: watchPrefix + name + ".>"},
	}
	if name == state.Members {
		cfg.MaxAge = s.options.MemberTTL
		cfg.Duplicates = min(dedupe, cfg.MaxAge)
	}
	return cfg
}

// logConfig is the stream of a session log.
func (s *Store) logConfig(workspaceID string) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:               state.LogStream + workspaceID,
		Subjects:           []string{logPrefix + workspaceID + ".>"},
		Storage:            jetstream.FileStorage,
		Replicas:           s.options.Replicas,
		Discard:            jetstream.DiscardOld,
		MaxBytes:           -1,
		MaxAge:             s.options.LogMaxAge,
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Duplicates:         dedupe,
		RePublish:          &jetstream.RePublish{Source: logPrefix + workspaceID + ".>", Destination: tailPrefix + workspaceID + ".>"},
	}
	if s.options.LogMaxBytes > 0 {
		cfg.MaxBytes = s.options.LogMaxBytes
	}
	if cfg.MaxAge > 0 {
		cfg.Duplicates = min(dedupe, cfg.MaxAge)
	}
	return cfg
}

type streamInfo struct {
	Config jetstream.StreamConfig `json:"config"`
	State  struct {
		Messages uint64 `json:"messages"`
		Bytes    int64  `json:"bytes"`
		First    uint64 `json:"first_seq"`
		Last     uint64 `json:"last_seq"`
	} `json:"state"`
}

// stampKey is the metadata that tells a stream from another one of its name that was made
// later: a random word, given at its creation. Settings do not change it, and a restored
// stream has that of the one that was saved.
const stampKey = "maestrohub.io/stream"

// stamp is "" of a stream that a release before stamps has made, or somebody by hand.
func (i streamInfo) stamp() string { return i.Config.Metadata[stampKey] }

// info asks a stream's leader what it has. ErrNotFound if there is no such stream.
func (c *connection) info(ctx context.Context, stream string) (streamInfo, error) {
	var info streamInfo
	err := c.request(ctx, "$JS.API.STREAM.INFO."+stream, nil, &info)
	if isCode(err, codeStreamNotFound) {
		return info, fmt.Errorf("stream %s: %w", stream, state.ErrNotFound)
	}
	if err == nil && c.met != nil {
		c.met(info)
	}
	return info, err
}

// there is info of a stream that was opened. A server that does not know of it does not
// know yet: one that was just elected to lead the others says so of what is a moment old.
func (c *connection) there(ctx context.Context, stream string) (streamInfo, error) {
	for try := 0; ; try++ {
		info, err := c.info(ctx, stream)
		if !errors.Is(err, state.ErrNotFound) {
			return info, err
		}
		if over := c.rest(ctx, pause(try)); over != nil || try == thereTries {
			return info, fmt.Errorf("%w: %v", state.ErrUnavailable, err)
		}
	}
}

// thereTries bounds how often a stream that was opened is asked for again, two seconds in
// all: one that is not there by then was deleted.
const thereTries = 12

// ensure makes a stream if there is none. One that is there stays as it is.
func (s *Store) ensure(ctx context.Context, cfg jetstream.StreamConfig) (streamInfo, error) {
	cfg.Metadata = map[string]string{stampKey: newID()}
	said := false
	for try := 0; ; try++ {
		info, err := s.shared.info(ctx, cfg.Name)
		if err == nil || !errors.Is(err, state.ErrNotFound) {
			return info, err
		}
		err = s.shared.request(ctx, "$JS.API.STREAM.CREATE."+cfg.Name, cfg, &info)
		var refusal *apiError
		switch {
		case err == nil:
			return info, nil
		case isCode(err, codeStreamExists):
			// Another replica made it meanwhile: with another stamp, if nothing else.
		case errors.As(err, &refusal) && refusal.quota():
			return info, fmt.Errorf("make stream %s: %w: %w", cfg.Name, state.ErrQuota, err)
		case isCode(err, codeNoPeers):
			// A server is down or has not come yet, for which the words differ, and a stream is
			// only made with all its copies.
			if !said {
				said = true
				s.options.Logger.Warn("broker cluster: a stream cannot be made yet", "stream", cfg.Name, "copies", cfg.Replicas, "error", err)
			}
		default:
			return info, fmt.Errorf("make stream %s: %w", cfg.Name, err)
		}
		if over := s.shared.rest(ctx, pause(min(try+2, 10))); over != nil {
			return info, fmt.Errorf("make stream %s: %w: %w (last answer: %w)", cfg.Name, state.ErrUnavailable, over, err)
		}
	}
}

// checkMembers refuses a members' bucket with another TTL.
func (s *Store) checkMembers(info streamInfo) error {
	if info.Config.MaxAge != s.options.MemberTTL {
		return fmt.Errorf("memberTTL is %v and that of the bucket %s %v: it must be the same on every replica; to change it, stop them all and delete the bucket",
			s.options.MemberTTL, state.Members, info.Config.MaxAge)
	}
	return nil
}

// Configure brings every bucket and log there is to this store's options, but
// for the members' TTL, which it checks. It is called by one replica at a time,
// the elected one.
func (s *Store) Configure(ctx context.Context) error {
	if err := s.closed(); err != nil {
		return err
	}
	var wrong []error
	for offset := 0; ; {
		var list struct {
			Total   int          `json:"total"`
			Limit   int          `json:"limit"`
			Streams []streamInfo `json:"streams"`
			Missing []string     `json:"missing"`
		}
		if err := s.shared.request(ctx, "$JS.API.STREAM.LIST", map[string]int{"offset": offset}, &list); err != nil {
			return fmt.Errorf("configure streams: %w", err)
		}
		for _, name := range list.Missing {
			if _, ours := s.wanted(name); ours {
				wrong = append(wrong, fmt.Errorf("configure stream %s: %w: its leader does not answer", name, state.ErrUnavailable))
			}
		}
		for _, info := range list.Streams {
			want, ours := s.wanted(info.Config.Name)
			if !ours {
				continue
			}
			if info.Config.Name == state.BucketStream+state.Members {
				wrong = append(wrong, s.checkMembers(info))
				want.MaxAge, want.Duplicates = info.Config.MaxAge, info.Config.Duplicates
			}
			if sameConfig(info.Config, want) {
				continue
			}
			if err := s.shared.request(ctx, "$JS.API.STREAM.UPDATE."+want.Name, merge(info.Config, want), &streamInfo{}); err != nil {
				wrong = append(wrong, fmt.Errorf("configure stream %s: %w", want.Name, err))
			}
		}
		offset += len(list.Streams)
		if len(list.Streams) == 0 || offset >= list.Total {
			return errors.Join(wrong...)
		}
	}
}

// wanted is the configuration of a stream by its name.
func (s *Store) wanted(stream string) (cfg jetstream.StreamConfig, ours bool) {
	if name, ok := strings.CutPrefix(stream, state.LogStream); ok {
		return s.logConfig(name), true
	}
	if name, ok := strings.CutPrefix(stream, state.BucketStream); ok && ownBucket(name) {
		return s.bucketConfig(name), true
	}
	return cfg, false
}

// ownBucket: the account may hold buckets of others when natsAuth is off.
func ownBucket(name string) bool {
	switch name {
	case state.SessionState, state.SessionCursor, state.SessionWill, state.SessionQoS2, state.Retained, state.ClusterFloor,
		state.Sessions, state.Routes, state.Members, state.APIClients, state.Locks:
		return true
	}
	return false
}

// merge puts what we decide over what a stream has, so that what an operator
// added (placement, metadata, description) stays, and the stream's stamp.
func merge(has, want jetstream.StreamConfig) jetstream.StreamConfig {
	has.Subjects, has.Replicas, has.MaxMsgsPerSubject = want.Subjects, want.Replicas, want.MaxMsgsPerSubject
	has.MaxBytes, has.MaxAge, has.Duplicates, has.Discard = want.MaxBytes, want.MaxAge, want.Duplicates, want.Discard
	has.AllowDirect, has.AllowAtomicPublish = want.AllowDirect, want.AllowAtomicPublish
	has.AllowMsgTTL = has.AllowMsgTTL || want.AllowMsgTTL // cannot be taken back
	has.SubjectDeleteMarkerTTL = 0
	has.RePublish = want.RePublish
	if has.MaxBytes == 0 {
		has.MaxBytes = -1
	}
	return has
}

func sameConfig(has, want jetstream.StreamConfig) bool {
	want = merge(has, want)
	if has.MaxBytes == 0 {
		has.MaxBytes = -1
	}
	a, errA := json.Marshal(has)
	b, errB := json.Marshal(want)
	return errA == nil && errB == nil && string(a) == string(b)
}
