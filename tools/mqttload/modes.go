package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// modes are the commands that run one scenario against one broker.
func modes() []*cobra.Command {
	return []*cobra.Command{
		flowMode("acks", "Publish as fast as the windows allow, nobody subscribes", scenario.Flow{Publishers: 10, QoS: 1, Window: 100}),
		flowMode("rate", "Publish by a schedule that waits for nothing", scenario.Flow{Publishers: 10, QoS: 1, Window: 100, Rate: 2000}),
		flowMode("pair", "One publisher, one subscriber", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 1, Window: 100}),
		flowMode("fanout", "One publisher, many subscribers", scenario.Flow{Publishers: 1, Subscribers: 50, Window: 100}),
		flowMode("fanin", "Many publishers, one subscriber", scenario.Flow{Publishers: 50, Subscribers: 1, QoS: 1, Window: 20}),
		churnMode(), idleMode(), resumeMode(), stormMode(),
	}
}

// mode makes a command of a scenario: the flags of the target and the output,
// those the scenario adds, and a check of both before anything is sent.
func mode(name, short string, flags func(*pflag.FlagSet), scenario func() (runner, error)) *cobra.Command {
	var t targetFlags
	var asJSON bool
	c := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		target, err := t.target()
		if err != nil {
			return err
		}
		run, err := scenario()
		if err != nil {
			return err
		}
		r, err := run.Run(c.Context(), target)
		if err != nil {
			return err
		}
		return show(r, asJSON)
	}}
	t.add(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	flags(c.Flags())
	return c
}

func flowMode(name, short string, f scenario.Flow) *cobra.Command {
	f.Name = name
	return mode(name, short, func(s *pflag.FlagSet) {
		s.IntVar(&f.Publishers, "publishers", f.Publishers, "publishing connections")
		s.IntVar(&f.Subscribers, "subscribers", f.Subscribers, "subscribing connections, each of which gets every value")
		s.Uint8Var(&f.QoS, "qos", f.QoS, "QoS of publishes and subscriptions")
		s.IntVar(&f.Window, "window", f.Window, "values of one publisher on their way at once")
		s.Float64Var(&f.Rate, "rate", f.Rate, "values a second of all publishers together; 0: as the windows allow")
		s.IntVar(&f.Payload, "payload", 256, "bytes of a payload")
		s.DurationVar(&f.Warmup, "warmup", time.Second, "time before measuring")
		s.DurationVar(&f.Duration, "duration", 5*time.Second, "time measured")
	}, func() (runner, error) {
		switch {
		case f.QoS > 2:
			return nil, fmt.Errorf("qos (%d) must be 0, 1 or 2", f.QoS)
		case f.Publishers < 1 || f.Publishers > 1<<16:
			return nil, fmt.Errorf("publishers (%d) must be 1 to 65536", f.Publishers)
		case f.Window < 1 || f.Window > 65535:
			return nil, fmt.Errorf("window (%d) must be 1 to 65535, the packet ids there are", f.Window)
		case f.Payload < scenario.MinPayload:
			return nil, fmt.Errorf("payload (%d) must be at least %d bytes", f.Payload, scenario.MinPayload)
		}
		return f, nil
	})
}

func churnMode() *cobra.Command {
	v := scenario.Churn{Name: "churn"}
	return mode("churn", "Connect, subscribe, disconnect, again and again", func(s *pflag.FlagSet) {
		s.IntVar(&v.Clients, "clients", 64, "clients at once")
		s.BoolVar(&v.Persistent, "persistent", false, "keep the sessions and take them up again")
		s.DurationVar(&v.Warmup, "warmup", time.Second, "time before measuring")
		s.DurationVar(&v.Duration, "duration", 5*time.Second, "time measured")
	}, func() (runner, error) { return v, nil })
}

func idleMode() *cobra.Command {
	v := scenario.Idle{Name: "idle"}
	return mode("idle", "Open connections that do nothing and weigh them (needs --pid)", func(s *pflag.FlagSet) {
		s.IntVar(&v.Connections, "connections", 4000, "connections to open")
		s.BoolVar(&v.Subscribe, "subscribe", false, "one QoS 1 subscription each")
		s.DurationVar(&v.Settle, "settle", 5*time.Second, "time between the last connection and the weighing")
	}, func() (runner, error) {
		limit, err := scenario.RaiseFileLimit()
		if err == nil && uint64(v.Connections)+100 > limit {
			err = fmt.Errorf("connections (%d) must be at most %d, what the limit of open files leaves", v.Connections, limit-100)
		}
		return v, err
	})
}

func resumeMode() *cobra.Command {
	v := scenario.Resume{Name: "resume"}
	return mode("resume", "Leave persistent sessions, publish, and come back for what was kept", func(s *pflag.FlagSet) {
		s.IntVar(&v.Sessions, "sessions", 100, "sessions")
		s.IntVar(&v.Values, "values", 1000, "values kept for each")
		s.Uint8Var(&v.QoS, "qos", 1, "QoS of publishes and subscriptions, 1 or 2")
		s.IntVar(&v.Payload, "payload", 256, "bytes of a payload")
	}, func() (runner, error) {
		if v.QoS != 1 && v.QoS != 2 {
			return nil, fmt.Errorf("qos (%d) must be 1 or 2: nothing is kept at QoS 0", v.QoS)
		}
		return v, nil
	})
}

func stormMode() *cobra.Command {
	v := scenario.Storm{Name: "storm"}
	return mode("storm", "Cut many connections at once and let all come back", func(s *pflag.FlagSet) {
		s.IntVar(&v.Clients, "clients", 1000, "clients")
		s.BoolVar(&v.Persistent, "persistent", false, "with sessions that are kept, of one QoS 1 subscription each")
	}, func() (runner, error) {
		limit, err := scenario.RaiseFileLimit()
		if err == nil && uint64(v.Clients)+100 > limit {
			err = fmt.Errorf("clients (%d) must be at most %d, what the limit of open files leaves", v.Clients, limit-100)
		}
		return v, err
	})
}

// targetFlags are the flags that say which broker and how to speak to it.
type targetFlags struct {
	scenario.Target
	address, version string
}

func (f *targetFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.address, "address", "127.0.0.1:1883", "IPv4 address and port of the broker")
	s.StringVar(&f.version, "mqtt", "3.1.1", "protocol version: 3.1.1 or 5")
	s.StringVar(&f.Username, "user", "", "user name; empty: none")
	s.StringVar(&f.Password, "password", "", "password")
	s.StringVar(&f.PublishTopic, "publish-topic", "load/{i}", "topic of publisher {i}")
	s.StringVar(&f.SubscribeTopic, "subscribe-topic", "load/{i}", "topic on which the values of publisher {i} arrive")
	s.IntVar(&f.PID, "pid", 0, "process id of the broker, to measure its CPU time and memory")
}

func (f *targetFlags) target() (*scenario.Target, error) {
	t := f.Target
	var err error
	if t.Address, err = netip.ParseAddrPort(f.address); err != nil || !t.Address.Addr().Unmap().Is4() {
		return nil, fmt.Errorf("address (%s) must be an IPv4 address and a port, as 127.0.0.1:1883", f.address)
	}
	switch f.version {
	case "3.1.1":
		t.Version = mqtt.V311
	case "5":
		t.Version = mqtt.V5
	default:
		return nil, fmt.Errorf("mqtt (%s) must be 3.1.1 or 5", f.version)
	}
	t.Name = f.address
	return &t, nil
}
