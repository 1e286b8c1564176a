package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"maestrohub.io/uns/tools/mqttload/scenario"
)

// run is everything one run of a comparison showed: the result file, from which table
// and picture are made.
type run struct {
	Command  string    `json:"command"` // of make: bench or bench-cluster
	Measured time.Time `json:"measured"`
	Machine  machine   `json:"machine"`
	Rounds   int       `json:"rounds"`
	Duration string    `json:"duration"` // of a turn, where it is free
	// FloorP50 and FloorP99 are milliseconds of one fdatasync, the medians of all turns.
	FloorP50 float64 `json:"floorP50"`
	FloorP99 float64 `json:"floorP99"`
	// Brokers in the order of the columns; the others are set against the first.
	Brokers []broker `json:"brokers"`
	Turns   []turn   `json:"-"` // a line each at the file's end

	floors []floor
}

// broker is one column.
type broker struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Means   string `json:"means"` // what an acknowledgment does
}

// turn is what one broker showed in one case.
type turn struct {
	Case   string          `json:"case"`
	Broker string          `json:"broker"`
	Result scenario.Result `json:"result"`
}

func (r *run) addFloor(f floor) {
	r.floors = append(r.floors, f)
	var low, high []float64
	for _, f := range r.floors {
		low, high = append(low, milliseconds(f.P50)), append(high, milliseconds(f.P99))
	}
	r.FloorP50, r.FloorP99 = middle(low), middle(high)
}

// of returns the results of a broker in a case, in the order of the turns.
func (r *run) of(bench, broker string) (results []scenario.Result) {
	for _, t := range r.Turns {
		if t.Case == bench && t.Broker == broker {
			results = append(results, t.Result)
		}
	}
	return results
}

// cases are the cases there are turns of, as the code knows them.
func (r *run) cases() (measured []benchCase, err error) {
	known := cases(0)
	for _, t := range r.Turns {
		if !slices.ContainsFunc(known, func(c benchCase) bool { return c.name == t.Case }) {
			return nil, fmt.Errorf("the result file has a case %q that is not measured any more: measure again", t.Case)
		}
	}
	for _, c := range known {
		if slices.ContainsFunc(r.Turns, func(t turn) bool { return t.Case == c.name }) {
			measured = append(measured, c)
		}
	}
	return measured, nil
}

// figures are a figure of each of a broker's turns. A turn that failed or stalled gives
// none.
func (r *run) figures(bench, broker string, m measure) (values []float64) {
	for _, result := range r.of(bench, broker) {
		if v := m.of(result); (v > 0 || m.count) && result.Failure == "" && !result.Stalled {
			values = append(values, v)
		}
	}
	return values
}

// median is the middle of a figure over a broker's turns, NaN if none gave it.
func (r *run) median(bench, broker string, m measure) float64 {
	return middle(r.figures(bench, broker, m))
}

// middle is the median, NaN of nothing.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// save writes the result file; whoever reads it meanwhile finds the one before.
func (r *run) save(path string) error {
	head, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(head, []byte("\n}")))
	b.WriteString(",\n  \"turns\": [")
	for i, t := range r.Turns {
		line, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(line)
	}
	b.WriteString("\n  ]\n}\n")
	return replace(path, b.Bytes())
}

// load reads a result file.
func load(path string) (*run, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the result file: %w", err)
	}
	var file struct {
		run
		Turns []turn `json:"turns"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	file.run.Turns = file.Turns
	if len(file.Brokers) == 0 || len(file.Turns) == 0 {
		return nil, errors.New("read " + path + ": it has no brokers or no turns")
	}
	return &file.run, nil
}

// replace writes a file in one step.
func replace(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	next := path + ".new"
	if err := os.WriteFile(next, content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
