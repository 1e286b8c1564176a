package timescale

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"maestrohub.io/uns/broker/topic"
)

// chosen is what a filter and a reader's rights leave of a workspace.
type chosen struct {
	workspace int32
	ids       []int32
	// all says that every topic of the workspace is chosen, also those to come; ids
	// is empty then.
	all bool
	// total is the number of topics of the workspace, counted up to manyTopics.
	total int
}

func (c *chosen) empty() bool { return !c.all && len(c.ids) == 0 }

// manyTopics is how far the topics of a workspace are counted.
const manyTopics = 1_000_000

// choose finds the topics of a workspace that a filter matches and the reader may
// see.
func (h *Historian) choose(ctx context.Context, s *session, workspace, filter string, visible func(string) bool) (*chosen, error) {
	c := &chosen{}
	err := s.QueryRow(ctx, h.sql.Replace(`SELECT w.id, (SELECT count(*) FROM (SELECT FROM @schema.topic t WHERE t.workspace_id = w.id LIMIT $2) x)
		FROM @schema.workspace w WHERE w.name = $1`), pgx.QueryExecModeExec, workspace, manyTopics).Scan(&c.workspace, &c.total)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if filter == "#" && visible == nil {
		c.all = true
		return c, nil
	}
	var rows pgx.Rows
	if !strings.ContainsAny(filter, "+#") {
		rows, err = s.Query(ctx, h.sql.Replace(`SELECT id, name FROM @schema.topic WHERE workspace_id = $1 AND digest = $2`),
			pgx.QueryExecModeExec, c.workspace, pgtype.UUID{Bytes: [16]byte(topicDigest(filter)), Valid: true})
	} else {
		like, pattern := narrow(filter)
		rows, err = s.Query(ctx, h.sql.Replace(`SELECT id, name FROM @schema.topic
			WHERE workspace_id = $1 AND left(name, 250) LIKE $2 AND name ~ $3`), pgx.QueryExecModeExec, c.workspace, like, pattern)
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int32
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return nil, err
		}
		if topic.MatchBelow(filter, name) && (visible == nil || visible(name)) {
			c.ids = append(c.ids, id)
		}
	}
	return c, rows.Err()
}

// maxPattern is the longest filter that is made a pattern of; of a longer one the
// names are compared here.
const maxPattern = 1000

// narrow returns what the database can leave out of the names a filter could match:
// a LIKE pattern for the first 250 characters, which an index answers, and a regular
// expression for all of it. The comparison that counts is topic.MatchBelow.
func narrow(filter string) (like, pattern string) {
	literal := filter[:strings.IndexAny(filter, "+#")]
	// "a/b/#" matches "a/b" too.
	literal = strings.TrimSuffix(literal, "/")
	if runes := []rune(literal); len(runes) > 250 {
		literal = string(runes[:250])
	}
	like = likeSpecial.ReplaceAllString(literal, `\$0`) + "%"
	if len(filter) > maxPattern {
		return like, ""
	}
	var b strings.Builder
	b.WriteString("^")
	for i, level := range strings.Split(filter, "/") {
		if level == "#" {
			if i == 0 {
				return like, ""
			}
			b.WriteString("(/.*)?")
			break
		}
		if i > 0 {
			b.WriteString("/")
		}
		if level == "+" {
			b.WriteString("[^/]*")
		} else {
			b.WriteString(patternSpecial.ReplaceAllString(level, `\$0`))
		}
	}
	b.WriteString("$")
	return like, b.String()
}

var (
	likeSpecial    = regexp.MustCompile(`[\\%_]`)
	patternSpecial = regexp.MustCompile(`[][\\^$.|?*+(){}]`)
)
