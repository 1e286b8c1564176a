package server

import (
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/mqtt"
)

// reasonCode maps an outcome of the chain to the code of a PUBACK or PUBREC.
// retry says that the refusal is of the moment and the device should send the
// value again: it decides between acknowledging and closing for MQTT 3.
func reasonCode(r ingest.Refusal) (code mqtt.ReasonCode, retry bool) {
	switch r {
	case 0:
		return mqtt.Success, false
	case ingest.NotInbox, ingest.OtherWorkspace, ingest.OtherInbox, ingest.NotGranted:
		return mqtt.NotAuthorized, false
	case ingest.TopicInvalid:
		return mqtt.TopicNameInvalid, false
	case ingest.Payload:
		return mqtt.PayloadFormatInvalid, false
	case ingest.TooLarge, ingest.LogRefused:
		return mqtt.QuotaExceeded, false
	case ingest.Schema, ingest.Range, ingest.Quality, ingest.TooOld, ingest.Unstorable, ingest.HistorianQuarantined:
		return mqtt.ImplementationSpecificError, false
	default: // the historian, the session log or the retained store, or stopping
		return mqtt.UnspecifiedError, r.Passing() || r == ingest.Shed
	}
}
