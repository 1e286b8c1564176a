package backup_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// page is the runbook whose commands are run here.
const page = "../../runbooks/backup-and-restore.md"

// commands are those of the page below a heading, up to the next.
func commands(t *testing.T, heading string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	for _, part := range strings.Split(rest, "```sh ")[1:] {
		_, body, _ := strings.Cut(part, "\n")
		body, _, _ = strings.Cut(body, "```")
		blocks = append(blocks, body)
	}
	return blocks
}

// deprecated are the page's commands as nats command lines before 0.5 have them.
func deprecated(script string) string {
	return strings.NewReplacer("nats backup stream", "nats stream backup", "nats backup restore stream", "nats stream restore").Replace(script)
}

// TestTheProcedureOfThePage: saved while devices publish, NATS lost, restored by the
// commands of the page.
func TestTheProcedureOfThePage(t *testing.T) {
	c := start(t)
	c.context(t)
	dir := filepath.Join(t.TempDir(), "saved")
	save, bring := commands(t, "### Save")[0], commands(t, "### Bring back")

	away := c.subscriber(t, "away", "page/#", 1)
	exact := c.subscriber(t, "exact", "page/#", 2)
	c.publish(t, "page/x", 2, "1", "2")
	expect(t, "away", away, "1", "2")
	expect(t, "exact", exact, "1", "2")
	away.Close()
	exact.Close()
	c.publish(t, "page/x", 1, "3", "4", "5")
	c.publish(t, "retained/level", 1, "77")
	// A QoS 2 publish whose handshake is open: the device has the PUBREC.
	sender, _ := c.resume(t, 1, "sender")
	open := mqtt.Publish{QoS: 2, PacketID: 7, Topic: []byte(harness.Inbox("device", "page/once")), Payload: []byte("6")}
	sender.Send(open.Append(nil, mqtt.V5))
	sender.Expect(mqtt.PUBREC)
	sender.Close()
	// A device with a will that is connected throughout.
	willing := c.brokers[0].ConnectAs("device", "willing")
	willing.CleanStart, willing.SessionExpiry = false, 3000
	willing.Will = &mqtt.Will{Topic: harness.Inbox("device", "wills/willing"), Payload: []byte(`"lost"`), QoS: 1}
	c.brokers[0].Dial(t).Connect(willing)
	secret := c.addClient(t, "made-while-running")

	stop := c.publishOn(t)
	c.script(t, dir, deprecated(save))
	if n := stop(); n == 0 {
		t.Error("nothing was published while the backup was taken")
	}
	c.publish(t, "page/x", 1, "7") // after the backup: in no log, and in history

	c.wipe(t)
	for i := range c.Replicas {
		took, reason := c.awaitNotReady(t, i)
		t.Logf("%s is not ready %v after NATS came back empty: %s", c.Replicas[i].ID, took.Round(100*time.Millisecond), strings.TrimSpace(reason))
	}
	// No entry is left, but the processes live.
	if out, err := c.broker(t, "backup", "restore", dir); err == nil || !strings.Contains(out, "replicas run (uns-0 and uns-1): stop all replicas first") {
		t.Errorf("a restore while fenced replicas run: %v; it printed:\n%s", err, out)
	}
	// Somebody restarts the replicas before anybody thinks of the backup.
	c.stopReplicas(t)
	c.startReplicas(t)
	if _, present := c.resume(t, 0, "away"); present {
		t.Error("after the loss a session is present")
	}
	c.stopReplicas(t)
	c.script(t, dir, bring[0])
	c.script(t, dir, deprecated(bring[1]))
	restored := time.Now()
	c.startReplicas(t)
	for _, r := range c.Replicas {
		if !strings.Contains(r.Output(), "broker cluster: joined") {
			t.Errorf("%s does not say that it joined", r.ID)
		}
	}

	away, present := c.resume(t, 1, "away")
	if !present {
		t.Fatal("after the restore away's session is not present")
	}
	expect(t, "away", away, "3", "4", "5", "6")
	exact, _ = c.resume(t, 0, "exact")
	expect(t, "exact", exact, "3", "4", "5", "6")
	// The device sends again what it has no PUBCOMP for: it is forwarded once.
	sender, present = c.resume(t, 0, "sender")
	if !present {
		t.Error("after the restore sender's session is not present")
	}
	open.Dup = true
	sender.Send(open.Append(nil, mqtt.V5))
	sender.Expect(mqtt.PUBREC)
	sender.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBREL, 7, 0))
	sender.Expect(mqtt.PUBCOMP)
	c.publish(t, "page/x", 1, "8")
	expect(t, "exact", exact, "8")
	expect(t, "away", away, "8")

	watcher := c.brokers[1].Client(t, "device", "watcher")
	watcher.Subscribe(harness.Data("retained/#"), 1)
	expect(t, "who subscribes to the retained topic", watcher, "77")
	watcher.Subscribe(harness.Data("wills/#"), 1)
	if got := string(watcher.Receive().Payload); got != `"lost"` {
		t.Errorf("received %s, want the will of the device that stays away", got)
	}
	t.Logf("the will of a device that stays away came %v after the restore, with a grace of %v", time.Since(restored).Round(100*time.Millisecond), grace)
	connect := c.brokers[0].ConnectAs("device", "made-while-running")
	connect.Username, connect.Password = "made-while-running", []byte(secret)
	c.brokers[0].Dial(t).Connect(connect)

	var history []string
	for _, row := range c.brokers[0].History(t, "device", "page/x") {
		history = append(history, string(row.Value))
	}
	if want := []string{"1", "2", "3", "4", "5", "7", "8"}; !slices.Equal(history, want) {
		t.Errorf("history has %v, want %v: what was published after the backup is there", history, want)
	}
	watcher.ExpectNothing()
}

