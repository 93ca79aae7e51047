package effect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

const aDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// The host may itself act as somebody, by `kubectl config` or --as: nothing of that is left.
func TestRequestsAreSentAsTheAccountAlone(t *testing.T) {
	as := rest.ImpersonationConfig{UserName: "admin", UID: "1", Groups: []string{"system:masters"}, Extra: map[string][]string{"scopes": {"all"}}}
	for name, c := range map[string]struct {
		account rights.Account
		digest  string
		host    rest.ImpersonationConfig
		agent   string
		headers []string
	}{
		"an account": {
			rights.Account{Namespace: "a", Name: "b"},
			aDigest,
			rest.ImpersonationConfig{},
			"thole/1.2.3 plugin/demo revision/0123456789ab",
			[]string{"Impersonate-User: system:serviceaccount:a:b"},
		},
		"an account, and a host that acts as somebody": {
			rights.Account{Namespace: "a", Name: "b"}, "", as, "thole/1.2.3 plugin/demo", []string{"Impersonate-User: system:serviceaccount:a:b"},
		},
		"the host":                        {rights.Account{}, "0123", rest.ImpersonationConfig{}, "thole/1.2.3 plugin/demo revision/0123", nil},
		"the host, which acts as another": {rights.Account{}, aDigest, rest.ImpersonationConfig{UserName: "u"}, "thole/1.2.3 plugin/demo revision/0123456789ab", []string{"Impersonate-User: u"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, func(out http.ResponseWriter, r *http.Request) {
				var headers []string
				for header, values := range r.Header {
					if strings.HasPrefix(header, "Impersonate") {
						headers = append(headers, header+": "+strings.Join(values, ","))
					}
				}
				if got := r.Header.Get("User-Agent"); got != c.agent || !slices.Equal(headers, c.headers) {
					t.Errorf("%s %s: %q as %q", r.Method, r.URL, got, headers)
				}
				respond(200, "application/json", primary)(out, r)
			}, func(config *Config) {
				config.Account, config.Digest = c.account, c.digest
				config.REST = rest.CopyConfig(config.REST)
				config.REST.Impersonate = c.host
			})
			if _, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"a":1}}`)}); failure != nil {
				t.Error(failure)
			}
			if _, failure := w.WriteStatus(t.Context(), target, Status{Patch: []byte(`{"y":"z"}`)}); failure != nil {
				t.Error(failure)
			}
			if _, err := w.Live(t.Context(), widget.Kind, w.key(widget, "w")); err != nil {
				t.Error(err)
			}
			if n := len(w.wire.take()); n != 3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// The rules that the failures name are all that a host needs to act as an account. So is
// the right of older API servers.
func TestMissingRightToActAsAnAccountNamesTheHost(t *testing.T) {
	w := newCluster(t)
	w.create(serviceAccount, `{"metadata":{"name":"host"}}`)
	w.create(serviceAccount, `{"metadata":{"name":"plugin"}}`)
	for name, subject := range map[string]string{
		"host":   fmt.Sprintf(`{"kind":"ServiceAccount","namespace":%q,"name":"host"}`, w.ns),
		"plugin": fmt.Sprintf(`{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:serviceaccounts:%s"}`, w.ns), // added by the API server
	} {
		w.create(role, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		w.create(roleBinding, fmt.Sprintf(`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%[1]q},"subjects":[%s]}`, name, subject))
	}
	const widgets = `{"apiGroups":["test.thole.dev"],"resources":["widgets"],"verbs":["patch"]}`
	w.edit(role, "plugin", "", `{"rules":[`+widgets+`]}`)
	w.owner(list(configMap), nil)
	host := rest.AnonymousClientConfig(w.config)
	host.BearerToken = w.token("host")
	w.start(func(c *Config) { c.REST, c.Account = host, rights.Account{Namespace: w.ns, Name: "plugin"} })
	run := 0
	patch := func() *Failure {
		run++
		target := Target{Controller: controller(list(configMap), nil), Object: w.live(widget, "w")}
		_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: fmt.Appendf(nil, `{"metadata":{"labels":{"run":"%d"}}}`, run)})
		return failure
	}
	var rules []string
	for failure := patch(); failure != nil; {
		who := fmt.Sprintf(`"system:serviceaccount:%s:host", which is the host and acts as another user, lacks a right: add to a Role in namespace %q the rule {`, w.ns, w.ns)
		rest, ok := strings.CutPrefix(failure.Message, who)
		if !ok || failure.Class != abi.ClassDenied || failure.Reason != "Forbidden" || len(rules) > 5 {
			t.Fatalf("got %+v after %v", failure, rules)
		}
		rule, _, _ := strings.Cut(rest, "}")
		rules = append(rules, "{"+strings.NewReplacer("'", `"`, "apiGroups", `"apiGroups"`, "resources", `"resources"`, "verbs", `"verbs"`).Replace(rule)+"}")
		w.edit(role, "host", "", `{"rules":[`+strings.Join(rules, ",")+`]}`)
		missing := failure.Message
		w.until("the authorizer applies the rule", func() bool { failure = patch(); return failure == nil || failure.Message != missing })
	}
	want := []string{
		`{"apiGroups": ["test.thole.dev"], "resources": ["widgets"], "verbs": ["impersonate-on:serviceaccount:patch"]}`,
		`{"apiGroups": ["authentication.k8s.io"], "resources": ["serviceaccounts"], "verbs": ["impersonate:serviceaccount"]}`,
	}
	if !slices.Equal(rules, want) {
		t.Errorf("rules %v\nwant %v", rules, want)
	}
	// What the account may not do is denied to it, not to the host.
	w.edit(role, "plugin", "", `{"rules":[]}`)
	w.until("the account has lost its right", func() bool {
		failure := patch()
		return failure != nil && strings.HasPrefix(failure.Message, fmt.Sprintf(`"system:serviceaccount:%s:plugin" lacks a right: `, w.ns))
	})
	w.edit(role, "plugin", "", `{"rules":[`+widgets+`]}`)
	w.edit(role, "host", "", `{"rules":[{"apiGroups":[""],"resources":["serviceaccounts"],"resourceNames":["plugin"],"verbs":["impersonate"]}]}`)
	w.until("the right of older API servers is enough", func() bool { return patch() == nil })
}

