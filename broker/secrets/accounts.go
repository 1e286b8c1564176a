package secrets

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

var (
	// bcryptCost is what `nats server passwd` uses: about 0.1 s for each sign-in, of which there is one per connection.
	// Tests lower it.
	bcryptCost = 11
	// natsScalar is a value of nats.conf that is not taken for something else: a number, a size, a switch.
	natsScalar = regexp.MustCompile(`^([0-9]+([kmgtKMGT][iI]?[bB]?)?|true|false)$`)
	// userLine finds what file wrote for a user. Hashes stand in quotes: text, whatever they hold.
	userLine = regexp.MustCompile(`user: "([^"]+)", password: "(\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53})"`)
)

// accounts decides on the file of accounts. It is made from the passwords; a hash that is there is kept as long as it
// is that of the password, and the rest of the file follows the plan.
func (d *decision) accounts(a *Accounts) {
	found := d.found[a.Secret]
	passwords := map[string][]byte{}
	for _, x := range a.Accounts {
		from := d.passwords[x.Password.Secret]
		if from == nil { // told already why
			return
		}
		passwords[x.User] = from.Data[x.Password.Key]
	}
	if found == nil {
		if a.Existing {
			d.problem("Secret %s (%s) does not exist, and the values say that it is yours: create it with the key %s, or let the chart make one", a.Secret, a.Thing, a.Key)
			return
		}
		hashes, err := hash(passwords, nil)
		if err != nil {
			d.problem("make %s: %w", a.Thing, err)
			return
		}
		d.create(a.Secret, typeOpaque, a.Renew, map[string][]byte{a.Key: a.file(hashes)}, "made "+a.Thing)
		return
	}
	if err := found.halfFilled(a.Thing, a.Key); err != nil {
		d.wrong = append(d.wrong, err)
		return
	}
	if !found.made() || a.Existing {
		d.note("Secret %s (%s) was not made by this chart: whether its hashes are those of the passwords is not checked", a.Secret, a.Thing)
		return
	}
	there := map[string]string{}
	for _, m := range userLine.FindAllSubmatch(found.Data[a.Key], -1) {
		there[string(m[1])] = string(m[2])
	}
	for _, x := range a.Accounts {
		if from := x.Password; d.found[from.Secret] == nil && there[x.User] != "" {
			d.problem("Secret %s, with the password of user %s in key %s, is missing, while Secret %s (%s) has its hash: restore it from a backup, or delete %s as well to have both made anew and restart the NATS servers",
				from.Secret, x.User, from.Key, a.Secret, a.Thing, a.Secret)
		}
	}
	if len(d.wrong) > 0 {
		return
	}
	renewing := found.due(a.Renew)
	for user, h := range there {
		password, known := passwords[user]
		if !known || bcrypt.CompareHashAndPassword([]byte(h), password) == nil {
			continue
		}
		if !renewing {
			i := slices.IndexFunc(a.Accounts, func(x Account) bool { return x.User == user })
			from := a.Accounts[i].Password
			d.problem("Secret %s (%s), key %s: the hash of user %s is not that of the password in Secret %s, key %s: restore both from the same backup, or delete %s to have it made from the password and restart the NATS servers",
				a.Secret, a.Thing, a.Key, user, from.Secret, from.Key, a.Secret)
			continue
		}
		delete(there, user)
	}
	if len(d.wrong) > 0 {
		return
	}
	hashes, err := hash(passwords, there)
	if err != nil {
		d.problem("make %s: %w", a.Thing, err)
		return
	}
	if file := a.file(hashes); !bytes.Equal(file, found.Data[a.Key]) || renewing {
		why := "had " + a.Thing + " follow the plan"
		if renewing {
			why = "renewed " + a.Thing + " for the word " + a.Renew
		}
		d.change(found, a.Renew, map[string][]byte{a.Key: file}, why)
		d.writes[len(d.writes)-1].settles = renewing
	}
}

// hash gives each user the hash it has in there, or else a new one.
func hash(passwords map[string][]byte, there map[string]string) (map[string]string, error) {
	hashes := map[string]string{}
	for user, password := range passwords {
		if h := there[user]; h != "" {
			hashes[user] = h
			continue
		}
		h, err := bcrypt.GenerateFromPassword(password, bcryptCost)
		if err != nil {
			return nil, fmt.Errorf("hash the password of %s: %w", user, err)
		}
		hashes[user] = string(h)
	}
	return hashes, nil
}

// file is what nats.conf includes at its top level.
func (a *Accounts) file(hashes map[string]string) []byte {
	var b strings.Builder
	b.WriteString("# Accounts and users of NATS. Made by `broker secrets ensure`; passwords are stored as bcrypt.\naccounts {\n")
	for _, x := range a.Accounts {
		fmt.Fprintf(&b, "  %s {\n", x.Name)
		switch {
		case x.JetStream == nil:
		case len(x.JetStream) == 0:
			b.WriteString("    jetstream: enabled\n")
		default:
			b.WriteString("    jetstream {\n")
			for _, limit := range sortedKeys(x.JetStream) {
				fmt.Fprintf(&b, "      %s: %v\n", limit, x.JetStream[limit])
			}
			b.WriteString("    }\n")
		}
		fmt.Fprintf(&b, "    users: [ { user: %q, password: %q } ]\n  }\n", x.User, hashes[x.User])
	}
	b.WriteString("}\n")
	return []byte(b.String())
}
