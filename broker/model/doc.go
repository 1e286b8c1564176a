// Package model knows what a workspace's topics may carry: which workspaces
// there are, which schema a topic's values follow, which topics retain their
// last value, and which values are an alarm.
//
// A Model is one YAML file, read strictly: an unknown key, a key that is there
// twice, a value of another type or out of range refuses the file as a whole,
// and the error names everything that is wrong with it, each with its line and
// key. A Model does not change; File replaces it by another when the file
// changes, and keeps it when the changed file is wrong.
//
//  1. Open reads the file and starts to watch it.
//  2. Current gives the model in force, for the price of an atomic read.
//  3. Workspace and Topic find what applies to a topic below a workspace.
//  4. Topic.Read takes a payload apart and says why it is refused, if it is.
//  5. Topic.Alarm says which threshold a reading has passed.
//  6. Close stops watching.
//
// Whether a client may publish at all is package access's concern, the names of
// topics are package topic's.
//
// # The model file
//
//	openWorkspaces                  true or false: whether workspaces that are not listed exist, without bindings and
//	                                with their slug as id. Default: true if none is listed, else false.
//	workspaces                      list. Default: none.
//	  slug                          required; the level in every topic. 1 to 63 letters, digits, "-" and "_", the
//	                                first a letter or digit; no two alike.
//	  id                            names what is stored for the workspace (such as its session log) and must never
//	                                change, the slug may. Form as slug; no two alike. Default: the slug.
//	  name                          for people. Default: none.
//	  bindings                      list. The first whose topic matches counts; one that an earlier one leaves nothing
//	                                to is an error. A topic without a binding takes any JSON value. Default: none.
//	    topic                       required; a topic filter (+ and #) below the workspace, such as line/+/temperature.
//	                                There a level that begins with "$" is like any other. Not _ingress, _alerts, _errors.
//	    schema                      one of the schemas' names. Default: any JSON value.
//	    retain                      true or false: the last value is kept for new subscribers. Default: false. Taken away
//	                                again, the kept value is given to nobody; put back, it is there as it was.
//	    minQuality                  good, uncertain or bad: values of a lower grade are refused. Default: bad, none is.
//	    maxPayloadBytes             1 to 268435455: larger payloads, envelope included, are refused. Default: as large
//	                                as the listener takes.
//	    alerts                      thresholds, for schemas of type number or integer; at least one. Default: none.
//	      warn
//	        above                   a value greater than this number is a warn alarm.
//	        below                   a value less than this number is.
//	      critical
//	        above, below            the same for a critical alarm, which goes before a warn one.
//	                                critical.below <= warn.below < warn.above <= critical.above, and all within the
//	                                schema's range: one that no allowed value can pass is an error.
//	schemas                         mapping of names to schemas. Names: 1 to 63 letters, digits, "-", "_" and ".", the
//	                                first a letter or digit. Default: none.
//	  type                          required; number, integer, boolean, string, object, array, any (every JSON value,
//	                                null too) or opaque (bytes the broker does not look into). 1.0 and 1e3 are integers.
//	  unit                          what a number is in, for people, 1 to 32 bytes; number and integer only.
//	  min, max                      hard range of a number, both ends allowed; number and integer only.
//	  jsonSchema                    a JSON Schema, inline, for every type but opaque. Draft 2020-12 unless its $schema
//	                                names another; formats are checked; patterns are RE2; references stay within it.
//
// example.yaml (see Example) shows each key.
//
// YAML anchors and aliases may be used, so that workspaces can share bindings;
// merge keys (<<) may not. A file has one document, at most 8 MiB, and is never
// empty: an empty file is what an interrupted write leaves. Replace the file by
// renaming another over it; a ConfigMap volume does so by itself.
//
// # Payloads
//
// A payload is JSON (RFC 8259) in UTF-8, nested at most 64 deep: a value as such,
// or an envelope. It is an envelope if it is an object with a member "value" and
// no members but these; any other object is itself the value.
//
//	value       the value.
//	timestamp   its time: an RFC 3339 string or milliseconds since 1970 (also with a fraction), from 1970 to 2261,
//	            kept to the nanosecond. Without it the value is of the moment it arrives.
//	quality     "good", "uncertain", "bad" or 0 to 255 as OPC DA grades it. Without it: good.
//
// A member that is in an envelope twice refuses the payload, as does one that is
// twice anywhere in a value that has a JSON Schema: parsers disagree on which
// counts. Where the broker does not look, a value is stored and delivered as it
// was published. A number under a schema of type number or integer, or in an
// exponent's form under a JSON Schema, must fit a 64-bit float.
package model
