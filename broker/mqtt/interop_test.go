package mqtt

import (
	"bytes"
	"reflect"
	"testing"

	v5 "github.com/eclipse/paho.golang/packets"
	v3 "github.com/eclipse/paho.mqtt.golang/packets"
)

// pahoLoses are the packets of which the other implementation keeps less.
var pahoLoses = map[string]string{
	"CONNECT 5 every property":                             "keeps two of the will's properties",
	"PUBLISH 5 empty correlation data, expiry 0, format 0": "writes no empty correlation data",
	"PUBLISH 5 every property":                             "keeps the last subscription identifier",
	"5 DISCONNECT":                                         "reads no DISCONNECT without a body",
	"5 AUTH again, empty data":                             "writes no empty authentication data",
}

// Another implementation reads our packets and writes what it understood: that is
// the packet we sent.
func TestPahoReadsWhatWeWriteAndWritesWhatWeRead(t *testing.T) {
	for _, x := range vectors {
		if x.encodeOnly || x.decodeOnly {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			if why := pahoLoses[x.name]; why != "" {
				t.Skip("paho.golang " + why)
			}
			ours := x.packet.Append(nil, x.v)
			var theirs bytes.Buffer
			if x.v >= V5 {
				p, err := v5.ReadPacket(bytes.NewReader(ours))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.WriteTo(&theirs); err != nil {
					t.Fatal(err)
				}
			} else {
				p, err := v3.ReadPacket(bytes.NewReader(ours))
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Write(&theirs); err != nil {
					t.Fatal(err)
				}
			}
			got, err := decode(x.v, theirs.Bytes())
			if err != nil {
				t.Fatalf("%x came back as %x: %v", ours, theirs.Bytes(), err)
			}
			if !reflect.DeepEqual(got, x.packet) {
				t.Errorf("%x came back as %x:\n %+v, want\n %+v", ours, theirs.Bytes(), got, x.packet)
			}
		})
	}
}
