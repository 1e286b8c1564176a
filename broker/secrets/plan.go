package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Plan is what a deployment needs. The chart writes it; there are no defaults.
type Plan struct {
	// Labels of what is made, besides Made.
	Labels       map[string]string `yaml:"labels"`
	Authorities  []Authority       `yaml:"authorities"`
	Passwords    []Passwords       `yaml:"passwords"`
	Certificates []Certificate     `yaml:"certificates"`
	Accounts     []Accounts        `yaml:"accounts"`
}

// Stage of replacing an authority. Each begins once every program has followed the one before.
type Stage string

const (
	// Settled: one authority signs and is trusted. An earlier or an introduced one is forgotten.
	Settled Stage = ""
	// Introduce: the next authority is made and trusted; the present one signs.
	Introduce Stage = "introduce"
	// Switch: the introduced authority signs everything; both are trusted.
	Switch Stage = "switch"
)

// Authority is a certificate authority that signs certificates of the plan.
type Authority struct {
	Thing  string `yaml:"thing"` // how messages call it: "NATS CA"
	Secret Ref    `yaml:"secret"`
	Name   string `yaml:"name"` // common name
	Days   int    `yaml:"days"` // of its life
	Stage  Stage  `yaml:"stage"`
}

// Certificate is a certificate with its key and those who sign what it trusts.
type Certificate struct {
	Thing  string `yaml:"thing"`
	Secret Ref    `yaml:"secret"`
	// Existing: it is the operator's own, checked and never written. It needs no Authority.
	Existing bool `yaml:"existing"`
	// Authority is the Secret of one of the plan's authorities.
	Authority Ref      `yaml:"authority"`
	Name      string   `yaml:"name"`   // common name
	DNS       []string `yaml:"dns"`    // names it must be valid for
	Usages    []string `yaml:"usages"` // server, client
	Days      int      `yaml:"days"`
	Renew     string   `yaml:"renew"` // another word than the last: made anew
}

// Passwords is a Secret of generated passwords and of texts that hold them.
type Passwords struct {
	Thing    string   `yaml:"thing"`
	Secret   Ref      `yaml:"secret"`
	Existing bool     `yaml:"existing"`
	Keys     []string `yaml:"keys"`
	// Texts are further keys; ${KEY} in them stands for a password.
	Texts map[string]string `yaml:"texts"`
	Renew string            `yaml:"renew"`
}

// Accounts is a file that nats.conf includes: accounts, and users with the hashes of their passwords.
type Accounts struct {
	Thing    string    `yaml:"thing"`
	Secret   Ref       `yaml:"secret"`
	Existing bool      `yaml:"existing"`
	Key      string    `yaml:"key"`
	Accounts []Account `yaml:"accounts"`
	Renew    string    `yaml:"renew"`
}

// Account is one account of NATS with its one user.
type Account struct {
	Name string `yaml:"name"`
	User string `yaml:"user"`
	// Password is where the user's password is: a Secret and a key of the plan's passwords.
	Password struct {
		Secret Ref    `yaml:"secret"`
		Key    string `yaml:"key"`
	} `yaml:"password"`
	// JetStream: nil, none; empty, unlimited; else limits by the names of nats.conf (max_file: 10GB).
	JetStream map[string]any `yaml:"jetStream"`
}

// ParsePlan reads a plan and says everything that is wrong with it.
func ParsePlan(data []byte) (*Plan, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	p := new(Plan)
	if err := d.Decode(p); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read plan of secrets: %w", err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("plan of secrets: %w", err)
	}
	return p, nil
}

var (
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	dataKey   = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
	natsToken = regexp.MustCompile(`^[A-Za-z][-_A-Za-z0-9]*$`)
)

