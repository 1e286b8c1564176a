package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/broker/secrets"
	"maestrohub.io/uns/tests/contract"
)

// room is a volume of 1 GiB, of which 80 % are for streams and 8 MiB for other services.
func room(maxFile any) map[string]any {
	return map[string]any{
		"global": map[string]any{"natsAuth": map[string]any{"app": map[string]any{"maxFile": maxFile, "maxStreams": 3}}},
		"nats":   map[string]any{"config": map[string]any{"jetstream": map[string]any{"fileStore": map[string]any{"pvc": map[string]any{"size": "1Gi"}}}}},
	}
}

// client is a user's view of JetStream.
func (c *cluster) client(t *testing.T, user string) natsjs.JetStream {
	t.Helper()
	nc, err := c.sign(t, c.pods[0], c.tls(t, true), user, c.password(t, user))
	must(t, err)
	js, err := natsjs.New(nc, natsjs.WithDefaultTimeout(20*time.Second))
	must(t, err)
	return js
}

// TestOtherServicesLeaveTheBrokerItsRoom: what account APP may store on each server is bounded, whether it reserves it
// or fills it, and BROKER has the rest. A changed bound is taken without a restart.
func TestOtherServicesLeaveTheBrokerItsRoom(t *testing.T) {
	const each = 8 << 20
	c := boot(t, 5, room("8Mi"))
	for _, p := range c.pods {
		p.start(t, "reloader", "nats-server-config-reloader")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	app, broker := c.client(t, "uns"), c.client(t, "uns-broker")
	stream := func(js natsjs.JetStream, name string, bytes int64) error {
		_, err := js.CreateStream(ctx, natsjs.StreamConfig{Name: name, Subjects: []string{name}, Replicas: 3, MaxBytes: bytes, Storage: natsjs.FileStorage})
		return err
	}
	refused := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a refusal: %s", what, err, want)
		}
	}

	// Reserved: three copies of what each server may hold, and not a byte more.
	refused("more than its share", stream(app, "large", each+1), "insufficient storage")
	must(t, stream(app, "share", each))
	refused("anything beyond its share", stream(app, "small", 1<<20), "insufficient storage")
	must(t, app.DeleteStream(ctx, "share"))

	// Filled: a stream without a bound of its own is stopped by the account's, once the servers have told each other of
	// their copies.
	must(t, stream(app, "unbounded", -1))
	must(t, stream(app, "bystander", -1))
	for range each>>20 - 1 {
		if _, err := app.Publish(ctx, "unbounded", make([]byte, 1<<20)); err != nil {
			t.Fatalf("within its share: %v", err)
		}
	}
	var full error
	took := await(t, 30*time.Second, "the account to be full", func() bool {
		_, full = app.Publish(ctx, "unbounded", make([]byte, 64<<10))
		return full != nil
	})
	t.Logf("refused %v after its share was all but full", took.Round(time.Millisecond))
	var refusal *natsjs.APIError
	if !errors.As(full, &refusal) || refusal.ErrorCode != 10002 {
		t.Errorf("beyond its share: %v, want refused for the account's resources (10002)", full)
	}

	// The bound knows no stream from another, which is why the broker's account has none: it would refuse heartbeats.
	await(t, 30*time.Second, "another stream of the full account to be refused as well", func() bool {
		_, err := app.Publish(ctx, "bystander", []byte("x"))
		return errors.As(err, &refusal) && refusal.ErrorCode == 10002
	})

	// Of which the broker notices nothing: it reserves the rest, and appends.
	must(t, stream(broker, "LOG_test", 800<<20))
	if _, err := broker.Publish(ctx, "LOG_test", []byte("x")); err != nil {
		t.Errorf("the broker's append while APP is full: %v", err)
	}

	// Streams are counted too.
	must(t, app.DeleteStream(ctx, "unbounded"))
	must(t, app.DeleteStream(ctx, "bystander"))
	for n := range 3 {
		must(t, stream(app, fmt.Sprint("s", n), 1<<10))
	}
	refused("a fourth stream", stream(app, "s3", 1<<10), "maximum number of streams reached")

	// A changed value reaches the servers by the Secret and the reloader.
	c.installation = install(t, contract.Merged(room("16Mi"), map[string]any{"global": map[string]any{"natsAuth": map[string]any{"app": map[string]any{"maxStreams": 0}}}}), c.secrets)
	for _, p := range c.pods {
		p.project(t, c.files(t))
	}
	await(t, time.Minute, "the larger share", func() bool { return stream(app, "s3", each) == nil })
	for _, s := range c.servers {
		if !s.Running() {
			t.Errorf("%s was restarted", s.Name())
		}
	}
}

// TestTheSharesAreInTheAccountsFile: the default, a number, nothing; one server counts once, five count five times. The
// broker's own account has no bound but the servers'.
func TestTheSharesAreInTheAccountsFile(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		overlay map[string]any
		want    string
	}{
		"default":     {nil, fmt.Sprintf("max_file: %d\n      max_streams: 100", 3*(16*gib/10))},
		"a number":    {contract.At("global.natsAuth.app", map[string]any{"maxFile": "2Gi", "maxStreams": 0}), fmt.Sprintf("max_file: %d\n    }", 3*2*gib)},
		"nothing":     {contract.At("global.natsAuth.app.maxFile", 0), "APP {\n    users"},
		"one server":  {contract.At("global.natsReplicas", 1), fmt.Sprintf("max_file: %d\n", 16*gib/10)},
		"five":        {contract.At("global.natsReplicas", 5), fmt.Sprintf("max_file: %d\n", 5*(16*gib/10))},
		"maxSize set": {contract.At("nats.config.jetstream.fileStore.maxSize", "10Gi"), fmt.Sprintf("max_file: %d\n", 3*gib)},
	} {
		t.Run(name, func(t *testing.T) {
			i := install(t, c.overlay, nil)
			text := string(i.secrets[secrets.Ref{Namespace: "maestrohub-deps", Name: "maestrohub-nats-auth"}].Data["accounts.conf"])
			app := text[strings.Index(text, "  APP {"):strings.Index(text, "  SYS {")]
			if !strings.Contains(app, c.want) {
				t.Errorf("%s\nlacks %q", app, c.want)
			}
			if !strings.Contains(text, "BROKER {\n    jetstream: enabled\n") {
				t.Errorf("BROKER is bounded:\n%s", text)
			}
		})
	}
}
