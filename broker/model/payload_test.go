package model

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"maestrohub.io/uns/broker/value"
)

// plant returns a topic of the example model.
func plant(t testing.TB, name string) *Topic {
	t.Helper()
	m, err := Parse(Example())
	if err != nil {
		t.Fatal(err)
	}
	w, ok := m.Workspace("plant")
	if !ok {
		t.Fatal("the example has no workspace plant")
	}
	return w.Topic(name)
}

func TestPayloadsComeApart(t *testing.T) {
	at := func(text string) int64 {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.UnixNano()
	}
	const untimed = -1
	cases := []struct {
		payload, body string
		timestamp     int64
		quality       value.Quality
	}{
		{`21.5`, `21.5`, untimed, value.Good},
		{" \t\r\n[1, 2]\n", `[1, 2]`, untimed, value.Good},
		{`"x"`, `"x"`, untimed, value.Good},
		{`null`, `null`, untimed, value.Good},
		{`{}`, `{}`, untimed, value.Good},
		{` {"a":1} `, `{"a":1}`, untimed, value.Good},
		{`{"value":21.5}`, `21.5`, untimed, value.Good},
		{`{"value":null}`, `null`, untimed, value.Good},
		{`{ "value" : {"value":1} }`, `{"value":1}`, untimed, value.Good},
		{`{"value":1,"unit":"°C"}`, `{"value":1,"unit":"°C"}`, untimed, value.Good},
		{`{"timestamp":1,"quality":"bad"}`, `{"timestamp":1,"quality":"bad"}`, untimed, value.Good},
		{`{"value":1,"timestamp":"nonsense","x":0}`, `{"value":1,"timestamp":"nonsense","x":0}`, untimed, value.Good},
		{`{"value":1,"value":2,"x":0}`, `{"value":1,"value":2,"x":0}`, untimed, value.Good},
		{`{"Value":1}`, `{"Value":1}`, untimed, value.Good},
		{`{"v\u0061lue":7,"qu\u0061lity":"\u0062ad"}`, `7`, untimed, value.Bad},
		{`{"value":1,"quality":"uncertain"}`, `1`, untimed, value.Uncertain},
		{`{"quality":217,"value":1}`, `1`, untimed, 217},
		{`{"quality":0,"value":1}`, `1`, untimed, 0},
		{`{"value":1,"timestamp":0}`, `1`, 0, value.Good},
		{`{"value":1,"timestamp":-0}`, `1`, 0, value.Good},
		{`{"value":1,"timestamp":1790000000123}`, `1`, 1790000000123e6, value.Good},
		{`{"value":1,"timestamp":1790000000123.456789}`, `1`, 1790000000123456789, value.Good},
		{`{"value":1,"timestamp":1790000000123.4567899}`, `1`, 1790000000123456789, value.Good},
		{`{"value":1,"timestamp":0.000001}`, `1`, 1, value.Good},
		{`{"value":1,"timestamp":1.79e12}`, `1`, 1790000000000e6, value.Good},
		{`{"value":1,"timestamp":"2026-09-21T13:33:20Z"}`, `1`, at("2026-09-21T13:33:20Z"), value.Good},
		{`{"value":1,"timestamp":"2026-09-21t13:33:20.123456789z"}`, `1`, at("2026-09-21T13:33:20.123456789Z"), value.Good},
		{`{"value":1,"timestamp":"2026-09-21T15:33:20.5+02:00"}`, `1`, at("2026-09-21T15:33:20.5+02:00"), value.Good},
		{`{"value":1,"timestamp":"2024-02-29T00:00:00-23:59"}`, `1`, at("2024-02-29T00:00:00-23:59"), value.Good},
		{`{"value":1,"timestamp":"2016-12-31T23:59:60Z"}`, `1`, at("2017-01-01T00:00:00Z"), value.Good},
		{`{"value":1,"timestamp":"2026\u002d09-21T13:33:20Z"}`, `1`, at("2026-09-21T13:33:20Z"), value.Good},
		{`{"value":1,"timestamp":"2261-12-31T23:59:59.999999999Z"}`, `1`, at("2261-12-31T23:59:59.999999999Z"), value.Good},
		{"1" + strings.Repeat("0", 5000), "1" + strings.Repeat("0", 5000), untimed, value.Good},
		{"1e999999999999", "1e999999999999", untimed, value.Good},
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), untimed, value.Good},
	}
	for _, c := range cases {
		payload := append(make([]byte, 0, len(c.payload)+3), c.payload...)
		r, v := unbound.Read(payload)
		if v != nil {
			t.Errorf("%s is refused: %v", excerpt(payload), v)
			continue
		}
		if string(r.Body) != c.body || r.Quality != c.quality || r.Kind != value.JSON {
			t.Errorf("%s: body %s, quality %d, kind %d; want %s, %d, JSON", excerpt(payload), r.Body, r.Quality, r.Kind, c.body, c.quality)
		}
		if r.Timed != (c.timestamp != untimed) || r.Timed && r.Timestamp != c.timestamp {
			t.Errorf("%s: timed %v, %d; want %d", excerpt(payload), r.Timed, r.Timestamp, c.timestamp)
		}
		// The body's place in the payload is found again by their capacities.
		if from := cap(payload) - cap(r.Body); string(payload[from:from+len(r.Body)]) != c.body {
			t.Errorf("%s: the body is not a part of the payload", excerpt(payload))
		}
	}
}

