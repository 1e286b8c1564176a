package secrets

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"
)

// certificate decides on a certificate's Secret.
func (d *decision) certificate(c *Certificate) {
	found := d.found[c.Secret]
	if found == nil {
		d.missingCertificate(c)
		return
	}
	if err := found.halfFilled(c.Thing, keyCertificate, keyPrivate, keyAuthority); err != nil {
		d.wrong = append(d.wrong, err)
		return
	}
	p, err := parsePair(found.Data[keyCertificate], found.Data[keyPrivate])
	if err != nil {
		d.problem("Secret %s (%s): keys %s and %s: %w; %s", c.Secret, c.Thing, keyCertificate, keyPrivate, err, c.remedy(found))
		return
	}
	trusted, err := parseBundle(found.Data[keyAuthority])
	if err != nil {
		d.problem("Secret %s (%s): key %s %w; %s", c.Secret, c.Thing, keyAuthority, err, c.remedy(found))
		return
	}
	if !found.made() || c.Existing {
		d.foreign(c, found, p, trusted)
		return
	}
	d.ours(c, found, p, trusted)
}

// remedy says how a Secret that does not fit is put right.
func (c *Certificate) remedy(found *Secret) string {
	if found.made() && !c.Existing {
		return "restore it from a backup, or delete it to have it made anew"
	}
	return "correct it where it came from"
}

func (d *decision) missingCertificate(c *Certificate) {
	if c.Existing {
		keys := strings.Join([]string{keyCertificate, keyPrivate, keyAuthority}, ", ")
		d.problem("Secret %s (%s) does not exist, and the values say that it is yours: create it with the keys %s, or let the chart make one", c.Secret, c.Thing, keys)
		return
	}
	a := d.authorities[c.Authority]
	if a == nil { // told already why
		return
	}
	p, err := newCertificate(c, a.pair, d.now)
	if err != nil {
		d.wrong = append(d.wrong, err)
		return
	}
	d.create(c.Secret, typeTLS, c.Renew, map[string][]byte{keyCertificate: p.chainPEM, keyPrivate: p.keyPEM, keyAuthority: encodeBundle(a.trusted)}, "made "+c.Thing)
}

// foreign checks a certificate that somebody else made.
func (d *decision) foreign(c *Certificate, found *Secret, p *pair, trusted []*x509.Certificate) {
	wrong := c.verify(p, trusted)
	if end := p.leaf().NotAfter; d.now.After(end) {
		wrong = append(wrong, "key "+keyCertificate+" ended on "+end.UTC().Format("2006-01-02"))
	} else if lastThird(p.leaf(), d.now) {
		d.note("Secret %s (%s) ends on %s: renew it where it came from", c.Secret, c.Thing, end.UTC().Format("2006-01-02"))
	}
	if len(wrong) > 0 {
		d.problem("Secret %s (%s): %s; correct it where it came from", c.Secret, c.Thing, strings.Join(wrong, "; "))
	}
	if !c.Existing && found.due(c.Renew) {
		d.note("Secret %s (%s) was not made by this chart: %q does not renew it", c.Secret, c.Thing, c.Renew)
	}
}

// ours keeps or renews a certificate that this package made.
func (d *decision) ours(c *Certificate, found *Secret, p *pair, trusted []*x509.Certificate) {
	a := d.authorities[c.Authority]
	ended := d.now.After(p.leaf().NotAfter)
	why := ""
	switch {
	case found.due(c.Renew):
		why = "renewed " + c.Thing + " for the word " + c.Renew
	case lastThird(p.leaf(), d.now):
		why = "renewed " + c.Thing + ", which ends on " + p.leaf().NotAfter.UTC().Format("2006-01-02")
	case a != nil && a.stage == Switch && !signs(a.leaf(), p.leaf()):
		why = "had " + c.Thing + " signed by the next authority"
	}
	if why != "" && a != nil {
		renewed, err := newCertificate(c, a.pair, d.now)
		if err != nil {
			d.wrong = append(d.wrong, err)
			return
		}
		d.change(found, c.Renew, map[string][]byte{keyCertificate: renewed.chainPEM, keyPrivate: renewed.keyPEM, keyAuthority: encodeBundle(a.trusted)}, why)
		return
	}
	if a == nil && d.found[c.Authority] == nil { // an authority that is there and wrong was told already
		if ended || found.due(c.Renew) {
			d.problem("Secret %s (%s) is to be renewed (it ends on %s), but its authority, Secret %s, is missing: restore that from a backup, or delete every certificate Secret of that authority to have all made anew and restart what uses them",
				c.Secret, c.Thing, p.leaf().NotAfter.UTC().Format("2006-01-02"), c.Authority)
		} else if why != "" {
			d.note("Secret %s (%s) ends on %s and cannot be renewed: its authority, Secret %s, is missing", c.Secret, c.Thing, p.leaf().NotAfter.UTC().Format("2006-01-02"), c.Authority)
		}
	}
	wrong := c.verify(p, trusted)
	if a != nil && !slices.ContainsFunc(a.trusted, func(t *x509.Certificate) bool { return signs(t, p.leaf()) }) {
		wrong = append(wrong, "key "+keyCertificate+" was signed by another authority than the one in Secret "+c.Authority.String())
	}
	if len(wrong) > 0 {
		d.problem("Secret %s (%s): %s; restore it from a backup, or give secrets.renew a new word for it to have it made anew", c.Secret, c.Thing, strings.Join(wrong, "; "))
		return
	}
	if a == nil {
		return
	}
	if bundle := encodeBundle(a.trusted); !bytes.Equal(bundle, found.Data[keyAuthority]) {
		d.change(found, "", map[string][]byte{keyAuthority: bundle}, "gave "+c.Thing+" the bundle of its authority")
	}
}
