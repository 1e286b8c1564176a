package secrets

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math/big"
	"strings"
	"unicode"
)

// Passwords begin with a letter and have letters and digits alone: whatever reads them as configuration
// (nats.conf, YAML, a shell, a URL) takes them for text. 31 × log2 62 + log2 52 = 190 bits.
const (
	passwordLength = 32
	letters        = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	lettersDigits  = letters + "0123456789"
	// longestPassword is what bcrypt looks at.
	longestPassword = 72
)

func newPassword() string {
	var b strings.Builder
	for i := range passwordLength {
		from := lettersDigits
		if i == 0 {
			from = letters
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(from))))
		if err != nil {
			panic(err) // crypto/rand never fails
		}
		b.WriteByte(from[n.Int64()])
	}
	return b.String()
}

// checkPassword says why a password cannot be used; nil if it can.
func checkPassword(p []byte) error {
	switch {
	case len(p) == 0:
		return fmt.Errorf("is empty")
	case len(p) > longestPassword:
		return fmt.Errorf("has %d bytes, bcrypt takes no more than %d", len(p), longestPassword)
	case bytes.ContainsFunc(p, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }):
		return fmt.Errorf("must be printable ASCII without spaces or line breaks (made with echo? printf adds no line break)")
	}
	return nil
}

// passwordSecret decides on a Secret of passwords.
func (d *decision) passwordSecret(x *Passwords) {
	found := d.found[x.Secret]
	keys := append(append([]string(nil), x.Keys...), sortedKeys(x.Texts)...)
	switch {
	case found == nil && x.Existing:
		d.problem("Secret %s (%s) does not exist, and the values say that it is yours: create it with the keys %s, or let the chart make one", x.Secret, x.Thing, strings.Join(keys, ", "))
		return
	case found == nil:
		d.passwords[x.Secret] = d.create(x.Secret, typeOpaque, x.Renew, x.fresh(), "made "+x.Thing)
		return
	}
	if err := found.halfFilled(x.Thing, keys...); err != nil {
		d.wrong = append(d.wrong, err)
		return
	}
	for _, k := range x.Keys {
		if err := checkPassword(found.Data[k]); err != nil {
			d.problem("Secret %s (%s): key %s %w", x.Secret, x.Thing, k, err)
			return
		}
	}
	d.passwords[x.Secret] = found
	switch ours := found.made() && !x.Existing; {
	case ours && found.due(x.Renew):
		after := *found
		after.Data = x.fresh()
		d.passwords[x.Secret] = &after
		d.change(found, x.Renew, after.Data, "renewed "+x.Thing+" for the word "+x.Renew)
	case ours:
		changed := map[string][]byte{}
		for k, text := range x.expand(found.Data) {
			if !bytes.Equal(text, found.Data[k]) {
				changed[k] = text
			}
		}
		if len(changed) > 0 {
			d.change(found, "", changed, "had the texts of "+x.Thing+" follow the plan")
		}
	case found.due(x.Renew):
		d.note("Secret %s (%s) was not made by this chart: %q does not renew it", x.Secret, x.Thing, x.Renew)
	}
}

// fresh is a Secret's data with new passwords.
func (x *Passwords) fresh() map[string][]byte {
	data := map[string][]byte{}
	for _, k := range x.Keys {
		data[k] = []byte(newPassword())
	}
	for k, text := range x.expand(data) {
		data[k] = text
	}
	return data
}

func (x *Passwords) expand(data map[string][]byte) map[string][]byte {
	var stands []string
	for _, k := range x.Keys {
		stands = append(stands, "${"+k+"}", string(data[k]))
	}
	fill := strings.NewReplacer(stands...)
	texts := map[string][]byte{}
	for k, text := range x.Texts {
		texts[k] = []byte(fill.Replace(text))
	}
	return texts
}
