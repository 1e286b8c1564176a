package planted_test

// bug is a safeguard taken out of the broker.
type bug struct {
	name string
	// without says what is no longer done, and what breaks.
	without string
	file    string // below broker/
	old     string // stands in it once
	new     string // with planted("name") as its condition
	// seeds are tried in turn, with args; violation is what one of them has to say.
	seeds     []uint64
	args      []string
	violation string
}

// bugs are those that have been found with their first seed. Names with a B are of the
// interleavings that the design was tested against.
var bugs = []bug{
	{
		name: "B3", without: "a QoS 2 PUBLISH leaves after the record of its identifier: it is sent again under another",
		file:  "server/deliver.go",
		old:   "if entry.QoS == 2 && c.clustered() && entry.Source != session.FromLive {",
		new:   "if entry.QoS == 2 && c.clustered() && entry.Source != session.FromLive && !planted(\"B3\") {",
		seeds: []uint64{12, 13, 14, 15}, args: []string{"-long", "5m"}, violation: "though both sides are QoS 2",
	},
	{
		name: "B4", without: "a take-up waits until the owner before has settled what it was sent",
		file:  "server/owner.go",
		old:   "	if old == nil || old.Ending != cluster.Held || old.Incarnation.Replica == sh.Replica {\n",
		new:   "	if planted(\"B4\") || old == nil || old.Ending != cluster.Held || old.Incarnation.Replica == sh.Replica {\n",
		seeds: []uint64{1, 2, 3, 4, 5, 6}, args: []string{"-long", "3m"}, violation: "though both sides are QoS 2",
	},
	{
		name: "will", without: "the owner record is touched before a will is sent: it is sent though its device is back",
		file:  "cluster/sending.go",
		old:   "	dead, err := s.touch(ctx, &marked, how, may)\n",
		new:   "	dead, err := s.touch(ctx, &marked, how, may)\n	if planted(\"will\") {\n		dead = false\n	}\n",
		seeds: []uint64{1, 2, 3, 4, 5, 6}, args: []string{"-long", "3m"}, violation: "was sent though the device",
	},
	{
		name: "pubcomp", without: "a PUBCOMP leaves after the identifier is taken off the record: a new value under it is taken for the old one",
		file:  "server/publish.go",
		old:   "		if known && c.clustered() {\n",
		new:   "		if known && c.clustered() && !planted(\"pubcomp\") {\n",
		seeds: []uint64{1, 2, 3, 4, 5, 6}, args: []string{"-long", "3m"}, violation: "is not in the historian",
	},
	{
		name: "pubrel", without: "a PUBREL leaves after the record says so: the PUBLISH is sent again after it",
		file:  "server/publish.go",
		old:   "		case answer && reason == mqtt.Success && c.clustered():\n",
		new:   "		case answer && reason == mqtt.Success && c.clustered() && !planted(\"pubrel\"):\n",
		seeds: []uint64{1, 2, 3, 4, 5, 6}, args: []string{"-long", "3m"}, violation: "though both sides are QoS 2",
	},
	{
		name: "cursor", without: "the cursor lists what was sent and is not acknowledged: it is not sent again after a move",
		file:  "server/records.go",
		old:   "		if e.Source == session.FromLive {\n			continue\n",
		new:   "		if e.Source == session.FromLive || planted(\"cursor\") {\n			continue\n",
		seeds: []uint64{1, 2, 3, 4, 5, 6}, args: []string{"-long", "3m"}, violation: "did not come to a persistent session",
	},
	{
		name: "suback", without: "a SUBACK waits for the other replicas: what they acknowledge meanwhile is wanted by nobody they know",
		file:  "server/routes.go",
		old:   "	ctx, cancel := context.WithTimeout(ctx, wait)\n	defer cancel()\n",
		new:   "	if planted(\"suback\") {\n		return true\n	}\n	ctx, cancel := context.WithTimeout(ctx, wait)\n	defer cancel()\n",
		seeds: []uint64{2, 1, 3, 4, 5, 6}, args: []string{"-long", "3m"}, violation: "did not come to",
	},
	{
		name: "history", without: "a value is acknowledged once the historian has it",
		file:  "ingest/store.go",
		old:   "			if err != nil {\n				l.judge(j, err)\n",
		new:   "			if err != nil && !planted(\"history\") {\n				l.judge(j, err)\n",
		seeds: []uint64{2, 1, 3, 4, 5, 6}, args: []string{"-long", "3m"}, violation: "is not in the historian",
	},
}