func TestPayloadsAreRefusedWithTheirReason(t *testing.T) {
	m, err := Parse([]byte(`
schemas:
  int: {type: integer, min: 0}
  max: {type: number, max: 10, unit: °C}
  both: {type: number, min: -1e20, max: 10.5, unit: bar}
  text: {type: string}
  flag: {type: boolean}
  list: {type: array}
  any: {type: any}
  shape: {type: object, jsonSchema: {properties: {a: {type: number, maximum: 5}, b: {enum: [x]}, c: {}}, required: [c], additionalProperties: false}}
  raw: {type: opaque}
workspaces:
  - slug: w
    bindings:
      - {topic: int, schema: int}
      - {topic: max, schema: max}
      - {topic: both, schema: both}
      - {topic: text, schema: text, maxPayloadBytes: 10}
      - {topic: flag, schema: flag}
      - {topic: list, schema: list}
      - {topic: any, schema: any, minQuality: good}
      - {topic: shape, schema: shape}
      - {topic: raw, schema: raw, maxPayloadBytes: 3}
`))
	if err != nil {
		t.Fatal(err)
	}
	w, _ := m.Workspace("w")
	const notTime = "is not an RFC 3339 string or milliseconds since 1970"
	deep := strings.Repeat("[", MaxDepth+1)
	cases := []struct{ topic, payload, want string }{
		{"-", "", "payload: payload is empty: a value is needed"},
		{"-", " \n", "payload: payload is empty: a value is needed"},
		{"raw", "", "payload: payload is empty: a value is needed"},
		{"-", "\xff", "payload: payload is not UTF-8"},
		{"-", "\ufeff1", `payload: payload is not a JSON value this broker takes: at byte 0 it has 'ï' where a value should be`},
		{"-", "hello", "payload: payload is not a JSON value this broker takes: at byte 0 it has 'h' where a value should be"},
		{"-", "1 2", "payload: payload is not a JSON value this broker takes: at byte 2 it has '2' where the end should be"},
		{"-", "01", "payload: payload is not a JSON value this broker takes: at byte 1 it has '1' where the end should be"},
		{"-", "-", "payload: payload is not a JSON value this broker takes: at byte 1 it ends where a digit should be"},
		{"-", "NaN", "payload: payload is not a JSON value this broker takes: at byte 0 it has 'N' where a value should be"},
		{"-", `{"a":1,}`, "payload: payload is not a JSON value this broker takes: at byte 7 it has '}' where a member's name should be"},
		{"-", `{"a" 1}`, `payload: payload is not a JSON value this broker takes: at byte 5 it has '1' where ":" should be`},
		{"-", `[1 2]`, `payload: payload is not a JSON value this broker takes: at byte 3 it has '2' where "," or "]" should be`},
		{"-", `{"value":1`, `payload: payload is not a JSON value this broker takes: at byte 10 it ends where "," or "}" should be`},
		{"-", "\"a\n\"", "payload: payload is not a JSON value this broker takes: at byte 2 it has the control character 0x0a inside a string"},
		{"-", `"\x"`, `payload: payload is not a JSON value this broker takes: at byte 1 it has the unknown escape "\\x" inside a string`},
		{"-", `"\u12g4"`, `payload: payload is not a JSON value this broker takes: at byte 1 it has \u without four hexadecimal digits inside a string`},
		{"-", deep, "payload: payload is not a JSON value this broker takes: at byte 64 it nests deeper than 64 levels"},
		{"-", `{"value":` + deep[1:] + `0`, "payload: payload is not a JSON value this broker takes: at byte 72 it nests deeper than 64 levels"},
		{"-", `{"value":1,"value":2}`, `payload: payload's envelope has "value" twice`},
		{"-", `{"value":1,"quality":1,"qualit\u0079":2}`, `payload: payload's envelope has "qualit\u0079" twice`},
		{"-", `{"value":1,"timestamp":null}`, "payload: timestamp null " + notTime},
		{"-", `{"value":1,"timestamp":true}`, "payload: timestamp true " + notTime},
		{"-", `{"value":1,"timestamp":"yesterday"}`, `payload: timestamp "yesterday" ` + notTime},
		{"-", `{"value":1,"timestamp":"2026-09-21"}`, `payload: timestamp "2026-09-21" ` + notTime},
		{"-", `{"value":1,"timestamp":"2026-09-21T13:33:20"}`, `payload: timestamp "2026-09-21T13:33:20" ` + notTime},
		{"-", `{"value":1,"timestamp":"2026-02-29T13:33:20Z"}`, `payload: timestamp "2026-02-29T13:33:20Z" ` + notTime},
		{"-", `{"value":1,"timestamp":"2026-09-21T24:00:00Z"}`, `payload: timestamp "2026-09-21T24:00:00Z" ` + notTime},
		{"-", `{"value":1,"timestamp":"2026-09-21T13:33:60Z"}`, `payload: timestamp "2026-09-21T13:33:60Z" ` + notTime},
		{"-", `{"value":1,"timestamp":"2026-09-21T13:33:20.Z"}`, `payload: timestamp "2026-09-21T13:33:20.Z" ` + notTime},
		{"-", `{"value":1,"timestamp":"1969-12-31T23:59:59Z"}`, `payload: timestamp "1969-12-31T23:59:59Z" is outside 1970-01-01 to 2261-12-31`},
		{"-", `{"value":1,"timestamp":"2262-01-01T00:00:00Z"}`, `payload: timestamp "2262-01-01T00:00:00Z" is outside 1970-01-01 to 2261-12-31`},
		{"-", `{"value":1,"timestamp":"9999-12-31T23:59:59Z"}`, `payload: timestamp "9999-12-31T23:59:59Z" is outside 1970-01-01 to 2261-12-31`},
		{"-", `{"value":1,"timestamp":-1}`, "payload: timestamp -1 is outside 1970-01-01 to 2261-12-31"},
		{"-", `{"value":1,"timestamp":9214646400000}`, "payload: timestamp 9214646400000 is outside 1970-01-01 to 2261-12-31"},
		{"-", `{"value":1,"timestamp":1e400}`, "payload: timestamp 1e400 is outside 1970-01-01 to 2261-12-31"},
		{"-", `{"value":1,"quality":256}`, `payload: quality 256 is not "good", "uncertain", "bad" or 0 to 255`},
		{"-", `{"value":1,"quality":1.5}`, `payload: quality 1.5 is not "good", "uncertain", "bad" or 0 to 255`},
		{"-", `{"value":1,"quality":"GOOD"}`, `payload: quality "GOOD" is not "good", "uncertain", "bad" or 0 to 255`},
		{"int", `1.5`, "schema: value 1.5 is not an integer, schema int wants one"},
		{"int", `-1`, "range: value -1 is outside the schema's minimum of 0"},
		{"int", `"1"`, "schema: value is of type string, schema int wants integer"},
		{"int", `null`, "schema: value is of type null, schema int wants integer"},
		{"int", `1e400`, "schema: number 1e400 is beyond the range of a 64-bit float"},
		{"max", `{"value":10.01}`, "range: value 10.01 °C is outside the schema's maximum of 10 °C"},
		{"max", `{"value":1,"time":5}`, `schema: value is of type object, schema max wants number; an envelope has only "value", "timestamp" and "quality", this has "time" too`},
		{"both", `11`, "range: value 11 bar is outside the schema's range of -1e+20 to 10.5 bar"},
		{"both", "1" + strings.Repeat("0", 99), "range: value 1" + strings.Repeat("0", 63) + "... bar is outside the schema's range of -1e+20 to 10.5 bar"},
		{"both", `"` + strings.Repeat("€", 30) + `"`, "schema: value is of type string, schema both wants number"},
		{"text", `1`, "schema: value is of type number, schema text wants string"},
		{"text", `"123456789"`, "size: payload has 11 bytes, this topic takes at most 10"},
		{"flag", `0`, "schema: value is of type number, schema flag wants boolean"},
		{"list", `{}`, "schema: value is of type object, schema list wants array"},
		{"any", `{"value":1,"quality":191}`, "quality: quality 191 (uncertain) is below this topic's least, good"},
		{"shape", `{"value":{"c":1,"a":6}}`, "schema: value does not fit schema shape: at /a: maximum: got 6, want 5"},
		{"shape", `{"a":"x","b":"y","d":0}`, "schema: value does not fit schema shape: additional properties 'd' not allowed; missing property 'c'; at /a: got string, want number; and more"},
		{"shape", `{"c":1,"\u0063":2}`, `schema: value does not fit schema shape: member "c" is there twice`},
		{"shape", `{"c":{"d":[{"e":1,"e":2}]}}`, `schema: value does not fit schema shape: member "e" is there twice`},
		{"shape", `{"c":1e1000000000}`, "schema: value does not fit schema shape: number 1e1000000000 is beyond the range of a 64-bit float"},
		{"shape", `{"c":0,"\u0000":2}`, "schema: value does not fit schema shape: additional properties '\\x00' not allowed"},
		{"raw", "\x00\x01\x02\x03", "size: payload has 4 bytes, this topic takes at most 3"},
	}
	for _, c := range cases {
		_, v := w.Topic(c.topic).Read([]byte(c.payload))
		switch {
		case v == nil:
			t.Errorf("%s takes %s, want %s", c.topic, excerpt([]byte(c.payload)), c.want)
		case v.Error() != c.want:
			t.Errorf("%s refuses %s:\n got %s\nwant %s", c.topic, excerpt([]byte(c.payload)), v, c.want)
		}
	}
	for topic, payload := range map[string]string{
		"int": "1e3", "max": "-1e-400", "text": `"12345678"`, "flag": "false", "list": "[]", "any": "null", "raw": "\x00\xff", "shape": `{"c":1e-1000000000,"a":5}`,
	} {
		if _, v := w.Topic(topic).Read([]byte(payload)); v != nil {
			t.Errorf("%s refuses %s: %v", topic, payload, v)
		}
	}
}