// addClient makes an API client while the broker runs and returns its secret.
func (c *cluster) addClient(t *testing.T, id string) string {
	t.Helper()
	status, body := c.brokers[0].Do(t, "admin", http.MethodPost, "/api/v1/api-clients", map[string]any{"id": id, "workspace": harness.Workspace})
	var made struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal(body, &made); err != nil || made.Secret == "" {
		t.Fatalf("making an API client answered %d: %s", status, body)
	}
	return made.Secret
}

// publishOn publishes until it is stopped, for a session that wants it.
func (c *cluster) publishOn(t *testing.T) (stop func() int) {
	t.Helper()
	c.subscriber(t, "load", "load/#", 1).Close()
	p := c.brokers[0].Client(t, "device", "loader")
	end := make(chan struct{})
	var published int
	var done sync.WaitGroup
	done.Go(func() {
		for id := uint16(1); ; id = id%65000 + 1 {
			select {
			case <-end:
				return
			default:
			}
			m := mqtt.Publish{QoS: 1, PacketID: id, Topic: []byte(harness.Inbox("device", "load/x")), Payload: []byte(fmt.Sprint(published))}
			if _, err := p.Write(m.Append(nil, mqtt.V5)); err != nil {
				return
			}
			if ack, err := p.Next(harness.Patience); err != nil || ack.Type != mqtt.PUBACK {
				return
			}
			published++
		}
	})
	return func() int {
		close(end)
		done.Wait()
		return published
	}
}

// TestACursorThatFitsNoLog: logs saved before cursors, and a log whose beginning is gone.
func TestACursorThatFitsNoLog(t *testing.T) {
	c := start(t)
	c.context(t)
	dir := filepath.Join(t.TempDir(), "saved")
	must(t, os.Mkdir(dir, 0o700))
	js := c.jetStream(t)

	gap := c.subscriber(t, "gap", "fit/#", 1)
	ahead := c.subscriber(t, "ahead", "fit/#", 1)
	c.publish(t, "fit/x", 1, "1", "2")
	expect(t, "gap", gap, "1", "2")
	gap.Close()
	c.publish(t, "fit/x", 1, "3", "4", "5")
	log, err := js.Stream(t.Context(), logStream)
	must(t, err)
	dropped := log.CachedInfo().State.LastSeq
	c.publish(t, "fit/x", 1, "6", "7")
	expect(t, "ahead", ahead, "1", "2", "3", "4", "5", "6", "7")
	// The wrong order: the log, then more values, then the cursors beyond its end.
	c.script(t, dir, fmt.Sprintf(`nats backup stream %s "$DIR/whole"`, logStream))
	c.publish(t, "fit/x", 1, "8", "9")
	expect(t, "ahead", ahead, "8", "9")
	ahead.Close()
	c.stopReplicas(t)
	c.script(t, dir, fmt.Sprintf(`
for s in KV_mqtt-session-cursor KV_mqtt-session-state KV_mqtt-session-will KV_mqtt-session-qos2 KV_mqtt-retained KV_api-clients KV_mqtt-cluster-floor; do
  nats backup stream "$s" "$DIR/$s"
done
nats backup edit "$DIR/whole" "$DIR/%[1]s" --first-seq %[2]d
rm -r "$DIR/whole"
nats backup validate "$DIR/%[1]s"`, logStream, dropped+1))
	for _, b := range commands(t, "### Bring back") {
		c.script(t, dir, b)
	}
	c.startReplicas(t)

	const series = "maestrohub_uns_broker_session_log_values_missed_total"
	before := c.brokers[0].Metric(t, series)
	gap, present := c.resume(t, 0, "gap")
	if !present {
		t.Fatal("gap's session is not present")
	}
	expect(t, "gap", gap, "6", "7")
	if missed := c.brokers[0].Metric(t, series) - before; missed == 0 {
		t.Error("a session whose cursor is older than the restored log missed nothing, by the metric")
	} else {
		t.Logf("three values were missed; counted: %v", missed)
	}
	const line = "broker cluster: a persistent session's cursor is not a position in its session log any more — "
	ahead, present = c.resume(t, 1, "ahead")
	if !present {
		t.Fatal("ahead's session is not present")
	}
	expect(t, "ahead", ahead, "6", "7")
	said := func(i int, client string) bool {
		return slices.ContainsFunc(strings.Split(c.Replicas[i].Output(), "\n"), func(l string) bool {
			return strings.Contains(l, line) && strings.Contains(l, "client_id="+client+" ")
		})
	}
	if !said(1, "ahead") {
		t.Errorf("uns-1 does not say of ahead: %s", line)
	}
	if said(0, "gap") {
		t.Error("uns-0 says that gap's cursor is no position: it is, the log begins after it")
	}
	c.publish(t, "fit/x", 1, "10")
	expect(t, "gap", gap, "10")
	expect(t, "ahead", ahead, "10")
}

