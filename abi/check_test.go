package abi

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refusal is a text with the complete error that decoding it must return.
type refusal struct{ text, want string }

func expectRefused[T any](t *testing.T, decode func([]byte) (*T, error), refusals []refusal) {
	t.Helper()
	for _, c := range refusals {
		if _, err := decode([]byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%.300s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// manifestWith returns a manifest with one controller that has these members.
func manifestWith(members string) string {
	return `{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"},` + members + `}]}`
}

func conditionsWith(members string) string { return manifestWith(`"conditions":{` + members + `}`) }

// retryWith returns a manifest with one controller with these members of retry.
func retryWith(members string) string { return manifestWith(`"retry":{` + members + `}`) }

func list(n int, entry string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
}

func TestInvalidManifestIsRefused(t *testing.T) {
	const label = " is not a DNS label (lower case letters, digits and '-', at most 63)"
	const one = `"controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"}}]`
	long := strings.Repeat("x", 64)
	expectRefused(t, DecodeManifest, []refusal{
		{``, `the text ends where an object is expected (offset 0)`},
		{"{\"name\":\"\xff\"}", `the text is not UTF-8 (offset 9)`},
		{`{"name":"a"}`, `controllers: is empty: register at least one controller`},
		{`{"name":"a","controllers":[]}`, `controllers: is empty: register at least one controller`},
		{`{"name":"a","controlers":[]}`, `unknown field "controlers", did you mean "controllers"? (offset 25)`},
		{`{"Name":"a"}`, `unknown field "Name", did you mean "name"? (offset 8)`},
		{`{"name":"a","name":"b"}`, `name: field given twice (offset 19)`},
		{`{"name":"A",` + one + `}`, `name: "A"` + label},
		{`{` + one + `}`, `name: ""` + label},
		{`{"name":"` + long + `",` + one + `}`, `name: "` + long + `"` + label},
		{`{"name":"-a",` + one + `}`, `name: "-a"` + label},
		{`{"name":"a","memoVersion":"` + strings.Repeat("1", 129) + `",` + one + `}`, `memoVersion: 129 bytes, the limit is 128`},
		{`{"name":"a","version":"` + strings.Repeat("1", 129) + `",` + one + `}`, `version: 129 bytes, the limit is 128`},
		{`{"name":"a","features":[],` + one + `}`, `unknown field "features" (offset 23)`},
		{manifestWith(`"prune":true`), `controllers[0].prune: has no effect without owns: list the kinds there whose objects shall be pruned`},
		{`{"controllers":` + list(65, `{}`) + `}`, `controllers[64]: more than 64 entries (offset 208)`},
		{`{"name":"a","controllers":[{"for":{"apiVersion":"v1","kind":"K"}}]}`, `controllers[0].name: ""` + label},
		{`{"name":"a","controllers":[{"name":"b"}]}`, `controllers[0].for.apiVersion: is required: a group and version, such as apps/v1`},
		{`{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1"}}]}`, `controllers[0].for.kind: is required, such as Deployment`},
		{`{"name":"a","controllers":[{"name":"b","for":{"kynd":"K"}}]}`, `controllers[0].for: unknown field "kynd", did you mean "kind"? (offset 53)`},
		{
			`{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"}},{"name":"b","for":{"apiVersion":"v1","kind":"L"}}]}`,
			`controllers[1].name: "b" is given twice`,
		},
		{manifestWith(`"owns":[{"apiVersion":"apps","kind":"A b"}]`), `controllers[0].owns[0].kind: "A b" is not a kind, such as Deployment`},
		{manifestWith(`"reads":[{"apiVersion":"apps/v1/x","kind":"A"}]`), `controllers[0].reads[0].apiVersion: "apps/v1/x" is not a group and version, such as apps/v1`},
		{manifestWith(`"reads":[{"apiVersion":"/v1","kind":"A"}]`), `controllers[0].reads[0].apiVersion: "/v1" is not a group and version, such as apps/v1`},
		{manifestWith(`"reads":[{"apiVersion":"../metrics","kind":"A"}]`), `controllers[0].reads[0].apiVersion: "../metrics" is not a group and version, such as apps/v1`},
		{manifestWith(`"reads":[{"apiVersion":"apps/..","kind":"A"}]`), `controllers[0].reads[0].apiVersion: "apps/.." is not a group and version, such as apps/v1`},
		{manifestWith(`"reads":[{"apiVersion":"..","kind":"A"}]`), `controllers[0].reads[0].apiVersion: ".." is not a group and version, such as apps/v1`},
		{manifestWith(`"reads":[{"apiVersion":"v1/.","kind":"A"}]`), `controllers[0].reads[0].apiVersion: "v1/." is not a group and version, such as apps/v1`},
		{manifestWith(`"reads":[{"apiVersion":"a..b/v1","kind":"A"}]`), `controllers[0].reads[0].apiVersion: "a..b/v1" is not a group and version, such as apps/v1`},
		{manifestWith(`"reads":[{"apiVersion":"v1","kind":".."}]`), `controllers[0].reads[0].kind: ".." is not a kind, such as Deployment`},
		{manifestWith(`"reads":[{"apiVersion":"v1?","kind":"A"}]`), `controllers[0].reads[0].apiVersion: "v1?" is not a group and version, such as apps/v1`},
		{manifestWith(`"writes":[{"apiVersion":"v1","kind":"A"},{"apiVersion":"v1","kind":"A"}]`), `controllers[0].writes[1]: "v1 A" is given twice`},
		{manifestWith(`"owns":` + list(257, `{}`)), `controllers[0].owns[256]: more than 256 entries (offset 852)`},
		{manifestWith(`"finalizer":"yes"`), `controllers[0].finalizer: expected true or false, found a string (offset 88)`},
		{manifestWith(`"interval":-1`), `controllers[0].interval: must not be negative, is -1 (offset 89)`},
		{manifestWith(`"timeout":"10s"`), `controllers[0].timeout: expected an integer, found a string (offset 86)`},
		{manifestWith(`"timeout":3153600000001`), `controllers[0].timeout: must be at most 100 years, is 3153600000001 (offset 99)`},
		{manifestWith(`"concurrency":2147483648`), `controllers[0].concurrency: must be at most 2147483647, is 2147483648 (offset 100)`},
		{retryWith(`"factor":2`), `controllers[0].retry.factor: must be from 100 to 10000, is 2: it is in percent, 200 doubles each delay`},
		{retryWith(`"factor":10001`), `controllers[0].retry.factor: must be from 100 to 10000, is 10001: it is in percent, 200 doubles each delay`},
		{retryWith(`"factor":1.5`), `controllers[0].retry.factor: expected an integer of 64 bits, found 1.5 (offset 94)`},
		{retryWith(`"jitter":101`), `controllers[0].retry.jitter: must be at most 100, is 101: it is in percent`},
		{retryWith(`"initial":2000,"cap":1000`), `controllers[0].retry.cap: is shorter than initial`},
		{retryWith(`"attempts":3,"then":"give up"`), `controllers[0].retry.then: "give up" is not one of stalled, cap`},
		{retryWith(`"then":"stalled"`), `controllers[0].retry.then: has no effect without attempts`},
		{retryWith(`"attempts":-1`), `controllers[0].retry.attempts: must not be negative, is -1 (offset 98)`},
		{retryWith(`"max":1`), `controllers[0].retry: unknown field "max" (offset 91)`},
		{conditionsWith(`"target":"Stalled"`), `controllers[0].conditions.target: Stalled is set by the host; choose another type, such as Ready`},
		{conditionsWith(`"target":"a b"`), `controllers[0].conditions.target: "a b" is not a condition type, such as Ready or example.com/Ready`},
		{conditionsWith(`"owned":["A","A"]`), `controllers[0].conditions.owned[1]: "A" is given twice`},
		{conditionsWith(`"owned":[""]`), `controllers[0].conditions.owned[0]: is required`},
		{conditionsWith(`"owned":["` + strings.Repeat("x", 317) + `"]`), `controllers[0].conditions.owned[0]: 317 bytes, the limit is 316`},
		{conditionsWith(`"owned":["Example.com/A"]`), `controllers[0].conditions.owned[0]: "Example.com/A" is not a condition type, such as Ready or example.com/Ready`},
		{conditionsWith(`"summarized":["A-"]`), `controllers[0].conditions.summarized[0]: "A-" is not a condition type, such as Ready or example.com/Ready`},
		{conditionsWith(`"summarized":` + list(65, `"A"`)), `controllers[0].conditions.summarized[64]: more than 64 entries (offset 360)`},
		{
			conditionsWith(`"summarized":["Degraded"],"negativePolarity":["Degradet"]`),
			`controllers[0].conditions.negativePolarity[0]: "Degradet" is neither in summarized nor in owned, did you mean "Degraded"?`,
		},
		{conditionsWith(`"negativePolarity":["Zzz"]`), `controllers[0].conditions.negativePolarity[0]: "Zzz" is neither in summarized nor in owned`},
	})
}

func TestInvalidSummaryIsRefused(t *testing.T) {
	const path = `controllers[0].conditions.summaries`
	with := func(summaries string) string {
		return conditionsWith(`"target":"Main","summaries":` + summaries)
	}
	expectRefused(t, DecodeManifest, []refusal{
		{with(`[{"summarized":["A"]}]`), path + `[0].target: is required`},
		{with(`[{"target":"Stalled","summarized":["A"]}]`), path + `[0].target: Stalled is set by the host; choose another type, such as Ready`},
		{with(`[{"target":"Ready","summarized":["A"]}]`), path + `[0].target: "Ready" can only be conditions.target; choose another type`},
		{with(`[{"target":"a b","summarized":["A"]}]`), path + `[0].target: "a b" is not a condition type, such as Ready or example.com/Ready`},
		{with(`[{"target":"Main","summarized":["A"]}]`), path + `[0].target: "Main" can only be conditions.target; choose another type`},
		{with(`[{"target":"B","summarized":["A"]},{"target":"B","summarized":["A"]}]`), path + `[1].target: "B" is given twice`},
		{with(`[{"target":"B"}]`), path + `[0].summarized: is empty: list the types that "B" depends on`},
		{with(`[{"target":"B","summarized":["A","A"]}]`), path + `[0].summarized[1]: "A" is given twice`},
		{with(`[{"target":"B","summarized":["B"]}]`), path + `[0].summarized[0]: "B" is a target that is not computed before this one; list its summary first`},
		{with(`[{"target":"B","summarized":["A","Main"]}]`), path + `[0].summarized[1]: "Main" is a target that is not computed before this one; list its summary first`},
		{with(`[{"target":"B","summarized":["C"]},{"target":"C","summarized":["A"]}]`), path + `[0].summarized[0]: "C" is a target that is not computed before this one; list its summary first`},
		{with(`[{"target":"B","summarized":["Fetched"],"negativePolarity":["Fetchd"]}]`), path + `[0].negativePolarity[0]: "Fetchd" is not in summarized, did you mean "Fetched"?`},
		{with(list(17, `{}`)), path + `[16]: more than 16 entries (offset 167)`},
	})
	for _, summaries := range []string{
		`[{"target":"B","summarized":["A"]},{"target":"C","summarized":["B","Reconciling","Stalled"],"negativePolarity":["B","Stalled"]}]`,
	} {
		if _, err := DecodeManifest([]byte(with(summaries))); err != nil {
			t.Errorf("%s: %v", summaries, err)
		}
	}
}

func TestWrittenConditionsAreTargetsAndOwned(t *testing.T) {
	for _, c := range []struct {
		conditions Conditions
		want       []string
	}{
		{Conditions{}, []string{"Ready"}},
		{
			Conditions{Owned: []string{"Ready", "A", "Reconciling", "Stalled"}, Summarized: []string{"Theirs"}},
			[]string{"Ready", "A"},
		},
		{
			Conditions{Target: "Main", Owned: []string{"A", "B"}, Summaries: []Summary{{Target: "B", Summarized: []string{"Theirs"}}, {Target: "C"}}},
			[]string{"Main", "B", "C", "A"},
		},
	} {
		if got := c.conditions.Written(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: written are %q, want %q", c.conditions, got, c.want)
		}
	}
}

func TestValidManifestIsAccepted(t *testing.T) {
	for _, text := range []string{
		conditionsWith(`"owned":["Ready","Reconciling","Stalled"],"negativePolarity":["Reconciling","Stalled"]`),
		conditionsWith(`"owned":["a","A.b_c-D9","example.com/A"],"negativePolarity":["a"]`),
		manifestWith(`"interval":3153600000000,"concurrency":2147483647`),
		manifestWith(`"retry":{}`),
		manifestWith(`"retry":{"attempts":0}`),
		retryWith(`"initial":1,"factor":100,"cap":1,"jitter":100,"attempts":1,"then":"cap"`),
		retryWith(`"attempts":2147483647`),
		` ` + manifestWith(`"owns":[{"kind":"K","apiVersion":"v1"}]`) + "\n",
	} {
		if _, err := DecodeManifest([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestInvalidResultIsRefused(t *testing.T) {
	const notPatchable = "cannot be patched: a patch changes metadata.labels, metadata.annotations and spec only"
	object := func(members string) string { return `{"apply":[{"object":{` + members + `}}]}` }
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	expectRefused(t, DecodeResult, []refusal{
		{"\x00garbage", `expected an object, found byte 0x00 (offset 0)`},
		{`{"result":"success","aply":[]}`, `unknown field "aply", did you mean "apply"? (offset 27)`},
		{`{"result":"ok"}`, `result: "ok" is not one of success, requeue, empty`},
		{`{"result":"` + strings.Repeat("x", 1000) + `"}`, `result: "` + strings.Repeat("x", 61) + `..." is not one of success, requeue, empty`},
		{`{"requeueAfter":-5}`, `requeueAfter: must not be negative, is -5 (offset 18)`},
		{`{"requeueAfter":1.5}`, `requeueAfter: expected an integer of 64 bits, found 1.5 (offset 16)`},
		{`{"status":[]}`, `status: expected an object, found an array (offset 10)`},
		{`{"status":{"conditions":null}}`, `status.conditions: is written by the host; use the conditions beside status`},
		{`{"status":{"observedGeneration":1}}`, `status.observedGeneration: is written by the host, as the outcome of the run requires`},
		{`{"memo":"\ud800"}`, `memo: half of a surrogate pair in a string (offset 9)`},
		{`{"memo":"\ud83d\ude00\ude00"}`, `memo: half of a surrogate pair in a string (offset 21)`},
		{`{"memo":{"x":["\udc00\ud800"]}}`, `memo.x[0]: half of a surrogate pair in a string (offset 15)`},
		{`{"status":{"\ud800x":1}}`, `status: half of a surrogate pair in a string (offset 12)`},
		{`{"patch":{"spec":{"a":"\uD800\n"}}}`, `patch.spec.a: half of a surrogate pair in a string (offset 23)`},
		{object(`"apiVersion":"v1","kind":"K","metadata":{"name":"x"},"data":{"a":"\uDFFF"}`), `apply[0].object.data.a: half of a surrogate pair in a string (offset 87)`},
		{`{"error":{"message":"\udbff"}}`, `error.message: half of a surrogate pair in a string (offset 21)`},
		{`{"status":{"a":{"b":1,"b":2}}}`, `status.a.b: field given twice (offset 26)`},
		{`{"conditions":[{}]}`, `conditions[0].type: is required`},
		{`{"conditions":[{"type":"A","status":"true","reason":"B"}]}`, `conditions[0].status: "true" is not one of True, False, Unknown`},
		{`{"conditions":[{"type":"A","status":"True"}]}`, `conditions[0].reason: is required: a CamelCase word, such as Succeeded`},
		{`{"conditions":[{"type":"A","status":"True","reason":"not a word"}]}`, `conditions[0].reason: "not a word" is not a CamelCase word, such as Succeeded`},
		{`{"conditions":[{"type":"A","status":"True","reason":"9A"}]}`, `conditions[0].reason: "9A" is not a CamelCase word, such as Succeeded`},
		{`{"conditions":[{"type":"A","status":"True","reason":"A:"}]}`, `conditions[0].reason: "A:" is not a CamelCase word, such as Succeeded`},
		{`{"conditions":[{"type":"A","status":"True","reason":"` + strings.Repeat("A", 1025) + `"}]}`, `conditions[0].reason: 1025 bytes, the limit is 1024`},
		{`{"conditions":[{"lastTransitionTime":""}]}`, `conditions[0]: unknown field "lastTransitionTime" (offset 37)`},
		{`{"conditions":` + list(65, `{}`) + `}`, `conditions[64]: more than 64 entries (offset 207)`},
		{`{"patch":{"metadata":{"annotations":{"reconcile.thole.dev/suspend":null}}}}`, `patch.metadata.annotations["reconcile.thole.dev/suspend"]: cannot be patched: it is for the host, and for people`},
		{`{"patch":{"metadata":{"annotations":{"thole.dev\u002fapplied":"x"}}}}`, `patch.metadata.annotations["thole.dev/applied"]: cannot be patched: it is for the host, and for people`},
		{`{"patch":{"metadata":{"annotations":{"main.other.thole.dev/applied-0":"x"}}}}`, `patch.metadata.annotations["main.other.thole.dev/applied-0"]: cannot be patched: it is for the host, and for people`},
		{`{"patch":{"metadata":{"labels":{"thole.dev/managed-by":"other"}}}}`, `patch.metadata.labels["thole.dev/managed-by"]: cannot be patched: it is for the host, and for people`},
		{`{"patch":{"status":{}}}`, `patch.status: ` + notPatchable},
		{`{"patch":{"metadata.labels":{}}}`, `patch["metadata.labels"]: ` + notPatchable},
		{`{"patch":{"metadata":{"finalizers":[]}}}`, `patch.metadata.finalizers: ` + notPatchable},
		{`{"patch":{"metadata":null}}`, `patch.metadata: expected an object, found null: remove its members instead`},
		{`{"patch":{"spec":null}}`, `patch.spec: expected an object, found null: remove its members instead`},
		{`{"patch":{"spec":[]}}`, `patch.spec: expected an object, found an array`},
		{`{"patch":{"metadata":{"labels":{"a":1}}}}`, `patch.metadata.labels.a: expected a string, found a number`},
		{`{"apply":[{}]}`, `apply[0].object: is required`},
		{`{"apply":[{"object":null}]}`, `apply[0].object: is required`},
		{`{"apply":[{"object":"x"}]}`, `apply[0].object: expected an object, found a string (offset 20)`},
		{object(``), `apply[0].object.apiVersion: is required: a group and version, such as apps/v1`},
		{object(`"apiVersion":"v1"`), `apply[0].object.kind: is required, such as Deployment`},
		{object(`"apiVersion":"v1","kind":"K"`), `apply[0].object.metadata.name: is required`},
		{object(`"apiVersion":"v1","kind":"K","metadata":{"generateName":"x-"}`), `apply[0].object.metadata.name: is required`},
		{object(`"apiVersion":"v1","kind":"K","metadata":{"name":1}`), `apply[0].object.metadata.name: expected a string, found a number`},
		{object(`"apiVersion":"v1","kind":"K","metadata":{"name":"x","namespace":[]}`), `apply[0].object.metadata.namespace: expected a string, found an array`},
		{object(`"metadata":{"namespace":"mine"},"metadata":{"namespace":"kube-system"}`), `apply[0].object.metadata: field given twice (offset 64)`},
		{object(`"metadata":{"namespace":"mine","namesp\u0061ce":"kube-system"}`), `apply[0].object.metadata.namespace: field given twice (offset 69)`},
		{`{"delete":[{"apiVersion":"v1","kind":"K"}]}`, `delete[0].name: is required`},
		{`{"delete":[{"apiVersion":"v1","kind":"K","name":"` + strings.Repeat("x", 1025) + `"}]}`, `delete[0].name: 1025 bytes, the limit is 1024`},
		{`{"delete":[{"apiVersion":"v1","kind":"K","name":"x","namespace":"` + strings.Repeat("x", 1025) + `"}]}`, `delete[0].namespace: 1025 bytes, the limit is 1024`},
		{`{"delete":[{"apiVersion":"v1","kind":"K","name":"x","uid":"` + strings.Repeat("x", 1025) + `"}]}`, `delete[0].uid: 1025 bytes, the limit is 1024`},
		{`{"apply":[{"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"` + strings.Repeat("x", 1025) + `"}}}]}`, `apply[0].object.metadata.name: 1025 bytes, the limit is 1024`},
		{`{"apply":[{"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"x","namespace":"` + strings.Repeat("x", 1025) + `"}}}]}`, `apply[0].object.metadata.namespace: 1025 bytes, the limit is 1024`},
		{`{"delete":[{"apiVersion":"v1","name":"x"}]}`, `delete[0].kind: is required, such as Deployment`},
		{`{"delete":[null]}`, `delete[0]: expected an object, found null (offset 11)`},
		{`{"events":[{"type":"Info","reason":"A"}]}`, `events[0].type: "Info" is not one of Normal, Warning`},
		{`{"events":[{"type":"Normal","reason":"` + strings.Repeat("A", 129) + `"}]}`, `events[0].reason: 129 bytes, the limit is 128`},
		{`{"memo":"` + strings.Repeat("x", 4095) + `"}`, `memo: 4097 bytes, the limit is 4096`},
		{`{"memo":` + nest(64) + `}`, `memo` + strings.Repeat("[0]", 15) + `...` + strings.Repeat("[0]", 16) + `: nested more than 64 levels deep (offset 71)`},
		{`{"error":"x"}`, `error: expected an object, found a string (offset 9)`},
		{`{"error":{"after":-1}}`, `error.after: must not be negative, is -1 (offset 20)`},
		{`{"apply":` + list(257, `{}`) + `}`, `apply[256]: more than 256 entries (offset 778)`},
		{
			`{"apply":` + list(86, `{}`) + `,"delete":` + list(86, `{}`) + `,"events":` + list(85, `{}`) + `}`,
			`release, apply, delete, events: 257 entries together, the limit is 256`,
		},
	})
}

func TestValidResultIsAccepted(t *testing.T) {
	for _, text := range []string{
		`{"conditions":[{"type":"A"},{"type":"A","status":"True","reason":"B"}]}`, // the last one wins
		`{"conditions":[{"type":"A","status":"Unknown","reason":"A_b:c,D9"}]}`,
		`{"patch":{"metadata":{"labels":{"a":null},"annotations":{}},"spec":{"a":null}}}`,
		`{"status":{"metadata":{},"a":null}}`,
		`{"error":{"reason":"not a word"}}`, // the host uses the reason of the class instead
		`{"memo":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
		`{"memo":"` + strings.Repeat("x", 4094) + `"}`,
		`{"requeueAfter":3153600000000}`,
	} {
		if _, err := DecodeResult([]byte(text)); err != nil {
			t.Errorf("%.200s: %v", text, err)
		}
	}
}

func TestInvalidCallIsRefused(t *testing.T) {
	expectRefused(t, DecodeGetCall, []refusal{
		{`{"apiVersion":"v1","kind":"K","name":"` + strings.Repeat("x", 1025) + `"}`, `name: 1025 bytes, the limit is 1024`},
		{`?`, `expected an object, found '?' (offset 0)`},
		{`{}`, `apiVersion: is required: a group and version, such as apps/v1`},
		{`{"apiVersion":"v1","kind":"K"}`, `name: is required`},
		{`{"apiVersion":"v1","kind":"K","nmae":"x"}`, `unknown field "nmae" (offset 37)`},
		{strings.Repeat(" ", 65537), `longer than 65536 bytes (offset 65536)`},
	})
	expectRefused(t, DecodeListCall, []refusal{
		{`{"apiVersion":"v1","kind":"K","namespace":"` + strings.Repeat("x", 1025) + `"}`, `namespace: 1025 bytes, the limit is 1024`},
		{``, `the text ends where an object is expected (offset 0)`},
		{`{"apiVersion":"v1"}`, `kind: is required, such as Deployment`},
		{`{"apiVersion":"v1","kind":"K","selector":"a=b"}`, `unknown field "selector" (offset 41)`},
		{`{"apiVersion":"v1","kind":"K","labelSelektor":"a=b"}`, `unknown field "labelSelektor", did you mean "labelSelector"? (offset 46)`},
		{"{\"labelSelector\":\"\xc0\"}", `the text is not UTF-8 (offset 18)`},
	})
}

func TestValidNameAcceptsOnlyDNSLabels(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a-b9": true, "9": true, strings.Repeat("x", 63): true,
		"": false, "A": false, "a.b": false, "-a": false, "a-": false, "é": false, strings.Repeat("x", 64): false,
	} {
		if ValidName(name) != want {
			t.Errorf("ValidName(%q) is %v", name, !want)
		}
	}
}

func TestErrorAboutGiantValueIsShort(t *testing.T) {
	giant := strings.Repeat("x", 1<<20)
	quoted := strconv.Quote(giant)
	for _, text := range []string{
		`{` + quoted + `:1}`, `{"result":` + quoted + `}`, `{"conditions":[{"type":` + quoted + `}]}`,
		`{"conditions":[{"type":"A","status":` + quoted + `}]}`, `{"events":[{"type":` + quoted + `}]}`,
		`{"delete":[{"apiVersion":` + quoted + `,"kind":"` + giant + `?"}]}`, `{"status":{` + quoted + `:1,` + quoted + `:1}}`,
		`{"patch":{` + quoted + `:1}}`, `{"requeueAfter":` + strings.Repeat("1", 1<<20) + `}`,
	} {
		if _, err := DecodeResult([]byte(text)); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.40s: an error of %d bytes", text, len(err.Error()))
		}
	}
}

func TestAFieldOfAResultMayNeedTheManifest(t *testing.T) {
	prune := Result{Prune: true}
	expectError(t, "prune", prune.CheckFor(&Controller{}), "prune: needs prune of the controller in the manifest")
	expectError(t, "with it", prune.CheckFor(&Controller{Prune: true}), "")
	expectError(t, "without", (&Result{}).CheckFor(&Controller{}), "")
}
