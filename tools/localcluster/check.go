package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"maestrohub.io/uns/tests/device/fleet"
	"maestrohub.io/uns/tools/localcluster/control"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

// demo is the API client that every cluster has.
const (
	demoClient    = "demo"
	demoSecret    = "5c9e1f0b7a3d48269f4be2d07c61a85e3f1d0c9b8a7e6f5d4c3b2a1908f7e6d5"
	demoWorkspace = "acme"
)

func placeOf(d *deployment.Deployment) control.Place {
	p := control.Place{MQTT: d.Address(), Client: demoClient, Secret: demoSecret, Workspace: demoWorkspace}
	for _, r := range d.Replicas {
		p.HTTP = append(p.HTTP, r.HTTP)
	}
	for _, s := range d.NATS.Servers {
		p.NATS = append(p.NATS, s.Monitor)
	}
	return p
}

// errLost is that the checker found something wrong.
var errLost = errors.New("the broker did not keep what it had acknowledged")

// endBound is how long it may take to take the saved sessions of the check back.
const endBound = 20 * time.Second

// check has devices publish to the running cluster, and sessions take all of it, until
// ctx is done or the time is over, and then says what became of every value, unless hurried
// ends meanwhile.
func check(ctx, hurried context.Context, out io.Writer, socket string, during time.Duration) (err error) {
	p, err := control.Find(ctx, socket)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("check-%d", time.Now().Unix())
	names := "mHv1.0/" + p.Workspace + "/"
	// Interrupted, the devices go on until everything is settled.
	work, cancel := context.WithCancel(hurried)
	defer cancel()
	starting, started := context.WithTimeout(work, startBound)
	defer started()
	f, err := fleet.Start(starting, fleet.Options{Name: name, User: p.Client, Secret: p.Secret, Seed: rand.Uint64(),
		Inbox: names + "_ingress/" + p.Client + "/", Data: names, Address: func(int, int) string { return p.MQTT }})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endBound)
		defer cancel()
		f.Close()
		err = errors.Join(err, f.EndSessions(ending))
	}()
	fmt.Fprintf(out, "%d devices publish on %s, %d persistent sessions take all of it. Break the cluster from another shell; Ctrl-C ends this with the verdict.\n",
		len(f.Publishers), p.MQTT, len(f.Subscribers))
	watch(ctx, out, f, during)
	fmt.Fprintln(out, "ending: waiting until everything is where it belongs; Ctrl-C again ends it without a verdict")
	report, err := f.Finish(work, place(p).stored)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, report)
	if len(report.Problems) > 0 {
		return errLost
	}
	return nil
}

// watch says every second how the devices are doing, as long as there is news.
func watch(ctx context.Context, out io.Writer, f *fleet.Fleet, during time.Duration) {
	if during > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, during)
		defer cancel()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	since, flowing, last := time.Now(), true, 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		switch flow := f.Flows(since); {
		case flow.Missing == "" && !flowing:
			fmt.Fprintf(out, "everything flows again after %v\n", flow.At.Sub(since).Round(time.Millisecond))
			fallthrough
		case flow.Missing == "":
			since, flowing = time.Now(), true
			if n := f.Acked(); n/10000 > last {
				last = n / 10000
				fmt.Fprintf(out, "%d values acknowledged\n", n)
			}
		case flowing && time.Since(since) > 2*time.Second:
			flowing = false
			fmt.Fprintf(out, "waiting: %s\n", flow.Missing)
		}
	}
}

// place is asked for what was stored.
type place control.Place

// stored reads the historian through whichever replica answers.
func (p place) stored(ctx context.Context, topic string) (map[string]bool, error) {
	stored := map[string]bool{}
	query := url.Values{"topic": {topic}, "limit": {"1000"}}
	for {
		page, err := p.history(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, v := range page.Values {
			stored[string(v.Value)] = true
		}
		if page.Next == "" {
			return stored, nil
		}
		query.Set("after", page.Next)
	}
}

type historyPage struct {
	Values []struct {
		Value json.RawMessage `json:"value"`
	} `json:"values"`
	Next string `json:"next"`
}

// history reads one page, trying every replica until one answers, for a minute.
func (p place) history(ctx context.Context, query url.Values) (page historyPage, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		if page, err = p.askHistory(ctx, p.HTTP[i%len(p.HTTP)], query); err == nil {
			return page, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return page, fmt.Errorf("no replica answers: %w", err)
		}
	}
}

func (p place) askHistory(ctx context.Context, address string, query url.Values) (page historyPage, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/uns/"+p.Workspace+"/history?"+query.Encode(), nil)
	if err != nil {
		return page, err
	}
	request.SetBasicAuth(p.Client, p.Secret)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return page, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return page, fmt.Errorf("%s answered %s: %s", address, response.Status, text)
	}
	return page, json.NewDecoder(response.Body).Decode(&page)
}
