package timescale

import (
	"encoding/binary"
	"slices"
)

// insert stores the rows given as arrays, one array per column. Positions follow the
// order of the batch (ord) whatever the order the rows are written in; what is there
// already is left as it is and not returned. The subquery makes the one call of
// nextval of the statement.
const insert = `INSERT INTO @schema.value
	(time, position, received, identity, topic_id, workspace_id, nanos, quality, kind, timed, publisher, body)
SELECT time, (SELECT nextval('@schema.position_block')) + ord, received, identity, topic_id, workspace_id,
	nanos, quality, kind, timed, publisher, body
FROM unnest($1::timestamptz[], $2::int[], $3::bigint[], $4::uuid[], $5::int[], $6::int[],
		$7::smallint[], $8::smallint[], $9::smallint[], $10::boolean[], $11::text[], $12::bytea[])
	AS v (time, ord, received, identity, topic_id, workspace_id, nanos, quality, kind, timed, publisher, body)
ON CONFLICT (topic_id, time, nanos, identity) DO NOTHING
RETURNING position`

// find returns the Positions of rows given by their keys; a null Position is a row
// that is not there.
const find = `SELECT v.position
FROM unnest($1::timestamptz[], $2::int[], $3::smallint[], $4::uuid[])
	WITH ORDINALITY AS k (time, topic_id, nanos, identity, ord)
LEFT JOIN @schema.value v ON v.topic_id = k.topic_id AND v.time = k.time AND v.nanos = k.nanos AND v.identity = k.identity
	AND v.time BETWEEN $5 AND $6
ORDER BY k.ord`

// OIDs of PostgreSQL's built-in types.
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidTimestamptz = 1184
	oidUUID        = 2950
)

// arrays encodes columns in PostgreSQL's binary format, reusing its memory.
type arrays struct {
	columns [12][]byte
	values  [12][]byte
	order   []*row
}

var binaryFormat = []int16{1}

// insert encodes the parameters of insert for rows in the order of the batch.
func (a *arrays) insert(rows []*row) [][]byte {
	for i, r := range rows {
		r.ord = int32(i)
	}
	a.order = append(a.order[:0], rows...)
	slices.SortFunc(a.order, keyOrder)
	order := a.order
	return a.encode(len(order),
		column{oidTimestamptz, 8, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint64(dst, uint64(order[i].micros)) }},
		column{oidInt4, 4, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint32(dst, uint32(order[i].ord)) }},
		column{oidInt8, 8, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint64(dst, uint64(order[i].v.Received)) }},
		column{oidUUID, 16, func(dst []byte, i int) []byte { return append(dst, order[i].identity[:]...) }},
		column{oidInt4, 4, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint32(dst, uint32(order[i].topic.id)) }},
		column{oidInt4, 4, func(dst []byte, i int) []byte {
			return binary.BigEndian.AppendUint32(dst, uint32(order[i].topic.workspace))
		}},
		column{oidInt2, 2, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint16(dst, uint16(order[i].nanos)) }},
		column{oidInt2, 2, func(dst []byte, i int) []byte { return append(dst, 0, byte(order[i].v.Quality)) }},
		column{oidInt2, 2, func(dst []byte, i int) []byte { return append(dst, 0, byte(order[i].v.Kind)) }},
		column{oidBool, 1, func(dst []byte, i int) []byte {
			if order[i].v.Timed {
				return append(dst, 1)
			}
			return append(dst, 0)
		}},
		column{oidText, -1, func(dst []byte, i int) []byte { return append(dst, order[i].v.Publisher...) }},
		column{oidBytea, -1, func(dst []byte, i int) []byte { return append(dst, order[i].v.Body...) }},
	)
}

// keys encodes the parameters of find.
func (a *arrays) keys(rows []*row) [][]byte {
	least, most := rows[0].micros, rows[0].micros
	for _, r := range rows {
		least, most = min(least, r.micros), max(most, r.micros)
	}
	parameters := a.encode(len(rows),
		column{oidTimestamptz, 8, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint64(dst, uint64(rows[i].micros)) }},
		column{oidInt4, 4, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint32(dst, uint32(rows[i].topic.id)) }},
		column{oidInt2, 2, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint16(dst, uint16(rows[i].nanos)) }},
		column{oidUUID, 16, func(dst []byte, i int) []byte { return append(dst, rows[i].identity[:]...) }},
	)
	return append(parameters[:len(parameters):len(parameters)],
		binary.BigEndian.AppendUint64(nil, uint64(least)), binary.BigEndian.AppendUint64(nil, uint64(most)))
}

// column says how to encode the elements of one array.
type column struct {
	oid     uint32
	size    int // of an element, -1 if they differ
	element func(dst []byte, i int) []byte
}

// encode encodes arrays of n elements. The result is valid until the next call.
func (a *arrays) encode(n int, columns ...column) [][]byte {
	for c, col := range columns {
		dst := a.columns[c][:0]
		dst = appendArrayHeader(dst, col.oid, n)
		for i := range n {
			if col.size >= 0 {
				dst = col.element(binary.BigEndian.AppendUint32(dst, uint32(col.size)), i)
				continue
			}
			at := len(dst)
			dst = col.element(append(dst, 0, 0, 0, 0), i)
			binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
		}
		a.columns[c], a.values[c] = dst, dst
	}
	return a.values[:len(columns)]
}

// appendArrayHeader begins a one-dimensional array without nulls.
func appendArrayHeader(dst []byte, oid uint32, n int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 1) // dimensions
	dst = binary.BigEndian.AppendUint32(dst, 0) // no nulls
	dst = binary.BigEndian.AppendUint32(dst, oid)
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	return binary.BigEndian.AppendUint32(dst, 1) // index of the first
}

// large reports whether the memory is more than is worth keeping.
func (a *arrays) large() bool {
	total := 0
	for _, c := range a.columns {
		total += cap(c)
	}
	clear(a.order)
	return total > 4<<20
}
