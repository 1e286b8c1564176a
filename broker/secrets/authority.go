package secrets

import (
	"bytes"
	"crypto/x509"
	"slices"
)

// authority is one of the plan's, as it will be after the writes.
type authority struct {
	*pair
	// trusted is the bundle of those whose signatures count: the signing one first.
	trusted []*x509.Certificate
	made    bool // its Secret is ours
	stage   Stage
}

// authority decides on an authority's Secret. What its certificates need of it is in d.authorities afterwards.
func (d *decision) authority(a *Authority) {
	found := d.found[a.Secret]
	if found == nil {
		d.missingAuthority(a)
		return
	}
	if err := found.halfFilled(a.Thing, keyCertificate, keyPrivate); err != nil {
		d.wrong = append(d.wrong, err)
		return
	}
	signing, err := parsePair(found.Data[keyCertificate], found.Data[keyPrivate])
	if err != nil {
		d.problem("Secret %s (%s): keys %s and %s: %w", a.Secret, a.Thing, keyCertificate, keyPrivate, err)
		return
	}
	if l := signing.leaf(); !l.IsCA {
		d.problem("Secret %s (%s): key %s is not the certificate of an authority (CA:TRUE); put one there that may sign", a.Secret, a.Thing, keyCertificate)
		return
	} else if d.now.After(l.NotAfter) {
		d.problem("Secret %s (%s): key %s ended on %s; delete the Secret and those of the certificates it signed to have all made anew, and restart what uses them", a.Secret, a.Thing, keyCertificate, l.NotAfter.UTC().Format("2006-01-02"))
		return
	} else if lastThird(l, d.now) {
		d.note("Secret %s (%s) ends on %s: replace it in the stages introduce, switch, none", a.Secret, a.Thing, l.NotAfter.UTC().Format("2006-01-02"))
	}
	state := &authority{pair: signing, made: found.made(), stage: a.Stage}
	if len(found.Data[keyAuthority]) > 0 {
		if state.trusted, err = parseBundle(found.Data[keyAuthority]); err != nil {
			d.problem("Secret %s (%s): key %s: %w", a.Secret, a.Thing, keyAuthority, err)
			return
		}
	} else if state.trusted, err = parseBundle(found.Data[keyCertificate]); err == nil {
		state.trusted = state.trusted[len(state.trusted)-1:] // the top of its chain
	}
	if !state.made {
		if a.Stage != Settled {
			d.problem("Secret %s (%s) was not made by this chart: replace it where it came from, and leave its stage (%s) empty", a.Secret, a.Thing, a.Stage)
			return
		}
	} else if !d.stage(a, found, state) {
		return
	}
	d.authorities[a.Secret] = state
}

// missingAuthority makes an authority, unless a certificate is there already: a new authority beside it would sign
// what those who trust the old one refuse.
func (d *decision) missingAuthority(a *Authority) {
	var there, missing []Ref
	for _, c := range d.plan.Certificates {
		if c.Existing || c.Authority != a.Secret {
			continue
		}
		if d.found[c.Secret] != nil {
			there = append(there, c.Secret)
		} else {
			missing = append(missing, c.Secret)
		}
	}
	switch {
	case len(there) == 0 && len(missing) == 0: // nobody needs it
	case len(there) > 0 && len(missing) > 0:
		d.problem("Secret %s (%s) is missing, and Secret %s is missing too, while Secret %s, of the same authority, is there: restore %s from a backup, or delete %s as well to have all of them made anew and restart what uses them",
			a.Secret, a.Thing, missing[0], there[0], a.Secret, there[0])
	case len(there) > 0:
		d.note("Secret %s (%s) is missing: the certificates it signed are kept and cannot be renewed; restore it from a backup", a.Secret, a.Thing)
	default:
		p, err := newAuthority(a, d.now)
		if err != nil {
			d.wrong = append(d.wrong, err)
			return
		}
		if a.Stage != Settled {
			d.note("%s is new: its stage (%s) has nothing to replace", a.Thing, a.Stage)
		}
		d.create(a.Secret, typeTLS, "", map[string][]byte{keyCertificate: p.chainPEM, keyPrivate: p.keyPEM, keyAuthority: p.chainPEM}, "made "+a.Thing)
		d.authorities[a.Secret] = &authority{pair: p, trusted: []*x509.Certificate{p.leaf()}, made: true}
	}
}

// stage takes an authority to the stage of the plan; false if that cannot be.
func (d *decision) stage(a *Authority, found *Secret, state *authority) bool {
	signing := state.leaf()
	var next *pair
	if has, lacks := found.holds(keyNextCert, keyNextPrivate); len(has) > 0 && len(lacks) > 0 {
		d.problem("Secret %s (%s) is half-filled: it has %s and lacks %s; remove %s, and begin again with the stage %s", a.Secret, a.Thing, has[0], lacks[0], has[0], Introduce)
		return false
	} else if len(lacks) == 0 {
		var err error
		if next, err = parsePair(found.Data[keyNextCert], found.Data[keyNextPrivate]); err != nil {
			d.problem("Secret %s (%s): keys %s and %s: %w", a.Secret, a.Thing, keyNextCert, keyNextPrivate, err)
			return false
		}
	}
	earlier := slices.DeleteFunc(slices.Clone(state.trusted), func(c *x509.Certificate) bool {
		return c.Equal(signing) || next != nil && c.Equal(next.leaf())
	})
	data := map[string][]byte{}
	why := ""
	switch {
	case a.Stage == Settled:
		state.trusted = []*x509.Certificate{signing}
		if next != nil {
			data[keyNextCert], data[keyNextPrivate] = nil, nil
			why = "dropped the introduced " + a.Thing + ", which never signed"
		} else if len(earlier) > 0 {
			why = "forgot the earlier " + a.Thing
		}
	case a.Stage == Introduce && next == nil:
		if len(earlier) > 0 {
			d.problem("Secret %s (%s): the stage %s begins a replacement, but an earlier authority is still trusted from the last one; set the stage to none first", a.Secret, a.Thing, Introduce)
			return false
		}
		made, err := newAuthority(a, d.now)
		if err != nil {
			d.wrong = append(d.wrong, err)
			return false
		}
		data[keyNextCert], data[keyNextPrivate] = made.chainPEM, made.keyPEM
		state.trusted = []*x509.Certificate{signing, made.leaf()}
		why = "introduced the next " + a.Thing
	case a.Stage == Introduce:
		state.trusted = []*x509.Certificate{signing, next.leaf()}
	case next != nil: // Switch
		data[keyCertificate], data[keyPrivate] = next.chainPEM, next.keyPEM
		data[keyNextCert], data[keyNextPrivate] = nil, nil
		state.trusted = []*x509.Certificate{next.leaf(), signing}
		state.pair = next
		why = "switched to the next " + a.Thing
	case len(earlier) > 0: // switched already
		state.trusted = append([]*x509.Certificate{signing}, earlier...)
	default:
		d.problem("Secret %s (%s): the stage %s comes after the stage %s: nothing was introduced yet", a.Secret, a.Thing, Switch, Introduce)
		return false
	}
	if bundle := encodeBundle(state.trusted); !bytes.Equal(bundle, found.Data[keyAuthority]) {
		data[keyAuthority] = bundle
		if why == "" {
			why = "wrote the bundle of " + a.Thing
		}
	}
	if len(data) > 0 {
		d.change(found, "", data, why)
	}
	return true
}
