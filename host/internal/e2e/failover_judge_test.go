package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The versions of the writes are the order in which the API server has stored them; they are
// logged in the order of these lists, a second apart.
func TestJudgeFindsWritesOfAReplicaAfterItsTurn(t *testing.T) {
	t.Parallel()
	write := func(by, what string, version uint64, revision int) auditWrite {
		return auditWrite{by: by, what: what, code: 200, version: version, revision: revision}
	}
	refused := auditWrite{by: "a", what: "child", code: 409}
	for name, c := range map[string]struct {
		writes   []auditWrite
		turns    string
		late     int
		problems string // "" for none, where one late write is allowed
	}{
		"one after the other":            {[]auditWrite{write("a", "child", 1, 1), write("b", "child", 2, 2)}, "a b", 0, ""},
		"others write as they like":      {[]auditWrite{write("a", "child", 1, 1), write("", "child", 2, 0), write("b", "child", 3, 1), write("", "child", 4, 0)}, "a b", 0, ""},
		"logged in another order":        {[]auditWrite{write("b", "child", 2, 2), write("a", "other", 1, 1)}, "a b", 0, ""},
		"three turns":                    {[]auditWrite{write("a", "child", 1, 1), write("b", "child", 2, 2), write("c", "child", 3, 3)}, "a b c", 0, ""},
		"refused before the next writes": {[]auditWrite{write("a", "child", 1, 1), refused, write("b", "child", 2, 2)}, "a b", 0, ""},
		"refused after the next writes":  {[]auditWrite{write("a", "child", 1, 1), write("b", "child", 2, 2), refused}, "a b", 1, ""},
		"late, of another object":        {[]auditWrite{write("a", "child", 1, 1), write("b", "child", 2, 2), write("a", "other", 3, 1)}, "a b", 1, ""},
		"late, nothing changed":          {[]auditWrite{write("a", "child", 1, 1), write("b", "child", 2, 2), write("a", "child", 2, 2)}, "a b", 1, ""},
		"two that are late": {
			[]auditWrite{write("a", "child", 1, 1), write("b", "child", 2, 2), refused, refused},
			"a b", 2,
			"2 writes of a replica came after those of the next one",
		},
		"late, what the next has written": {
			[]auditWrite{write("a", "child", 1, 1), write("b", "child", 2, 2), write("a", "child", 3, 2)},
			"a b", 1,
			"a has changed child from revision 2, by b, to 2",
		},
		"older than before": {
			[]auditWrite{write("a", "child", 1, 2), write("b", "child", 2, 1)},
			"a b", 0,
			"b has changed child from revision 2, by a, to 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.writes {
				c.writes[i].received = time.Unix(int64(i), 0)
				c.writes[i].ended = c.writes[i].received.Add(time.Millisecond)
			}
			h := judge(c.writes)
			var turns []string
			for _, turn := range h.turns {
				turns = append(turns, turn.by)
			}
			if got := strings.Join(turns, " "); got != c.turns || len(h.late) != c.late {
				t.Errorf("turns of %q, %d late writes; want %q and %d", got, len(h.late), c.turns, c.late)
			}
			if got := fmt.Sprint(strings.Join(h.problems(1), "\n")); (got == "") != (c.problems == "") || !strings.Contains(got, c.problems) {
				t.Errorf("problems %q, want %q", got, c.problems)
			}
		})
	}
}
