package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// kind is how one sort of scalar value is read, checked and written.
type kind[V any] struct {
	unit    string                  // as shown in the reference; "" = none
	allowed string                  // the accepted values, as shown in the reference and in errors
	parse   func(string) (V, error) // the error says what is accepted: "must be ..."
	print   func(V) string
	path    bool // a path: counts from the configuration file's directory
	form    Form
}

// ranged adds the check low <= v <= high to a kind; with zero, 0 is accepted as well and means what zero says.
func ranged[V int64 | time.Duration](k kind[V], low, high V, zero string) kind[V] {
	k.allowed = k.print(low) + " to " + k.print(high)
	k.form.Low, k.form.High, k.form.Zero = int64(low), int64(high), zero != ""
	must := "must be " + k.allowed
	if zero != "" {
		k.allowed += ", or 0 (" + zero + ")"
		must += ", or 0 (" + zero + ")"
	}
	parse := k.parse
	k.parse = func(s string) (V, error) {
		v, err := parse(s)
		if err != nil {
			return 0, fmt.Errorf("%w, from %s", err, k.allowed)
		}
		if zero != "" && v == 0 {
			return 0, nil
		}
		if v < low || v > high {
			return 0, errors.New(must)
		}
		return v, nil
	}
	return k
}

func durations(low, high time.Duration) kind[time.Duration] {
	return durationsOrZero(low, high, "")
}

func durationsOrZero(low, high time.Duration, zero string) kind[time.Duration] {
	return ranged(kind[time.Duration]{unit: "duration", form: Form{Sort: Duration}, parse: parseDuration, print: formatDuration}, low, high, zero)
}

func sizes(low, high int64) kind[int64] { return sizesOrZero(low, high, "") }

func sizesOrZero(low, high int64, zero string) kind[int64] {
	return ranged(kind[int64]{unit: "bytes", form: Form{Sort: Bytes}, parse: parseBytes, print: formatBytes}, low, high, zero)
}

func counts(unit string, low, high int64) kind[int64] {
	parse := func(s string) (int64, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, errors.New("must be a whole number")
		}
		return n, nil
	}
	return ranged(kind[int64]{unit: unit, form: Form{Sort: Count}, parse: parse, print: func(n int64) string { return strconv.FormatInt(n, 10) }}, low, high, "")
}

// as is a kind of int64 for a field of another integer type; the range must fit that type.
func as[N int | uint16 | byte](k kind[int64]) kind[N] {
	return kind[N]{
		unit: k.unit, allowed: k.allowed, form: k.form,
		parse: func(s string) (N, error) { n, err := k.parse(s); return N(n), err },
		print: func(n N) string { return k.print(int64(n)) },
	}
}

func switches() kind[bool] {
	return kind[bool]{
		allowed: "true, false", form: Form{Sort: Switch},
		parse: func(s string) (bool, error) {
			switch strings.ToLower(s) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
			return false, errors.New("must be true or false")
		},
		print: strconv.FormatBool,
	}
}

// texts is a string that check accepts.
func texts(allowed string, check func(string) bool) kind[string] {
	return kind[string]{
		allowed: allowed,
		parse: func(s string) (string, error) {
			if !check(s) {
				return "", errors.New("must be " + allowed)
			}
			return s, nil
		},
		print: func(s string) string { return s },
	}
}

func words[S ~string](accepted ...S) kind[S] {
	names := make([]string, len(accepted))
	for i, a := range accepted {
		names[i] = string(a)
	}
	return kind[S]{
		allowed: strings.Join(names, ", "), form: Form{Sort: Word, Words: names},
		parse: func(s string) (S, error) {
			if !slices.Contains(names, s) {
				return "", errors.New("must be one of " + strings.Join(names, ", "))
			}
			return S(s), nil
		},
		print: func(s S) string { return string(s) },
	}
}

// addresses is where to listen: ":1883", "127.0.0.1:1883", "[::1]:1883"; port 0 lets the system choose.
func addresses() kind[string] {
	return texts(`host:port or ":port"`, func(s string) bool {
		_, port, err := net.SplitHostPort(s)
		if err != nil || strings.ContainsFunc(s, unicode.IsSpace) {
			return false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return err == nil
	})
}

func files(allowed string) kind[string] {
	k := texts(allowed, func(s string) bool { return !strings.ContainsRune(s, 0) })
	k.path = true
	return k
}

func secrets() kind[Secret] {
	return kind[Secret]{
		allowed: "text, or <key>_file: a file that holds it",
		parse:   func(s string) (Secret, error) { return Secret{value: s}, nil },
		print:   Secret.String,
	}
}

func webAddresses() kind[string] {
	return texts("an https:// address (http:// for localhost only)", func(s string) bool {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
			return false
		}
		return u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname())
	})
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// origins is what a browser's Origin header is compared with: "https://plant.example", or "*".
func origins() kind[string] {
	return texts(`"scheme://host", "scheme://host:port", or "*" for any`, func(s string) bool {
		if s == "*" {
			return true
		}
		u, err := url.Parse(s)
		return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == ""
	})
}

// networks is a CIDR; a single address stands for itself.
func networks() kind[netip.Prefix] {
	return kind[netip.Prefix]{
		allowed: "a network such as 10.0.0.0/8 or fd00::/8, or an address",
		parse: func(s string) (netip.Prefix, error) {
			if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
				return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
			}
			p, err := netip.ParsePrefix(s)
			if err != nil || p.Addr().Is4In6() {
				return netip.Prefix{}, errors.New("must be a network such as 10.0.0.0/8 or fd00::/8, or an address")
			}
			return p.Masked(), nil
		},
		print: netip.Prefix.String,
	}
}