// token returns a token of a service account.
func (w *world) token(name string) string {
	w.Helper()
	raw, err := w.admin.rest.Post().AbsPath("/api/v1/namespaces", w.ns, "serviceaccounts", name, "token").
		Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)).Do(w.Context()).Raw()
	if err != nil {
		w.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), `"token":"`)
	token, _, _ := strings.Cut(rest, `"`)
	return token
}

// A plugin that is replaced again and again writes no more than one that is not.
func TestRevisionsShareTheLimitsOfReadsAndWrites(t *testing.T) {
	w, target := newFake(t, respond(200, "application/json", primary))
	revision := 0
	swap := func(qps float32, burst int, dryRun bool) {
		before := w.Performer
		revision++
		w.start(func(c *Config) { c.QPS, c.Burst, c.DryRun, c.Digest = qps, burst, dryRun, fmt.Sprint(revision) })
		if revision > 1 {
			w.Inherit(before)
		}
	}
	n := 0
	writes := func() (sent int) {
		w.wire.take()
		for range 20 {
			n++
			mine := Target{Controller: target.Controller, Object: parse(t, strings.Replace(primary, `"u1"`, fmt.Sprintf(`"u%d"`, n), 1))}
			_, _ = w.PerformIntents(t.Context(), mine, &abi.Result{Patch: []byte(`{"spec":{"a":1}}`)})
		}
		return len(w.wire.take())
	}
	for _, step := range []struct {
		name   string
		qps    float32
		burst  int
		dryRun bool
		want   int
	}{
		{"the first revision has the burst", 0.001, 8, false, 8},
		{"other code has none left", 0.001, 8, false, 0},
		{"a larger burst is not filled", 0.001, 15, false, 0},
		{"a smaller one neither", 0.001, 3, false, 0},
		{"in a dry run neither", 0.001, 8, true, 0},
		{"nor after it", 0.001, 8, false, 0},
		{"no limit", 0, 1, false, 20},
		{"a new limit", 0.001, 2, false, 2},
	} {
		swap(step.qps, step.burst, step.dryRun)
		if got := writes(); got != step.want {
			t.Errorf("%s: %d writes, want %d", step.name, got, step.want)
		}
	}
	before := w.Performer
	swap(0.5, 3, false)
	if l := w.Performer.writes; l != before.writes || l.Limit() != rate.Limit(0.5) || l.Burst() != 3 {
		t.Errorf("the limit is %v at a burst of %d", l.Limit(), l.Burst())
	}
	reads := w.Performer.liveReads
	swap(0.5, 2, true)
	if w.Performer.liveReads != reads {
		t.Error("the limit of reads begins anew")
	}
}
