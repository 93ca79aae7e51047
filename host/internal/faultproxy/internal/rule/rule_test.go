package rule

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
)

func parseOne(t *testing.T, line string) Rule {
	t.Helper()
	rules, err := ParseAll(line)
	if err != nil || len(rules) != 1 {
		t.Fatalf("ParseAll(%q) = %d rules, %v", line, len(rules), err)
	}
	return rules[0]
}

func TestEveryPartOfARuleIsRead(t *testing.T) {
	text := func(s string) *string { return &s }
	pods := []Resource{{Name: "pods"}}
	for line, want := range map[string]Rule{
		"get pods lost":              {Verbs: []string{"get"}, Resources: pods, Fault: Lost},
		"  get\tpods  lost  # often": {Verbs: []string{"get"}, Resources: pods, Fault: Lost},
		"read pods half":             {Verbs: []string{"get", "list"}, Resources: pods, Fault: Half},
		"patch,apply pods/status,deployments.apps/*,*,*/scale hang": {
			Verbs: []string{"patch", "apply"}, Fault: Hang,
			Resources: []Resource{{"pods", "", "status"}, {"deployments", "apps", "*"}, {"*", "", "*"}, {"*", "", "scale"}},
		},
		"get boats.sea.example.dev lost": {Verbs: []string{"get"}, Resources: []Resource{{Name: "boats", Group: "sea.example.dev"}}, Fault: Lost},
		"get pods delay=1m30s":           {Verbs: []string{"get"}, Resources: pods, Fault: Delay, Delay: 90 * time.Second},
		`get pods status=429 retry-after=2s reason=TooManyRequests message="not now" body='{"a": "b"}'`: {
			Verbs: []string{"get"}, Resources: pods, Fault: Reply,
			Status: Status{Code: 429, Reason: "TooManyRequests", Message: "not now", RetryAfter: 2 * time.Second, Body: text(`{"a": "b"}`)},
		},
		`get pods status=500 body=`:             {Verbs: []string{"get"}, Resources: pods, Fault: Reply, Status: Status{Code: 500, Body: text("")}},
		`get pods status=500 body="a\"b\\\n#'"`: {Verbs: []string{"get"}, Resources: pods, Fault: Reply, Status: Status{Code: 500, Body: text("a\"b\\\n#'")}},
		`get pods kill after=0 times=3 for=1s namespace=n name=x user-agent="my plugin"`: {
			Verbs: []string{"get"}, Resources: pods, Fault: Kill, Times: 3, For: time.Second, Namespace: "n", Name: "x", UserAgent: "my plugin",
		},
	} {
		want.Text = strings.TrimSpace(line)
		if got := parseOne(t, line); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v\nwant %+v", line, got, want)
		}
	}
}

func TestRulesAreOnePerLine(t *testing.T) {
	rules, err := ParseAll("# faults\n\nget pods lost\r\n   # more\nlist pods cut\n")
	if err != nil || len(rules) != 2 || rules[0].Fault != Lost || rules[1].Text != "list pods cut" {
		t.Errorf("%+v, %v", rules, err)
	}
}

func TestBadRuleIsRefusedWithWhatIsAllowed(t *testing.T) {
	for line, want := range map[string]string{
		"get pods":                               `"get pods" is not a rule: want VERBS RESOURCES FAULT [key=value ...]`,
		"fetch pods lost":                        `unknown verb "fetch": want a list of *, apply, create,`,
		"get,,list pods lost":                    `unknown verb ""`,
		"get Pods lost":                          `"Pods" does not name a resource: want RESOURCE[.GROUP][/SUBRESOURCE]`,
		"get pods, lost":                         `"" does not name a resource`,
		"get pods/ lost":                         `"pods/" does not name a resource`,
		"get pods.* lost":                        `"pods.*" does not name a resource`,
		"get pods frob":                          `unknown fault "frob": want one of bookmarks-only, cut, delay=DURATION, freeze,`,
		"get pods times=1":                       `unknown fault "times=1"`,
		"get pods lost=1":                        `fault "lost=1" has no value: want lost`,
		"get pods delay":                         `fault "delay" needs a value: want delay=DURATION`,
		"get pods delay=5":                       `"5" is not a duration: want for example 100ms`,
		"get pods delay=-1s":                     `"-1s" is not a duration`,
		"get pods status=99":                     `"99" is not a code of a reply: want 200 or 400 to 599`,
		"get pods status=204":                    `"204" is not a code`,
		"get pods status=200":                    "status=200 needs body=TEXT",
		"get pods lost body=x":                   `unknown key "body" of the fault lost: want after, for, name, namespace, times, user-agent`,
		"get pods status=500 bodi=x":             `want after, body, for, message, name, namespace, reason, retry-after, times, user-agent`,
		"get pods lost times":                    `key "times" has no value: want times=VALUE`,
		"get pods lost times=0":                  `times: "0" is not a number of requests: want 1 or more`,
		"get pods lost after=-1":                 `after: "-1" is not a number of requests: want 0 or more`,
		"get pods lost times=1 times=2":          `key "times" is given twice`,
		"get pods lost name=":                    "name: is empty",
		"get pods status=429 retry-after=1500ms": "the header Retry-After has whole seconds, not 1500ms",
		"get pods freeze":                        "the fault freeze applies to the verb watch only: add it to the verbs",
		"watch pods stale":                       "the fault stale applies to the verb list only",
		`get pods lost name="x`:                  `the quote of "x is not closed`,
	} {
		rules, err := ParseAll("get pods lost\n" + line)
		if err == nil || rules != nil || !strings.HasPrefix(err.Error(), "line 2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v, %v\nwant %s", line, rules, err, want)
		}
	}
}

