package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/control"
)

// localClusterOf starts one of two replicas and returns an empty folder, where it listens
// for commands and its program.
func localClusterOf(t *testing.T) (dir, socket, program string) {
	t.Helper()
	dir, program = t.TempDir(), built(t, "localcluster")
	socket = filepath.Join(dir, "s")
	cluster := harness.Program(t, launch.Spec{Name: "localcluster", Path: program,
		Args: []string{"up", "--socket", socket, "--member-ttl", "5s", "--binary", harness.Binary(t)}})
	starting, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := cluster.WaitFor(starting, regexp.MustCompile("Break it")); err != nil {
		t.Fatal(err)
	}
	return dir, socket, program
}

// built is one of the repository's tools.
func built(t *testing.T, name string) string {
	t.Helper()
	path, err := launch.Build("", "./tools/"+name, name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The drill on a real local cluster, as a person does it: by the commands' names.
func TestADrillOnALocalClusterKeepsEveryPromise(t *testing.T) {
	dir, socket, cluster := localClusterOf(t)
	// The check of the local cluster leaves no session, also when it is interrupted.
	check, err := launch.Start(launch.Spec{Name: "localcluster check", Path: cluster, Args: []string{"check", "--socket", socket}})
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, check, "publish on")
	harness.Eventually(t, "the sessions of the check are there", func() (bool, string) {
		list := sessionsOf(t, socket, "check-")
		return len(strings.Fields(list)) == 8, list
	})
	if err := check.Signal(os.Interrupt.(syscall.Signal)); err != nil {
		t.Fatal(err)
	}
	checked, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := check.Wait(checked); err != nil || !strings.Contains(check.Output(), "nothing lost") {
		t.Errorf("localcluster check: %v\n%s", err, check.Output())
	}
	harness.Eventually(t, "no session of the check is left", func() (bool, string) {
		list := sessionsOf(t, socket, "check-")
		return list == "none", list
	})

	drill := built(t, "drill")
	run := func(want int, args ...string) string {
		t.Helper()
		p, err := launch.Start(launch.Spec{Name: "drill", Path: drill, Dir: dir, Args: args})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		err = p.Wait(ctx)
		if ctx.Err() != nil {
			p.Kill()
		}
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatalf("drill %v: %v\n%s", args, err, p.Output())
		}
		if code != want {
			t.Fatalf("drill %v exited %d, want %d:\n%s", args, code, want, p.Output())
		}
		return p.Output()
	}
	said := run(0, "kill", "nats-kill", "mesh-cut", "--cluster="+socket, "--calm", "1s")
	var r Report
	text, err := os.ReadFile(filepath.Join(dir, "drill-report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Promises {
		if p.Verdict != kept {
			t.Errorf("promise %s: %s: %v", p.ID, p.Verdict, p.Evidence)
		}
	}
	if len(r.Faults) != 3 || len(r.Wills) != 1 || !r.Wills[0].Left || sum(r.Acknowledged) == 0 || sum(r.Delivered) == 0 {
		t.Errorf("report: %d faults, wills %v, %d acknowledged, %d delivered\n%s", len(r.Faults), r.Wills, sum(r.Acknowledged), sum(r.Delivered), said)
	}
	t.Logf("%s", said)

	// Interrupted in the middle of a fault, it heals it.
	p, err := launch.Start(launch.Spec{Name: "drill", Path: drill, Dir: dir, Args: []string{"nats-cut", "--cluster=" + socket, "--calm", "1s"}})
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, p, "Cut the replica")
	if err := p.Signal(os.Interrupt.(syscall.Signal)); err != nil {
		t.Fatal(err)
	}
	ending, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := p.Wait(ending); err == nil || !strings.Contains(err.Error(), fmt.Sprint("exit status ", interrupted)) {
		t.Errorf("interrupted, the drill ended with %v, want status %d:\n%s", err, interrupted, p.Output())
	}
	if status, err := control.Ask(t.Context(), socket, "status"); err != nil || strings.Contains(status, "cut") {
		t.Errorf("after an interrupt: %v\n%s", err, status)
	}

	nothingLeft(t, socket)

	// asked starts a drill that asks a person, who is this test.
	asked := func(t *testing.T, faults ...string) *launch.Process {
		t.Helper()
		at := reach(t, socket)
		p := harness.Program(t, launch.Spec{Name: "drill", Path: drill, Dir: dir, Interactive: true, Env: []string{"DRILL_CLIENT=" + at.Client, "DRILL_SECRET=" + at.Secret},
			Args: append(faults, "--mqtt", at.MQTT[0], "--http", strings.Join(at.HTTP, ","), "--calm", "1s", "--out", "asked")})
		return p
	}
	says := func(t *testing.T, p *launch.Process, pattern string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		m, err := p.WaitFor(ctx, regexp.MustCompile(pattern))
		if err != nil {
			t.Fatal(err)
		}
		return m[len(m)-1]
	}
	types := func(t *testing.T, p *launch.Process, line string) {
		t.Helper()
		if err := p.Send(line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	do := func(t *testing.T, words ...string) {
		t.Helper()
		if _, err := control.Ask(t.Context(), socket, words...); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(t *testing.T, p *launch.Process, status int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		err := p.Wait(ctx)
		if want := fmt.Sprint("exit status ", status); status == 0 && err != nil || status != 0 && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Fatalf("the drill ended with %v, want status %d:\n%s", err, status, p.Output())
		}
		nothingLeft(t, socket)
	}

	t.Run("a person breaks what is asked for", func(t *testing.T) {
		p := asked(t, "kill", "stop", "mesh-cut")
		replica := says(t, p, "➜ Kill replica (uns-[0-9])")
		types(t, p, "no")
		says(t, p, `"no" is no answer. Kill replica`)
		do(t, "kill", replica)
		types(t, p, "")
		says(t, p, "➜ Start replica "+replica)
		do(t, "restart", replica)
		types(t, p, "")
		// One who says that it was done and did not is found out.
		replica = says(t, p, "➜ Stop replica (uns-[0-9])")
		types(t, p, "")
		says(t, p, "(?s)➜ Stop replica.*➜ Start replica "+replica)
		types(t, p, "")
		says(t, p, replica+" was not ended: it runs since")
		says(t, p, "➜ Cut the network between the replicas")
		types(t, p, "s")
		says(t, p, "left out: by the person who was asked")
		ends(t, p, 0)
		var r Report
		text, err := os.ReadFile(filepath.Join(dir, "asked.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Faults) != 3 || r.Faults[0].Unseen != "" || r.Faults[1].Unseen == "" || r.Faults[2].Skipped == "" {
			t.Errorf("the report's faults are %+v", r.Faults)
		}
		for _, promise := range r.Promises {
			if promise.ID == "flow" && (promise.Verdict != kept || len(promise.Evidence) != 1) {
				t.Errorf("flow is judged by more than the one fault that was done: %+v", promise)
			}
		}
	})

	interrupt := func(t *testing.T, p *launch.Process) {
		t.Helper()
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("interrupted", func(t *testing.T) {
		for _, phase := range []string{"connecting the devices", "waiting until values flow from each", "➜ Kill replica"} {
			p := asked(t, "kill")
			says(t, p, phase)
			interrupt(t, p)
			says(t, p, "interrupted: what is broken is ended")
			ends(t, p, interrupted)
		}
		// Asked to end a fault, one is told once more what is still broken.
		p := asked(t, "kill")
		replica := says(t, p, "➜ Kill replica (uns-[0-9])")
		do(t, "kill", replica)
		types(t, p, "")
		says(t, p, "➜ Start replica")
		interrupt(t, p)
		says(t, p, "Interrupted: what had not happened yet is not judged")
		do(t, "restart", replica)
		ends(t, p, interrupted)
	})

	t.Run("nobody is there", func(t *testing.T) {
		at := reach(t, socket)
		t.Setenv("DRILL_CLIENT", at.Client)
		t.Setenv("DRILL_SECRET", at.Secret)
		if said := run(failed, "kill", "--mqtt", at.MQTT[0], "--http", at.HTTP[0]); !strings.Contains(said, "nobody is there to break anything: run in a terminal") || strings.Contains(said, "connecting") {
			t.Errorf("without a terminal: %s", said)
		}
		p := asked(t, "kill")
		says(t, p, "➜ Kill replica")
		if err := p.EndInput(); err != nil {
			t.Fatal(err)
		}
		ends(t, p, interrupted)
		if !strings.Contains(p.Output(), "nobody answers any more") {
			t.Errorf("whoever was there has left: %s", p.Output())
		}
	})

	t.Run("bad input is named", func(t *testing.T) {
		if said := run(failed, "explode", "--cluster="+socket); !strings.Contains(said, `no fault "explode"`) {
			t.Errorf("a bad fault: %s", said)
		}
		if said := run(failed); !strings.Contains(said, "which faults? all, or one or more of kill, stop,") {
			t.Errorf("no fault: %s", said)
		}
		if said := run(failed, "kill", "--nosuch"); !strings.Contains(said, "unknown flag: --nosuch; `drill --help`") {
			t.Errorf("a bad flag: %s", said)
		}
		if said := run(failed, "kill", "--cluster="+socket+"-not"); !strings.Contains(said, "no local cluster listens") {
			t.Errorf("no cluster: %s", said)
		}
		if said := run(failed, "kill"); !strings.Contains(said, "--cluster, --kubeconfig, or --mqtt and --http") {
			t.Errorf("nothing named: %s", said)
		}
		at := reach(t, socket)
		for what, c := range map[string]struct{ mqtt, http, secret, want string }{
			"no REST API":      {"127.0.0.1:1", "http://127.0.0.1:1", at.Secret, "127.0.0.1:1: connect: connection refused"},
			"no MQTT":          {"127.0.0.1:1", at.HTTP[0], at.Secret, "127.0.0.1:1: connect: connection refused"},
			"another protocol": {strings.TrimPrefix(at.HTTP[0], "http://"), at.HTTP[0], at.Secret, "is no MQTT|does not answer a CONNECT"},
			"HTTPS, not HTTP":  {at.MQTT[0], strings.Replace(at.HTTP[0], "http", "https", 1), at.Secret, "server gave HTTP response to HTTPS client: without TLS it is http://"},
			"MQTT, not HTTP":   {at.MQTT[0], "http://" + at.MQTT[0], at.Secret, "does not speak HTTP; is it the port of MQTT"},
			"a wrong secret":   {at.MQTT[0], at.HTTP[0], "wrong", "the credential is not valid"},
		} {
			if said := drillFor(t, drill, dir, c.mqtt, c.http, at.Client, c.secret); !regexp.MustCompile(c.want).MatchString(said) {
				t.Errorf("%s: %s", what, said)
			}
		}
		if said := drillFor(t, drill, dir, at.MQTT[0], at.HTTP[0], at.Client, at.Secret, "--tls"); !strings.Contains(said, "the port does not speak TLS") || !strings.Contains(said, at.MQTT[0]) {
			t.Errorf("TLS where there is none: %s", said)
		}
		for what, args := range map[string][]string{
			`--mqtt "broker": must be host:port`:       {"--mqtt", "broker", "--http", "http://127.0.0.1:1"},
			`--http "broker:8080": must be a base URL`: {"--mqtt", "broker:1883", "--http", "broker:8080"},
			`--rate 0: more than 0`:                    {"--rate", "0", "--cluster=" + socket},
			`--calm -1s: not less than 0`:              {"--calm", "-1s", "--cluster=" + socket},
			"--out: open nowhere/x.html: no such":      {"--out", "nowhere/x", "--cluster=" + socket},
			"--ca: open nowhere: no such":              {"--ca", "nowhere", "--cluster=" + socket},
			"--cluster and --kubeconfig: one of them":  {"--kubeconfig", "x", "--cluster=" + socket},
			"--kubeconfig: ":                           {"--kubeconfig", filepath.Join(dir, "none")},
			"--secret-file: open nowhere: no such":     {"--secret-file", "nowhere", "--cluster=" + socket},
		} {
			if said := run(failed, append([]string{"kill"}, args...)...); !strings.Contains(said, what) {
				t.Errorf("%v: %s, want %s", args, said, what)
			}
		}
		old := httptest.NewServer(http.NotFoundHandler())
		defer old.Close()
		if said := drillFor(t, drill, dir, at.MQTT[0], old.URL, at.Client, at.Secret); !strings.Contains(said, "no broker of this release answers there") {
			t.Errorf("a broker that has no overview: %s", said)
		}
		admin := &rest{bases: at.HTTP, client: at.Client, secret: at.Secret, http: http.DefaultClient}
		for lacks, has := range map[string][]string{
			"uns_settings:update": {"api_clients:manage", "uns:read"},
			"api_clients:manage":  {"uns_settings:update", "uns:read"},
			"uns:read":            {"api_clients:manage", "uns_settings:update"},
		} {
			var made struct{ Secret string }
			if err := admin.do(t.Context(), http.MethodPost, "/api/v1/api-clients", map[string]any{"id": "poor", "scopes": has}, &made); err != nil {
				t.Fatal(err)
			}
			if said := drillFor(t, drill, dir, at.MQTT[0], at.HTTP[0], "poor", made.Secret); !strings.Contains(said, lacks) {
				t.Errorf("without the scope %s: %s", lacks, said)
			}
			if err := admin.deleteClient(t.Context(), "poor"); err != nil {
				t.Fatal(err)
			}
		}
		do(t, "stop", "uns-1")
		if said := drillFor(t, drill, dir, at.MQTT[0], at.HTTP[0], at.Client, at.Secret); !regexp.MustCompile(`not whole before the drill: (uns-0 cannot reach uns-1|uns-0 has 0 of 1 links|1 of 2 replicas are members|uns-1 is )`).MatchString(said) {
			t.Errorf("half a cluster: %s", said)
		}
		do(t, "restart", "uns-1")
		nothingLeft(t, socket)
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(left) != 5 { // the socket, two reports of a page and JSON
			t.Errorf("in the folder there are %v, %v", left, err)
		}
	})
}

// drillFor runs a drill that cannot be done and returns what it said.
func drillFor(t *testing.T, drill, dir, mqtt, http, client, secret string, more ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), drill, append([]string{"kill", "--mqtt", mqtt, "--http", http}, more...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "DRILL_CLIENT="+client, "DRILL_SECRET="+secret)
	// Somebody is there: a pipe on which nothing comes.
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != failed {
		t.Errorf("the drill ended with %v, want status %d:\n%s", err, failed, said)
	}
	return string(said)
}

// nothingLeft wants no API client and no session of a drill on any replica.
func nothingLeft(t *testing.T, socket string) {
	t.Helper()
	at := reach(t, socket)
	for _, base := range at.HTTP {
		api := rest{bases: []string{base}, client: at.Client, secret: at.Secret, http: http.DefaultClient}
		harness.Eventually(t, "no API client of the drill is left", func() (bool, string) {
			var list struct{ Clients []struct{ ID string } }
			if err := api.do(t.Context(), "GET", "/api/v1/api-clients", nil, &list); err != nil {
				return false, err.Error()
			}
			for _, c := range list.Clients {
				if strings.HasPrefix(c.ID, "drill-") {
					return false, c.ID
				}
			}
			return len(list.Clients) > 0, "no client at all"
		})
		harness.Eventually(t, "no session of the drill is left", func() (bool, string) {
			list := sessionsOf(t, socket, "drill-")
			return list == "none", list
		})
	}
}

func reach(t *testing.T, socket string) places {
	t.Helper()
	_, at, err := openCluster(context.Background(), socket)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// sessionsOf lists the saved sessions whose client id begins with a prefix, "none" if there
// are none.
func sessionsOf(t *testing.T, socket, prefix string) string {
	t.Helper()
	at := reach(t, socket)
	o, err := (&rest{bases: at.HTTP, client: at.Client, secret: at.Secret, http: http.DefaultClient}).overview(t.Context())
	if err != nil || o.Shared == nil {
		return fmt.Sprint("not known: ", err)
	}
	var list []string
	for _, s := range o.Shared.Sessions {
		if strings.HasPrefix(s.ClientID, prefix) {
			list = append(list, fmt.Sprintf("%s(at:%s,subscriptions:%d,unfinished:%d)", s.ClientID, s.Replica, s.Subscriptions, s.Unfinished))
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
