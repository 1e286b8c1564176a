package secrets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Made is the label, with its value, of every Secret that this package made and may change.
const (
	Made      = "app.kubernetes.io/managed-by"
	MadeValue = "maestrohub-secrets"
)

// renewedAnnotation holds the word of the plan for which a Secret was last made anew.
const renewedAnnotation = "maestrohub.io/renewed-for"

// Keys of certificate Secrets. Authority Secrets may have next.crt and next.key besides.
const (
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
	keyAuthority   = "ca.crt"
	keyNextCert    = "next.crt"
	keyNextPrivate = "next.key"
)

// Types of Secrets, as Kubernetes names them.
const (
	typeTLS    = "kubernetes.io/tls"
	typeOpaque = "Opaque"
)

// Ref names a Secret.
type Ref struct {
	Namespace string `yaml:"namespace"`
	Name      string `yaml:"name"`
}

func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Secret is a Secret as far as this package looks at it.
type Secret struct {
	Ref
	Type        string
	Labels      map[string]string
	Annotations map[string]string
	Data        map[string][]byte
	// Revision is Kubernetes' resourceVersion: a change is made at it or not at all.
	Revision string
}

func (s *Secret) made() bool { return s.Labels[Made] == MadeValue }

// holds says which of the keys are there and which are missing.
func (s *Secret) holds(keys ...string) (has, lacks []string) {
	for _, k := range keys {
		if len(s.Data[k]) > 0 {
			has = append(has, k)
		} else {
			lacks = append(lacks, k)
		}
	}
	return has, lacks
}

// halfFilled is the complaint about a Secret that lacks keys; nil if it lacks none.
func (s *Secret) halfFilled(what string, keys ...string) error {
	has, lacks := s.holds(keys...)
	if len(lacks) == 0 {
		return nil
	}
	there := "none of the others"
	if len(has) > 0 {
		there = strings.Join(has, ", ")
	}
	advice := "complete it from where it came from"
	if s.made() {
		advice = "restore it from a backup, or delete the whole Secret to have all of it made anew"
	}
	return fmt.Errorf("Secret %s (%s) is half-filled: it has %s and lacks %s; %s", s.Ref, what, there, strings.Join(lacks, ", "), advice)
}

// Errors of a Store that callers branch on.
var (
	// ErrMissing: there is no such Secret.
	ErrMissing = errors.New("does not exist")
	// ErrConflict: somebody else created or changed it first.
	ErrConflict = errors.New("was created or changed by somebody else")
)

// Store is where Secrets are: a Kubernetes API.
type Store interface {
	// Read returns a Secret, or ErrMissing.
	Read(ctx context.Context, r Ref) (*Secret, error)
	// Create makes a Secret; ErrConflict if there is one.
	Create(ctx context.Context, s *Secret) error
	// Change sets data and annotations that differ (a nil value removes the key) if the Secret is still at the revision; else ErrConflict.
	Change(ctx context.Context, c Change) error
}

// Change is a change of a Secret that is there.
type Change struct {
	Ref
	Revision    string
	Data        map[string][]byte
	Annotations map[string]string
}

// write is one decision: a Secret to create or to change. why is for the log.
type write struct {
	create *Secret
	change *Change
	why    string
	// settles: it is made once what was written before it has reached the pods.
	settles bool
}

func (w write) ref() Ref {
	if w.create != nil {
		return w.create.Ref
	}
	return w.change.Ref
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
