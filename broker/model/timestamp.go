package model

import (
	"math"
	"strconv"
	"time"
)

// lastSecond is the first second a value's time may no longer have,
// 2262-01-01T00:00:00Z: later in that year nanoseconds since 1970 no longer fit
// 64 bits.
const lastSecond = 9_214_646_400

const timestampForm = "an RFC 3339 string or milliseconds since 1970"

// parseTimestamp returns the time a "timestamp" member gives, in nanoseconds
// since the Unix epoch. What is finer than a nanosecond is cut off, so that the
// same text always gives the same time.
func parseTimestamp(b []byte) (ns int64, problem string) {
	switch {
	case b[0] == '"':
		text := b[1 : len(b)-1]
		ns, problem = parseRFC3339(text)
		if problem != "" {
			if plain := unquote(b); plain != string(text) {
				return parseRFC3339([]byte(plain))
			}
		}
		return ns, problem
	case b[0] == '-' || digit(b[0]):
		return parseMillis(b)
	}
	return 0, "is not " + timestampForm
}

const outsideTime = "is outside 1970-01-01 to 2261-12-31"

// parseMillis reads milliseconds since the epoch, exactly unless they are
// written with an exponent.
func parseMillis(b []byte) (int64, string) {
	var millis, nanos int64
	i := 0
	for ; i < len(b) && digit(b[i]); i++ {
		if millis = millis*10 + int64(b[i]-'0'); millis >= lastSecond*1000 {
			break
		}
	}
	if i == len(b) {
		return millis * 1e6, ""
	}
	if b[i] == '.' && millis < lastSecond*1000 {
		unit := int64(1e5)
		for i++; i < len(b) && digit(b[i]); i++ {
			nanos += int64(b[i]-'0') * unit
			unit /= 10
		}
		if i == len(b) {
			return millis*1e6 + nanos, ""
		}
	}
	// A sign, an exponent, or too much.
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f < 0 || f >= lastSecond*1000 {
		return 0, outsideTime
	}
	whole := math.Floor(f)
	return int64(whole)*1e6 + int64((f-whole)*1e6), ""
}

// parseRFC3339 reads an RFC 3339 date-time. Unlike time.Parse it does not
// allocate for an offset and takes a leap second, as the second after it.
func parseRFC3339(b []byte) (ns int64, problem string) {
	const malformed = "is not " + timestampForm
	// 2006-01-02T15:04:05
	if len(b) < len("2006-01-02T15:04:05Z") || b[4] != '-' || b[7] != '-' || b[10]|0x20 != 't' || b[13] != ':' || b[16] != ':' {
		return 0, malformed
	}
	century, year := two(b), two(b[2:])
	month, day := two(b[5:]), two(b[8:])
	hour, minute, second := two(b[11:]), two(b[14:]), two(b[17:])
	if century < 0 || year < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 {
		return 0, malformed
	}
	year += century * 100
	if month < 1 || month > 12 || day < 1 || day > daysIn(month, year) {
		return 0, malformed
	}
	b = b[19:]
	if b[0] == '.' {
		unit := int64(1e8)
		i := 1
		for ; i < len(b) && digit(b[i]); i++ {
			ns += int64(b[i]-'0') * unit
			unit /= 10
		}
		if i == 1 {
			return 0, malformed
		}
		b = b[i:]
	}
	offset := 0
	switch {
	case len(b) == 1 && b[0]|0x20 == 'z':
	case len(b) == len("+01:00") && (b[0] == '+' || b[0] == '-') && b[3] == ':':
		h, m := two(b[1:]), two(b[4:])
		if h < 0 || h > 23 || m < 0 || m > 59 {
			return 0, malformed
		}
		if offset = h*3600 + m*60; b[0] == '-' {
			offset = -offset
		}
	default:
		return 0, malformed
	}
	unix := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC).Unix() - int64(offset)
	switch {
	case second == 60 && unix%86400 != 0:
		return 0, malformed // leap seconds are the last of a day
	case unix < 0 || unix >= lastSecond:
		return 0, outsideTime
	}
	return unix*1e9 + ns, ""
}

// two returns the number two digits give, -1 if they are none.
func two(b []byte) int {
	if !digit(b[0]) || !digit(b[1]) {
		return -1
	}
	return int(b[0]-'0')*10 + int(b[1]-'0')
}

func daysIn(month, year int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