func TestNoPartOfAValueIsTaken(t *testing.T) {
	whole := `{"a":[true,false,null,-1.5e+3,"\u00e9\n",{}],"b":{"c":[[]]}}`
	for n := range whole {
		if _, v := unbound.Read([]byte(whole[:n])); v == nil || v.Rule != RulePayload {
			t.Errorf("the first %d bytes, %s, are taken: %v", n, whole[:n], v)
		}
	}
	for _, payload := range []string{`{1:2}`, `tru`, `[nul]`, `[fals`, `-x`, `1.`, `1.e5`, `1e+`, `+1`, `.5`, `[,1]`, `{"a":1,,}`, `"\`, `"\u00`, `]`, `{"a":[}]`, `{]`, `[}`} {
		if r, v := unbound.Read([]byte(payload)); v == nil {
			t.Errorf("%s is taken as %s", payload, r.Body)
		}
	}
}

func TestAlarmsNameTheMostSevereThreshold(t *testing.T) {
	temperature := plant(t, "line/1/temperature")
	cases := []struct{ payload, level, detail string }{
		{"20", "", ""},
		{"80", "", ""},
		{"80.5", Warn, "value 80.5 °C is above the warn threshold of 80 °C"},
		{"95", Warn, "value 95 °C is above the warn threshold of 80 °C"},
		{"95.1", Critical, "value 95.1 °C is above the critical threshold of 95 °C"},
		{"4.5", Warn, "value 4.5 °C is below the warn threshold of 5 °C"},
		{"-1", Critical, "value -1 °C is below the critical threshold of 0 °C"},
		{`{"value":99,"quality":"uncertain"}`, Critical, "value 99 °C is above the critical threshold of 95 °C"},
	}
	for _, c := range cases {
		r, v := temperature.Read([]byte(c.payload))
		if v != nil {
			t.Fatal(v)
		}
		if level, detail := temperature.Alarm(r); level != c.level || detail != c.detail {
			t.Errorf("%s: alarm %q, %q; want %q, %q", c.payload, level, detail, c.level, c.detail)
		}
		// The same from the body alone, as one who kept no Reading has it.
		if level, _ := temperature.Alarm(Reading{Body: r.Body, Quality: r.Quality}); level != c.level {
			t.Errorf("%s: alarm %q from the body alone, want %q", r.Body, level, c.level)
		}
	}
	pressure := plant(t, "line/1/pressure")
	r, v := pressure.Read([]byte(`{"value":13,"quality":"bad"}`))
	if v != nil {
		t.Fatal(v)
	}
	if level, detail := pressure.Alarm(r); level != "" {
		t.Errorf("a value of bad quality is an alarm: %s, %s", level, detail)
	}
	if r, _ := unbound.Read([]byte("1e9")); unbound.Alerts {
		t.Errorf("a topic without thresholds has alerts, reading %+v", r)
	}
	for _, r := range []Reading{{}, {Body: []byte("1e999"), Quality: value.Good}, {Body: []byte(`"x"`), Quality: value.Good}} {
		if level, _ := temperature.Alarm(r); level != "" {
			t.Errorf("%q is an alarm", r.Body)
		}
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	cases := map[string]string{
		"line/1/temperature": `{"value":21.5,"timestamp":"2026-09-21T15:33:20.123+02:00","quality":"good"}`,
		"line/1/parts":       `{"value":17,"timestamp":1790000000123.5,"quality":192}`,
		"line/1/running":     `true`,
		"unbound":            `{"text":"` + strings.Repeat("x", 256) + `"}`,
		"camera/1":           "\xff\xd8",
	}
	for name, payload := range cases {
		topic, p := plant(t, name), []byte(payload)
		n := testing.AllocsPerRun(100, func() {
			if _, v := topic.Read(p); v != nil {
				t.Fatal(v)
			}
		})
		if n != 0 {
			t.Errorf("reading %s allocates %v times", payload, n)
		}
	}
}

// FuzzPayload holds the reading against encoding/json: the same payloads are
// valid, apart from the rules that go further, and the body is what the decoder
// finds.
func FuzzPayload(f *testing.F) {
	for _, s := range []string{
		`1`, `-0.5e+3`, `{"value":1,"timestamp":"2026-09-21T13:33:20.5+02:00","quality":"bad"}`, `{"value":{"a":[true,false,null]},"quality":3}`,
		`{"v\u0061lue":"\ud83d\ude00"}`, `{"value":1,"value":2}`, ` [ { } , [ ] , "" ] `, `{"value":1,"x":[]}`, `"\q"`, `{"timestamp":0}`, `{"value":1,"timestamp":1e12}`,
		strings.Repeat(`{"a":[`, 40), strings.Repeat("[", 70), "1e1000000000", "0123", "[1,]", `{"a":1,"a":2}`, "\x00", "\ufeff1", `{"value":1,"timestamp":"2016-12-31T23:59:60Z"}`,
	} {
		f.Add([]byte(s))
	}
	schema, defects := compileShape(map[string]any{"type": []any{"object", "array", "number", "string", "boolean", "null"}, "multipleOf": 0.5, "uniqueItems": true})
	if defects != nil {
		f.Fatal(defects)
	}
	shaped := newTopic()
	shaped.shape = schema
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, v := unbound.Read(payload)
		shaped.Read(payload)
		for _, name := range []Type{Number, Integer, String, Opaque} {
			typed := newTopic()
			typed.Type = name
			if r, v := typed.Read(payload); v == nil && name == Number && math.IsInf(r.number, 0) {
				t.Fatalf("%q is read as infinite", payload)
			}
		}
		valid := json.Valid(payload) && utf8.Valid(payload)
		if v == nil && !valid {
			t.Fatalf("%q is taken, but is not JSON", payload)
		}
		if v != nil {
			if len(v.Detail) > 600 || !utf8.ValidString(v.Detail) {
				t.Fatalf("%q: detail of %d bytes %q", payload, len(v.Detail), v.Detail)
			}
			if valid && !strings.Contains(v.Detail, "deeper") && !strings.Contains(v.Detail, "envelope") &&
				!strings.HasPrefix(v.Detail, "timestamp") && !strings.HasPrefix(v.Detail, "quality") {
				t.Fatalf("%q is JSON, but refused: %v", payload, v)
			}
			return
		}
		if !json.Valid(r.Body) || cap(payload)-cap(r.Body) < 0 {
			t.Fatalf("%q: body %q", payload, r.Body)
		}
		var members map[string]json.RawMessage
		envelope := payload[strings.IndexFunc(string(payload), func(c rune) bool { return !strings.ContainsRune(" \t\r\n", c) })] == '{' && json.Unmarshal(payload, &members) == nil && members["value"] != nil
		for name := range members {
			envelope = envelope && (name == "value" || name == "timestamp" || name == "quality")
		}
		want := strings.Trim(string(payload), " \t\r\n")
		if envelope {
			want = strings.Trim(string(members["value"]), " \t\r\n")
		}
		if string(r.Body) != want {
			t.Fatalf("%q: body %q, want %q", payload, r.Body, want)
		}
		if r.Timed {
			if r.Timestamp < 0 {
				t.Fatalf("%q: timestamp %d", payload, r.Timestamp)
			}
			var text string
			if json.Unmarshal(members["timestamp"], &text) == nil {
				if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.UnixNano() != r.Timestamp {
					t.Fatalf("%q: timestamp %d, want %d", payload, r.Timestamp, at.UnixNano())
				}
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	pad := strings.Repeat("x", 180)
	cases := []struct{ name, topic, payload string }{
		{"number", "line/1/temperature", `21.5`},
		{"envelope", "line/1/temperature", `{"value":21.5,"timestamp":"2026-09-21T13:33:20.123Z","quality":"good"}`},
		{"millis", "line/1/temperature", `{"value":21.5,"timestamp":1790000000123.456}`},
		{"string256", "unbound", `{"value":"` + pad + `","timestamp":"2026-09-21T13:33:20.123Z","quality":"good"}`},
		{"object256", "unbound", `{"value":{"name":"press-7","state":{"running":true,"speed":17.25,"parts":[1,2,3,4,5,6,7,8]},"motor":{"amps":3.5,"volts":398.25,"temperature":61.5},"operator":"shift-2","order":"A-20391-7","fault":null,"x":"abcdefghijk"},"timestamp":1790000000123,"quality":192}`},
		{"jsonSchema", "line/1/recipe", `{"value":{"name":"cake","steps":[{"heat":80,"seconds":60},{"heat":95.5,"seconds":600}]}}`},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			topic, payload := plant(b, c.topic), []byte(c.payload)
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if _, v := topic.Read(payload); v != nil {
					b.Fatal(v)
				}
			}
		})
	}
}