// TestAnAccountBackupWithoutCursors: saved by the nats command line, restored by ours,
// which refuses until it may; the cursors are lost.
func TestAnAccountBackupWithoutCursors(t *testing.T) {
	c := start(t)
	c.context(t)
	dir := filepath.Join(t.TempDir(), "saved")
	live := c.subscriber(t, "live", "account/#", 1)
	c.publish(t, "account/x", 1, "1")
	expect(t, "live", live, "1")
	live.Close()
	c.publish(t, "account/x", 1, "2", "3")
	c.script(t, dir, `nats backup account "$DIR" --force`)
	out, err := c.broker(t, "backup", "check", dir)
	if err != nil {
		t.Fatalf("check of an account backup: %v\n%s", err, out)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := c.broker(t, append([]string{"backup", "restore", dir}, args...)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("restore %v: %v; it printed:\n%swant %q in it", args, err, out, want)
		}
	}
	refused("replicas run (uns-0 and uns-1)")
	c.stopReplicas(t)
	refused("already, and a stream is only restored where there is none")
	must(t, os.RemoveAll(filepath.Join(dir, "KV_mqtt-session-cursor")))
	refused("KV_mqtt-session-cursor: sessions would be fed live only", "--replace")
	c.script(t, dir, `nats stream rm KV_mqtt-session-cursor -f`)
	if out, err := c.broker(t, "backup", "restore", dir, "--replace", "--partial"); err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	c.startReplicas(t)
	live, present := c.resume(t, 1, "live")
	if !present {
		t.Fatal("the session is not present")
	}
	live.ExpectNothing()
	c.publish(t, "account/x", 1, "4")
	expect(t, "live", live, "4")
}

// TestOurBackupIsTheCommandLines: saved by ours, restored as an account by the nats
// command line; and by ours, after the replicas were killed.
func TestOurBackupIsTheCommandLines(t *testing.T) {
	c := start(t)
	c.context(t)
	root := t.TempDir()
	away := c.subscriber(t, "ours", "ours/#", 1)
	c.publish(t, "ours/x", 1, "1")
	expect(t, "ours", away, "1")
	away.Close()
	c.publish(t, "ours/x", 1, "2", "3")
	for n := range 2 {
		if n > 0 { // folders are named for the second
			<-time.After(time.Second)
		}
		if out, err := c.broker(t, "backup", "save", "--root", root, "--keep", "1"); err != nil {
			t.Fatalf("save: %v\n%s", err, out)
		}
	}
	saved, err := filepath.Glob(filepath.Join(root, "broker-backup-*Z"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("there are %v (%v), want one backup of two: --keep 1", saved, err)
	}
	dir := saved[0]
	out, err := c.broker(t, "backup", "check", dir)
	if err != nil {
		t.Fatalf("check: %v\n%s", err, out)
	}
	t.Log(out)
	c.script(t, dir, `for d in "$DIR"/*/; do nats backup validate "$d"; done`)
	c.stopReplicas(t)
	c.script(t, dir, commands(t, "### Bring back")[0])
	// The command asks for the next stream before every server knows of it, and ends with "no responders"
	// now and then: then what it has restored is removed, and it is given again.
	c.script(t, dir, `for try in 1 2 3; do
  nats backup restore account "$DIR" && break
  [ "$try" -lt 3 ]
  for stream in $(nats stream ls --names); do nats stream rm "$stream" -f; done
done`)
	c.startReplicas(t)
	away, _ = c.resume(t, 1, "ours")
	expect(t, "ours", away, "2", "3")
	away.Close()

	for _, r := range c.Replicas {
		r.Kill()
	}
	if out, err := c.broker(t, "backup", "restore", filepath.Join(root, "latest"), "--replace"); err != nil {
		t.Fatalf("restore after a kill, which waits for the entries to expire: %v\n%s", err, out)
	}
	c.startReplicas(t)
	away, present := c.resume(t, 0, "ours")
	if !present {
		t.Fatal("the session is not present")
	}
	expect(t, "ours", away, "2", "3")
}
