package deployment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// part is anything with a process.
type part struct {
	name    string
	kill    func()
	pause   func() error
	resume  func() error
	stop    func(context.Context) error
	start   func(context.Context) error
	alive   func() bool
	pid     func() int
	output  func() string
	replica *Replica // nil: not a replica
}

// processes are all parts with a process.
func (d *Deployment) processes() []part {
	var all []part
	for _, r := range d.Replicas {
		all = append(all, part{name: r.ID, kill: r.Kill, pause: r.Pause, resume: r.Resume, alive: r.Alive, pid: func() int { return r.Process().PID() }, start: r.Start, output: r.Output, replica: r,
			stop: func(context.Context) error { return r.Stop(stopBound) }})
	}
	for _, s := range d.NATS.Servers {
		all = append(all, part{name: s.Name, kill: s.Kill, pause: s.Pause, resume: s.Resume, alive: s.Alive, pid: s.PID, output: s.Output,
			stop:  func(context.Context) error { return s.Stop(stopBound) },
			start: func(ctx context.Context) error { return d.startServer(ctx, s) }})
	}
	p := d.Postgres
	return append(all, part{name: "postgres", kill: p.Kill, pause: p.Pause, resume: p.Resume, stop: p.Stop, start: p.Start, alive: p.Alive, pid: func() int { pids := p.PIDs(); return pids[len(pids)-1] }, output: p.Output})
}

// startServer starts a NATS server and, if there is a quorum, waits until it has caught
// up: then the next one may be harmed.
func (d *Deployment) startServer(ctx context.Context, s *natsserver.Server) error {
	if err := s.Start(); err != nil {
		return err
	}
	alive := 0
	for _, other := range d.NATS.Servers {
		if other.Alive() {
			alive++
		}
	}
	if 2*alive <= len(d.NATS.Servers) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.Ready(ctx)
}

// ways are all networks that can be harmed, by name.
func (d *Deployment) ways() (names []string, ways map[string]Way) {
	ways = map[string]Way{}
	add := func(name string, w Way) {
		names = append(names, name)
		ways[name] = w
	}
	for _, r := range d.Replicas {
		add(r.ID+"/nats", r.NATS)
		add(r.ID+"/mesh", r.Mesh)
	}
	for j := range d.Replicas {
		for i := range j {
			add(d.Replicas[i].ID+"/"+d.Replicas[j].ID, d.Link(i, j))
		}
	}
	var nats Way
	for _, r := range d.Replicas {
		nats = append(nats, r.NATS...)
	}
	add("nats", nats)
	add("mesh", d.Mesh())
	return names, ways
}

// Do does one thing to a part by name and returns what there is to say. Verbs:
// kill, pause, resume, stop, start, restart, upgrade (argument: a broker program, "" for
// the same) of processes; cut, freeze, slow (argument: a duration) and heal of
// ways; log of what a process has printed; status of everything.
func (d *Deployment) Do(ctx context.Context, verb, name, argument string) (string, error) {
	switch verb {
	case "status":
		return d.Status(ctx), nil
	case "log":
		return d.log(name)
	case "cut", "freeze", "slow", "heal":
		return d.harm(verb, name, argument)
	case "kill", "pause", "resume", "stop", "start", "restart", "upgrade":
		return d.process(ctx, verb, name, argument)
	}
	return "", fmt.Errorf("%q is no command; there are kill, pause, resume, stop, start, restart, upgrade, cut, freeze, slow, heal, log, status", verb)
}

func (d *Deployment) harm(verb, name, argument string) (string, error) {
	names, ways := d.ways()
	if verb == "heal" && name == "" {
		for _, w := range ways {
			w.Heal()
		}
		return "everything: whole", nil
	}
	w, known := ways[name]
	if !known {
		return "", fmt.Errorf("%s %q: not a way; there are %s", verb, name, strings.Join(names, ", "))
	}
	switch verb {
	case "cut":
		w.Cut()
	case "freeze":
		w.Freeze()
	case "heal":
		w.Heal()
	case "slow":
		delay, err := time.ParseDuration(argument)
		if err != nil || delay < 0 {
			return "", fmt.Errorf("slow %s by %q: want a duration, like 2s", name, argument)
		}
		w.Hold(delay)
	}
	return name + ": " + w.State(), nil
}

func (d *Deployment) log(name string) (string, error) {
	for _, p := range d.processes() {
		if p.name == name {
			return p.output(), nil
		}
	}
	return "", fmt.Errorf("log %q: not a process; there are %s", name, strings.Join(d.names(), ", "))
}

// names are those of all processes.
func (d *Deployment) names() (names []string) {
	for _, p := range d.processes() {
		names = append(names, p.name)
	}
	return names
}

func (d *Deployment) process(ctx context.Context, verb, name, argument string) (string, error) {
	var chosen []part
	var names []string
	for _, p := range d.processes() {
		names = append(names, p.name)
		if p.name == name || strings.HasPrefix(p.name, name+"-") {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 || name == "" {
		return "", fmt.Errorf("%s %q: not a process; there are %s, uns, nats", verb, name, strings.Join(names, ", "))
	}
	var said []string
	for _, p := range chosen {
		began := time.Now()
		if err := p.do(ctx, verb, argument); err != nil {
			return strings.Join(said, "\n"), fmt.Errorf("%s %s: %w", verb, p.name, err)
		}
		said = append(said, fmt.Sprintf("%s: %s done in %v", p.name, verb, time.Since(began).Round(time.Millisecond)))
	}
	return strings.Join(said, "\n"), nil
}

func (p part) do(ctx context.Context, verb, argument string) error {
	alive := p.alive()
	switch {
	case verb == "restart":
		// As it is: what runs is stopped first, what does not run is started.
		if alive {
			if err := p.stop(ctx); err != nil {
				return err
			}
		}
		return p.start(ctx)
	case verb == "start" && alive:
		return errors.New("it runs already")
	case verb == "start":
		return p.start(ctx)
	case verb == "upgrade" && p.replica == nil:
		return errors.New("only replicas are upgraded")
	case verb == "upgrade":
		return p.replica.Upgrade(ctx, argument)
	case !alive:
		return errors.New("it does not run")
	case verb == "pause":
		return p.pause()
	case verb == "resume":
		return p.resume()
	case verb == "stop":
		return p.stop(ctx)
	}
	p.kill()
	return nil
}

// Status is a line for each part and each harmed way.
func (d *Deployment) Status(ctx context.Context) string {
	var b strings.Builder
	for _, p := range d.processes() {
		state := "does not run"
		if p.alive() {
			state = "runs"
			if paused(p.pid()) {
				state = "paused"
			} else if p.replica != nil {
				state = p.replica.health(ctx)
			}
		}
		fmt.Fprintf(&b, "%-10s %s\n", p.name, state)
	}
	names, ways := d.ways()
	for _, name := range names {
		if s := ways[name].State(); s != "whole" {
			fmt.Fprintf(&b, "%-10s %s\n", name, s)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// paused reports whether a process was stopped where it stands.
func paused(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// After the program's name, in parentheses, comes the state.
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && strings.HasPrefix(state, "T")
}

// health asks the replica whether it serves.
func (r *Replica) health(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTP+"/health/ready", nil)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "runs and does not answer"
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return "ready"
	}
	var reason [200]byte
	n, _ := response.Body.Read(reason[:])
	return fmt.Sprintf("not ready: %s", strings.TrimSpace(string(reason[:n])))
}