func TestRuleMatches(t *testing.T) {
	pod := request.Attributes{Verb: "get", Resource: "pods", Namespace: "a", Name: "x", UserAgent: "thole/ttl (linux)"}
	with := func(change func(*request.Attributes)) request.Attributes {
		changed := pod
		change(&changed)
		return changed
	}
	status := with(func(a *request.Attributes) { a.Resource = "pods/status" })
	metrics := with(func(a *request.Attributes) { a.Group = "metrics.k8s.io" })
	apply := with(func(a *request.Attributes) { a.Verb = "apply" })
	watch := with(func(a *request.Attributes) { a.Verb = "watch" })
	watchList := with(func(a *request.Attributes) { a.Verb, a.WatchList = "watch", true })
	list := with(func(a *request.Attributes) { a.Verb = "list" })
	discovery := request.Attributes{Verb: "get"}
	for _, c := range []struct {
		rule string
		a    request.Attributes
		want bool
	}{
		{"get pods lost", pod, true},
		{"list pods lost", pod, false},
		{"get secrets,pods lost", pod, true},
		{"get pods lost", metrics, true},
		{"get pods.metrics.k8s.io lost", metrics, true},
		{"get pods.metrics.k8s.io lost", pod, false},
		{"get pods lost", status, false},
		{"get pods/status lost", status, true},
		{"get pods/status lost", pod, false},
		{"get pods/* lost", status, true},
		{"get pods/* lost", pod, true},
		{"get */status lost", status, true},
		{"get */status lost", pod, false},
		{"* * lost", status, true},
		{"* * lost", discovery, false},
		{"patch * lost", apply, false},
		{"write * lost", apply, true},
		{"read * lost", apply, false},
		{"read * lost", watch, false},
		{"* * freeze", watch, true},
		{"* * freeze", pod, false},
		{"* * stale", list, true},
		{"list * stale", watchList, true},
		{"* * stale", watch, false},
		{"get pods lost namespace=a name=x user-agent=ttl", pod, true},
		{"get pods lost namespace=b", pod, false},
		{"get pods lost name=y", pod, false},
		{"get pods lost user-agent=podmanager", pod, false},
	} {
		r := parseOne(t, c.rule)
		if got := r.Matches(c.a); got != c.want {
			t.Errorf("%s matches %+v: %v, want %v", c.rule, c.a, got, c.want)
		}
	}
}

// FuzzParse checks what the proxy relies on in every rule that is accepted.
func FuzzParse(f *testing.F) {
	f.Add("get pods lost\n\n# x\nwrite *,a.b/c status=500 body=\"a b\" times=1")
	f.Add("watch * gone for=1h after=9 namespace='a")
	f.Add("* * delay=1ns user-agent=\"\\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseAll(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") || rules != nil {
				t.Fatalf("%d rules, %v", len(rules), err)
			}
			return
		}
		for _, r := range rules {
			again, err := ParseAll(r.Text)
			if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], r) {
				t.Fatalf("the text of a rule is another rule: %+v, %+v, %v", r, again, err)
			}
			if r.Times < 0 || r.After < 0 || r.For < 0 || r.Delay < 0 || (r.Fault == Delay) != (r.Delay > 0) || (r.Fault == Reply) != (r.Status.Code > 0) {
				t.Fatalf("%+v", r)
			}
			if !slices.ContainsFunc(r.Verbs, r.Fault.appliesTo) || len(r.Resources) == 0 {
				t.Fatalf("never applies: %+v", r)
			}
		}
	})
}
