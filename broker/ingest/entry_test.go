package ingest

import (
	"reflect"
	"testing"

	"maestrohub.io/uns/broker/value"
)

func TestACopyOfAValueForgetsItsPositionOnly(t *testing.T) {
	full := &value.Value{
		Workspace: "acme", Name: "mHv1.0/acme/a", Timestamp: 1, Timed: true, Received: 3, Kind: value.Opaque,
		Payload: []byte("x"), Properties: value.Properties{ContentType: "y"}, QoS: 2, Position: 6,
	}
	e := &entry{v: full}
	e.copyValue()
	want := *full
	want.Position = 0
	if e.v == full || !reflect.DeepEqual(*e.v, want) {
		t.Errorf("copy %+v, want %+v", *e.v, want)
	}
}
