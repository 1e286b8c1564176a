package access

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

func TestStoredFormsAreReadStrictly(t *testing.T) {
	fast, slow := fastHash("s3cret-s3cret"), slowHash("s3cret-s3cret")
	for _, stored := range []string{fast, slow} {
		h, err := parseHash(stored)
		fatal(t, err)
		if !h.matches("s3cret-s3cret") || h.matches("s3cret-s3creT") || h.matches("") {
			t.Errorf("%s: matches the wrong secrets", stored)
		}
		for i := range stored {
			if h, err := parseHash(stored[:i] + "~" + stored[i+1:]); err == nil && h.matches("s3cret-s3cret") {
				t.Errorf("%s: damaged at %d it still matches", stored, i)
			}
		}
	}
	if one, two := fastHash("x"), fastHash("x"); one == two {
		t.Error("two hashes of one secret are equal: no salt")
	}
	salt, sum := strings.Repeat("A", 22), strings.Repeat("A", 43)
	for _, bad := range []string{"", "secret", "$", "$sha256", "$sha256$" + salt, "$sha256$$" + sum, "$sha256$" + salt + "$" + sum + "$",
		"$sha256$" + salt + "$" + sum[:42], "$md5$" + salt + "$" + sum, "x$sha256$" + salt + "$" + sum, "$sha256$" + salt + "=$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt, "$argon2id$v=16$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=99999999,t=2,p=1$" + salt + "$" + sum, "$argon2id$v=19$m=19456,t=99,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=0$" + salt + "$" + sum, "$argon2id$v=19$m=4294967295,t=2,p=4294967295$" + salt + "$" + sum,
		"$argon2id$v=19$m=019456,t=2,p=1$" + salt + "$" + sum, "$argon2id$v=19$m=19456,t=2,p=1 $" + salt + "$" + sum} {
		if _, err := parseHash(bad); err == nil {
			t.Errorf("parseHash took %q", bad)
		}
	}
}

func TestOnlyRandomSecretsCountAsGenerated(t *testing.T) {
	for _, made := range []string{
		"", "password", "correct horse battery staple and a very long tail of more words",
		"CorrectHorseBatteryStapleCorrectHorseBatteryStaple", "correct-horse-battery-staple-2024-correct-horse",
		"Plant7-Press-Password-2024-January-ShiftA-Line1", strings.Repeat("a1B", 20), strings.Repeat("0123456789abcdef", 4),
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", strings.Repeat("deadbeef", 8), strings.Repeat("A", 43),
		"ThisIsTheSecretOfPress7InHall3OfOurPlantInUlm1984",
	} {
		if unguessable(made) {
			t.Errorf("%q counts as generated", made)
		}
	}
	failed := 0
	const rounds = 2000
	for range rounds {
		var raw [32]byte
		rand.Read(raw[:])
		for _, s := range []string{newSecret(), hex.EncodeToString(raw[:]), base64.StdEncoding.EncodeToString(raw[:]), base64.RawURLEncoding.EncodeToString(raw[:])} {
			if !unguessable(s) {
				failed++
			}
		}
	}
	if failed > 4*rounds/5 {
		t.Errorf("%d of %d random secrets count as chosen", failed, 4*rounds)
	}
	t.Logf("%.1f %% of random secrets count as chosen", 100*float64(failed)/(4*rounds))
}

func FuzzParseHash(f *testing.F) {
	f.Add(fastHash("x"))
	f.Add("$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=,t=,p=$$")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHash(s)
		if err == nil && (!h.slow || h.memory <= 1<<10) {
			h.matches("x")
		}
		unguessable(s)
	})
}
