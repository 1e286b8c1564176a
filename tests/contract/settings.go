package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"maestrohub.io/uns/broker/config"
)

// SettingsFile is the table by which the chart's templates turn values into
// config.yaml and check what JSON Schema cannot: chart/files/settings.json.
//
// Durations are in seconds there, since templates count in floating point.
func SettingsFile(values *Value) ([]byte, error) {
	type entry struct {
		Value    string  `json:"value"`
		Key      string  `json:"key"`
		Sort     string  `json:"sort"`
		Accepted string  `json:"accepted"`
		Low      float64 `json:"low,omitempty"`
		High     float64 `json:"high,omitempty"`
		Zero     bool    `json:"zero,omitempty"`
		Default  string  `json:"default,omitempty"` // of a port, which Services need too
	}
	var entries []entry
	for _, v := range values.Settings() {
		row := v.Config
		e := entry{Value: v.Path, Key: row.Key, Sort: "other", Accepted: row.Accepted}
		switch {
		case v.IsPort():
			e.Sort, e.Low, e.High = "port", 1, 65535
			e.Accepted, e.Default = "1 to 65535", strings.TrimPrefix(row.Default, ":")
		case !row.Form.List:
			e.Low, e.High, e.Zero = float64(row.Form.Low), float64(row.Form.High), row.Form.Zero
			switch row.Form.Sort {
			case config.Count:
				e.Sort = "count"
			case config.Bytes:
				e.Sort = "bytes"
			case config.Duration:
				e.Sort = "duration"
				e.Low, e.High = time.Duration(row.Form.Low).Seconds(), time.Duration(row.Form.High).Seconds()
			}
		}
		entries = append(entries, e)
	}
	// One entry a line, so that a change shows as the line it is.
	var b bytes.Buffer
	b.WriteString("{\"settings\": [\n")
	for i, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", e.Value, err)
		}
		b.WriteString("  ")
		b.Write(line)
		if i < len(entries)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	return b.Bytes(), nil
}