func (p *Plan) check() error {
	var wrong []error
	complain := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	seen := map[Ref]string{}
	item := func(kind string, i int, thing string, r Ref) string {
		at := fmt.Sprintf("%s[%d]", kind, i)
		complain(thing != "", "%s.thing is empty: say what it is", at)
		complain(dnsLabel.MatchString(r.Namespace) && dnsLabel.MatchString(r.Name), "%s.secret (%s) must be a namespace and the name of a Secret", at, r)
		other, twice := seen[r]
		complain(!twice, "%s.secret (%s) is that of %s too", at, r, other)
		seen[r] = at
		return at
	}
	days := func(at string, n int) { complain(n >= 1 && n <= 36500, "%s.days (%d) must be 1 to 36500", at, n) }
	for i, a := range p.Authorities {
		at := item("authorities", i, a.Thing, a.Secret)
		days(at, a.Days)
		complain(a.Name != "", "%s.name is empty", at)
		complain(slices.Contains([]Stage{Settled, Introduce, Switch}, a.Stage), "%s.stage (%s) must be empty, %s or %s", at, a.Stage, Introduce, Switch)
	}
	for i, x := range p.Passwords {
		at := item("passwords", i, x.Thing, x.Secret)
		complain(len(x.Keys) > 0, "%s.keys is empty", at)
		for _, k := range append(slices.Clone(x.Keys), sortedKeys(x.Texts)...) {
			complain(dataKey.MatchString(k), "%s: key (%s) must be letters, digits, - _ and .", at, k)
		}
	}
	for i, c := range p.Certificates {
		at := item("certificates", i, c.Thing, c.Secret)
		for _, u := range c.Usages {
			complain(usages[u] != 0, "%s.usages (%s) must be server or client", at, u)
		}
		complain(len(c.Usages) > 0, "%s.usages is empty", at)
		if c.Existing {
			continue
		}
		days(at, c.Days)
		complain(c.Name != "", "%s.name is empty", at)
		complain(p.authority(c.Authority) != nil, "%s.authority (%s) is none of the plan's authorities", at, c.Authority)
	}
	for i, a := range p.Accounts {
		at := item("accounts", i, a.Thing, a.Secret)
		complain(dataKey.MatchString(a.Key), "%s.key (%s) must be letters, digits, - _ and .", at, a.Key)
		complain(a.Existing || len(a.Accounts) > 0, "%s.accounts is empty", at)
		for j, x := range a.Accounts {
			complain(natsToken.MatchString(x.Name) && natsToken.MatchString(x.User), "%s.accounts[%d]: name (%s) and user (%s) must be letters, digits, - and _", at, j, x.Name, x.User)
			complain(slices.ContainsFunc(p.Passwords, func(w Passwords) bool {
				return w.Secret == x.Password.Secret && slices.Contains(w.Keys, x.Password.Key)
			}),
				"%s.accounts[%d].password (%s key %s) is none of the plan's passwords", at, j, x.Password.Secret, x.Password.Key)
			for limit, v := range x.JetStream {
				complain(natsToken.MatchString(limit) && natsScalar.MatchString(fmt.Sprint(v)), "%s.accounts[%d].jetStream.%s (%v) must be a number, a size or a switch", at, j, limit, v)
			}
		}
	}
	return errors.Join(wrong...)
}

func (p *Plan) authority(r Ref) *Authority {
	for i := range p.Authorities {
		if p.Authorities[i].Secret == r {
			return &p.Authorities[i]
		}
	}
	return nil
}

// refs are all Secrets of the plan.
func (p *Plan) refs() []Ref {
	var all []Ref
	for _, a := range p.Authorities {
		all = append(all, a.Secret)
	}
	for _, x := range p.Passwords {
		all = append(all, x.Secret)
	}
	for _, c := range p.Certificates {
		all = append(all, c.Secret)
	}
	for _, a := range p.Accounts {
		all = append(all, a.Secret)
	}
	return all
}

// Things are what a plan can make anew by a word, by the names messages call them.
func (p *Plan) Things() []string {
	var all []string
	for _, x := range p.Passwords {
		all = append(all, x.Thing)
	}
	for _, c := range p.Certificates {
		all = append(all, c.Thing)
	}
	return all
}

// RenewNow gives a thing (and, for passwords, the accounts that know them) a word it has not been made for yet.
func (p *Plan) RenewNow(thing, word string) error {
	if word == "" || strings.TrimSpace(word) != word {
		return fmt.Errorf("renew %s: word (%q) must be text without spaces around it", thing, word)
	}
	found := false
	for i, c := range p.Certificates {
		if c.Thing == thing {
			p.Certificates[i].Renew, found = word, true
		}
	}
	for i, x := range p.Passwords {
		if x.Thing != thing {
			continue
		}
		p.Passwords[i].Renew, found = word, true
		for j, a := range p.Accounts {
			if slices.ContainsFunc(a.Accounts, func(y Account) bool { return y.Password.Secret == x.Secret }) {
				p.Accounts[j].Renew = word
			}
		}
	}
	if !found {
		return fmt.Errorf("renew %q: the plan has no such thing, it has %s", thing, strings.Join(p.Things(), ", "))
	}
	return nil
}
