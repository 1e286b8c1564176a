package config

import "strings"

// suggestion is the known key nearest to an unknown one, as the end of a sentence; "" when none is near.
// A key of the right name in the wrong place is found as well.
func suggestion[T any](key string, rows []setting[T], base string) string {
	path, name := split(key)
	best, bestDistance := "", 1+max(2, len(name)/3)
	consider := func(candidate string) {
		under, leaf := split(candidate)
		d := distance(strings.ToLower(name), strings.ToLower(leaf))
		if under != path {
			d++ // of two equally near, the one in the same place
		}
		if d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	for _, s := range rows {
		full := below(base, s.key)
		for candidate := full; candidate != ""; candidate, _ = split(candidate) {
			consider(candidate)
		}
		if s.secret {
			consider(full + "_file")
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// split cuts a key before its last level.
func split(key string) (path, name string) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", key
	}
	return key[:i], key[i+1:]
}

// distance is the number of single-byte edits between a and b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
