package tck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/webhooks"
)

// This file has guests that validate, mutate and convert: correct ones, ones that look for what an
// earlier call has left, and ones that fail.

// ReviewRequest returns the message that [Run] calls an export of reviews with: the update of an
// object for [webhooks.ExportValidate] and [webhooks.ExportMutate], and its conversion to thole.dev/v2 for
// [webhooks.ExportConvert].
func ReviewRequest(export string) []byte { return reviewRequest(export, "default") }

// reviewRequest returns [ReviewRequest] for an object in a namespace.
func reviewRequest(export, namespace string) []byte {
	if export == webhooks.ExportConvert {
		return webhooks.EncodeConvertRequest(&webhooks.ConvertRequest{Controller: controller, APIVersion: convertedVersion, Object: objectIn(namespace)})
	}
	return webhooks.EncodeReviewRequest(&webhooks.ReviewRequest{
		Controller: controller, Operation: webhooks.OperationUpdate, User: webhooks.User{Name: "conformance", Groups: []string{"system:authenticated"}},
		Old: objectIn(namespace), Object: objectIn(namespace),
	})
}

// convertedVersion is the version that conversions want.
const convertedVersion = "thole.dev/v2"

// reviewExports are the exports of reviews.
var reviewExports = webhooks.Exports()

// reviewed returns a manifest whose controller has a section that names an export of reviews, and what change has
// set.
func reviewed(name string, change func(*abi.Controller), export string) []byte {
	var w webhooks.Webhooks
	switch export {
	case webhooks.ExportValidate:
		w.Validate = []webhooks.Operation{webhooks.OperationCreate, webhooks.OperationUpdate, webhooks.OperationDelete}
	case webhooks.ExportMutate:
		w.Mutate = []webhooks.Operation{webhooks.OperationCreate, webhooks.OperationUpdate}
	default:
		w.Convert = true
	}
	return asked(name, w, change)
}

// asked returns a manifest whose controller has the section, and what change has set.
func asked(name string, w webhooks.Webhooks, change func(*abi.Controller)) []byte {
	return narrow(name, func(c *abi.Controller) {
		c.Sections = []abi.Section{w.Section()}
		change(c)
	})
}

// reviewLoadCases are refused for how they offer reviews.
func reviewLoadCases() (out []Case) {
	const builtIn, twice = "manifest-convert-built-in", "manifest-convert-twice"
	converter := func(name string) abi.Controller {
		c := conformance(name)
		c.Sections = []abi.Section{webhooks.Webhooks{Convert: true}.Section()}
		return c
	}
	of := func(name, explain string, w webhooks.Webhooks, mentions ...string) Case {
		return refused("manifest-"+name, explain, describing(asked("manifest-"+name, w, nothingElse)), append(mentions, "manifest")...)
	}
	for _, export := range reviewExports {
		noExport, signature := export+"-without-export", export+"-wrong-signature"
		out = append(out,
			refused(noExport, "its manifest names "+export+", which it does not export", describing(reviewed(noExport, nothingElse, export)), "manifest", controller, export),
			refused(signature, "the export "+export+" takes an i64", func(g *guest) []byte {
				g.manifest = reviewed(signature, nothingElse, export)
				g.export(export, g.Func(i64Only, i32Only, nil, I32Const(0)))
				return g.finish(nil, g.ok())
			}, export),
		)
	}
	return append(out,
		of("webhooks-empty", "a section that names nothing", webhooks.Webhooks{}, "webhooks"),
		of("validate-connect", "an operation that does not exist", webhooks.Webhooks{Validate: []webhooks.Operation{"CONNECT"}}, "webhooks.validate[0]", "CONNECT"),
		of("validate-twice", "an operation that is given twice", webhooks.Webhooks{Validate: []webhooks.Operation{webhooks.OperationCreate, webhooks.OperationCreate}}, "webhooks.validate[1]"),
		of("mutate-delete", "mutates objects that are deleted", webhooks.Webhooks{Mutate: []webhooks.Operation{webhooks.OperationDelete}}, "webhooks.mutate[0]"),
		refused(builtIn, "converts a kind that is no custom resource", describing(asked(builtIn, webhooks.Webhooks{Convert: true}, func(c *abi.Controller) {
			c.For.Kind = abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}
		})), "webhooks.convert", "manifest"),
		refused(twice, "two controllers convert one kind", describing(manifestWith(twice, converter("one"), converter("other"))), "webhooks.convert", "manifest", "one"),
	)
}

// reviewCases review and convert.
func reviewCases() (out []Case) {
	for _, export := range reviewExports {
		out = append(out,
			failsReview(export, "retry", abi.CodeRetry), failsReview(export, "stalled", abi.CodeStalled), failsReview(export, "waiting", abi.CodeWaiting),
			silentReview(export),
		)
	}
	denied := &webhooks.ReviewResult{
		Reason: "Conformance", Message: "no", Warnings: []string{"careful"}, AuditAnnotations: []webhooks.AuditAnnotation{{Name: "rule", Value: "1"}},
	}
	full := &webhooks.ReviewResult{Allowed: true, Message: strings.Repeat("m", abi.MaxErrorMessage+1)}
	for i := range webhooks.MaxWarnings {
		full.Warnings = append(full.Warnings, strings.Repeat("w", webhooks.MaxWarning+1))
		full.AuditAnnotations = append(full.AuditAnnotations, webhooks.AuditAnnotation{Name: fmt.Sprint("rule", i), Value: strings.Repeat("v", webhooks.MaxAuditValue+1)})
	}
	changed := &webhooks.ReviewResult{Allowed: true, Object: labelled("thole.dev/v1")}
	converted := webhooks.EncodeConvertResult(&webhooks.ConvertResult{Object: labelled(convertedVersion)})
	return append(out,
		writesReview(webhooks.ExportValidate, "validate", "reads its request and allows it", webhooks.EncodeReviewResult(&webhooks.ReviewResult{Allowed: true}), readsInput),
		writesReview(webhooks.ExportValidate, "validate-denies", "denies a request, with everything that a result may have", webhooks.EncodeReviewResult(denied), nil),
		writesReview(webhooks.ExportValidate, "validate-empty", "writes an empty result, which denies", []byte("{}"), nil),
		writesReview(webhooks.ExportValidate, "validate-full", "writes as many texts as it may, all of them too long, which truncates them", webhooks.EncodeReviewResult(full), nil),
		writesReview(webhooks.ExportMutate, "mutate", "reads its request and adds a label to the object", webhooks.EncodeReviewResult(changed), readsInput),
		writesReview(webhooks.ExportMutate, "mutate-nothing", "leaves the object as it is", webhooks.EncodeReviewResult(&webhooks.ReviewResult{Allowed: true}), nil),
		writesReview(webhooks.ExportMutate, "mutate-denies", "denies a request", webhooks.EncodeReviewResult(denied), nil),
		writesReview(webhooks.ExportConvert, "convert", "reads its request and writes the object in another version", converted, readsInput),
		readsReview(webhooks.ExportValidate), readsReview(webhooks.ExportMutate),
		writesReview(webhooks.ExportConvert, "convert-denied", "in convert every capability returns -2", converted, func(g *guest) []byte {
			return deniesCapabilities(g, abi.ImportGet, abi.ImportList, functionindexes.Import)
		}),
	)
}

// labelled returns the object of the requests with a label, in a version.
func labelled(apiVersion string) []byte {
	return []byte(`{"apiVersion":"` + apiVersion + `","kind":"Conformance","metadata":{"name":"one","namespace":"default","labels":{"a":"b"}}}`)
}

// readsInput reads the whole request.
func readsInput(g *guest) []byte { return join(I32Const(scratch), LocalGet(0), Call(g.input)) }

// reviews is a case whose calls of an export of reviews, with the given body, must return a result.
func reviews(export, name, explain string, output []byte, review func(*guest) []byte) Case {
	c := succeeds(name, explain, 2, output, reviewing(export, name, review))
	c.Review = export
	return c
}

// reviewing is a guest whose export of reviews has the given body, with two locals, and whose
// reconcile succeeds. Its controller reads ConfigMaps and has an index of them.
func reviewing(export, name string, review func(*guest) []byte) func(*guest) []byte {
	return func(g *guest) []byte {
		g.manifest = reviewed(name, listsKeys, export)
		body := review(g) // may import
		g.export(export, g.Func(i32Only, i32Only, types{i32, i32}, body))
		g.export(functionindexes.Export, g.Func(i32Only, i32Only, nil, Unreachable))
		return g.finish(nil, g.ok())
	}
}

// writesReview is a guest that does something, if that is not nil, and writes its result.
func writesReview(export, name, explain string, output []byte, first func(*guest) []byte) Case {
	return reviews(export, name, explain, output, func(g *guest) []byte {
		var body []byte
		if first != nil {
			body = first(g)
		}
		return join(body, g.writes(output), I32Const(0))
	})
}

func failsReview(export, code string, returned abi.Code) Case {
	output := []byte(`{"error":{"reason":"Conformance","message":"failed"}}`)
	c := reviews(export, export+"-"+code, fmt.Sprintf("%s returns %d with an error", export, returned), output, func(g *guest) []byte {
		return join(g.writes(output), I32Const(int32(returned)))
	})
	c.Code = returned
	return c
}

func silentReview(export string) Case {
	c := reviews(export, export+"-fails-without-result", export+" returns 1 and has written no result", nil, func(*guest) []byte {
		return I32Const(int32(abi.CodeRetry))
	})
	c.Code = abi.CodeRetry
	return c
}

// readsReview is a guest whose reviews read what a run may read, and nothing else.
func readsReview(export string) Case {
	output := webhooks.EncodeReviewResult(&webhooks.ReviewResult{Allowed: true})
	return writesReview(export, export+"-reads", "get and list return what they return in a run, and index_get -2", output, func(g *guest) []byte {
		listed, _ := List(listObjects())
		body := deniesCapabilities(g, functionindexes.Import)
		for _, c := range []struct {
			function      string
			message, want []byte
		}{{abi.ImportList, listObjects(), listed}, {abi.ImportGet, getObject(), []byte(Object)}} {
			f := g.Import(abi.ImportModule, c.function, ptrLen, i64Only)
			body = join(body, trapIf(g.constant(c.message), Call(f), I64Const(int64(len(c.want))), I64Ne))
		}
		return body
	})
}

// reviewResetCases look for what the call before, or a run, has left.
func reviewResetCases() (out []Case) {
	clean := map[string][]byte{
		webhooks.ExportValidate: webhooks.EncodeReviewResult(&webhooks.ReviewResult{Allowed: true}),
		webhooks.ExportMutate:   webhooks.EncodeReviewResult(&webhooks.ReviewResult{Allowed: true}),
		webhooks.ExportConvert:  webhooks.EncodeConvertResult(&webhooks.ConvertResult{Object: labelled(convertedVersion)}),
	}
	for _, export := range reviewExports {
		of := func(name, explain string, body func(*guest) []byte) Case {
			c := reviews(export, export+"-"+name, explain, clean[export], func(g *guest) []byte {
				g.clean, g.leaked = clean[export], []byte(`{"error":{"message":"something was left"}}`)
				return join(body(g), I32Const(0))
			})
			c.Calls = 4
			return c
		}
		namespaces := calledOften(of("reset-namespaces", "has the mark of standard Go, and counts calls for objects in different namespaces in memory", func(g *guest) []byte {
			g.Custom(standardGo, nil)
			return g.countsAt(scratch)
		}))
		namespaces.Namespaces = true
		beside := of("reset-beside-runs", "counts in the same word of memory as reconcile, which is called before", func(g *guest) []byte {
			g.export(abi.ExportReconcile, g.Func(i32Only, i32Only, nil,
				I32Const(scratch), I32Load, If, g.writes(leaked()), Else, g.writes(success()), End,
				I32Const(scratch), I32Const(1), I32Store, I32Const(0)))
			return g.countsAt(scratch)
		})
		beside.Runs = true
		out = append(out,
			of("reset-global", "counts its calls in a global", resetGlobal),
			of("reset-memory", "counts its calls in memory", func(g *guest) []byte { return g.countsAt(scratch) }),
			of("reset-grown-memory", "grows its memory in every call", resetGrownMemory),
			of("reset-table", "replaces a function in its table", func(g *guest) []byte {
				_, one := g.twoFunctions()
				return g.changesTable(I32Const(0), RefFunc(one), TableSet)
			}),
			beside,
		)
		if export != webhooks.ExportConvert { // whose result has the namespace
			out = append(out, namespaces)
		}
	}
	return out
}

// hostileReviewCases fail. Their reconcile succeeds.
func hostileReviewCases() (out []Case) {
	for _, export := range reviewExports {
		out = append(out, hostileReviews(export)...)
	}
	return slices.Concat(out, invalidReviews(), invalidConversions())
}

// hostileReviews trap, never end, or write nothing that is a result.
func hostileReviews(export string) []Case {
	loop := failsReviewing(export, "loop", abi.ClassTimeout, "never returns", infiniteLoop)
	loop.Limits.Deadline = shortDeadline
	return []Case{
		loop,
		failsReviewing(export, "trap", abi.ClassPanic, "traps", func(*guest) []byte { return Unreachable }),
		failsReviewing(export, "exit", abi.ClassPanic, "calls proc_exit", exit),
		failsReviewing(export, "recursion", abi.ClassStackOverflow, "calls itself without end", deepRecursion),
		failsReviewing(export, "memory-bomb", abi.ClassOutOfMemory, "grows its memory until the host refuses, then traps", memoryBomb),
		failsReviewing(export, "without-result", abi.ClassABI, "returns 0 without a result", func(*guest) []byte { return I32Const(0) }),
		failsReviewing(export, "unknown-code", abi.ClassABI, "returns 4", func(g *guest) []byte { return join(g.writes([]byte("{}")), I32Const(4)) }),
		failsReviewing(export, "output-storm", abi.ClassABI, "writes its memory as its result, without end", func(g *guest) []byte {
			return forever(I32Const(0), I32Const(pages<<16), Call(g.output))
		}),
		invalidReview(export, "garbage", "a result that is not JSON", "\x00garbage"),
		invalidReview(export, "two-values", "a result followed by another one", "{}{}"),
		invalidReview(export, "unknown-field", "a field that does not exist", `{"patch":[]}`),
		invalidReview(export, "object-array", "an object that is an array", `{"allowed":true,"object":[]}`),
		invalidReview(export, "broken-text", "a text that is not UTF-8", "{\"error\":{\"message\":\"\xff\"}}"),
	}
}

func failsReviewing(export, name string, class abi.Class, explain string, review func(*guest) []byte) Case {
	c := failing(export+"-"+name, class, export+" "+explain, reviewing(export, export+"-"+name, review))
	c.Review = export
	return c
}

func invalidReview(export, name, explain, result string) Case {
	return failsReviewing(export, name, abi.ClassABI, "writes "+explain, func(g *guest) []byte {
		return join(g.writes([]byte(result)), I32Const(0))
	})
}

func invalidReviews() (out []Case) {
	texts := func(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	for _, export := range []string{webhooks.ExportValidate, webhooks.ExportMutate} {
		out = append(out,
			invalidReview(export, "allowed-twice", "two decisions", `{"allowed":false,"allowed":true}`),
			invalidReview(export, "allowed-number", "a decision that is a number", `{"allowed":1}`),
			invalidReview(export, "reason", "a reason that is no word", `{"reason":"not a word"}`),
			invalidReview(export, "too-many-warnings", "one warning too many", `{"warnings":[`+texts(webhooks.MaxWarnings+1, `""`)+`]}`),
			invalidReview(export, "too-many-annotations", "one audit annotation too many", `{"auditAnnotations":[`+texts(webhooks.MaxAuditAnnotations+1, `{"name":"a"}`)+`]}`),
			invalidReview(export, "annotation-twice", "two audit annotations of one name", `{"auditAnnotations":[`+texts(2, `{"name":"a"}`)+`]}`),
			invalidReview(export, "annotation-name", "an audit annotation whose name has a prefix", `{"auditAnnotations":[{"name":"thole.dev/a"}]}`),
		)
	}
	same := string(labelled("thole.dev/v1"))
	mutated := func(name, explain, object string) Case {
		return invalidReview(webhooks.ExportMutate, name, explain, `{"allowed":true,"object":`+object+`}`)
	}
	return append(out,
		invalidReview(webhooks.ExportValidate, "object", "an object, which it cannot change", `{"allowed":true,"object":`+same+`}`),
		invalidReview(webhooks.ExportMutate, "denied-object", "an object for a request that it denies", `{"object":`+same+`}`),
		mutated("other-name", "an object of another name", strings.Replace(same, `"one"`, `"two"`, 1)),
		mutated("other-namespace", "an object in another namespace", strings.Replace(same, `"default"`, `"kube-system"`, 1)),
		mutated("other-kind", "an object of another kind", strings.Replace(same, `"Conformance"`, `"Secret"`, 1)),
		mutated("other-version", "an object in another version", string(labelled(convertedVersion))),
		mutated("without-metadata", "an object without metadata", `{"apiVersion":"thole.dev/v1","kind":"Conformance"}`),
		mutated("name-twice", "an object with two names", strings.Replace(same, `"name":"one"`, `"name":"two","name":"one"`, 1)),
		mutated("deep-object", "an object that is nested too deep", strings.Replace(same, `{"a":"b"}`, strings.Repeat("[", abi.MaxDepth)+strings.Repeat("]", abi.MaxDepth), 1)),
	)
}

func invalidConversions() []Case {
	want := string(labelled(convertedVersion))
	converted := func(name, explain, object string) Case {
		return invalidReview(webhooks.ExportConvert, name, explain, `{"object":`+object+`}`)
	}
	return []Case{
		invalidReview(webhooks.ExportConvert, "empty", "no object", `{}`),
		invalidReview(webhooks.ExportConvert, "null", "an object that is null", `{"object":null}`),
		converted("same-version", "the object in the version that it had", string(labelled("thole.dev/v1"))),
		converted("other-name", "an object of another name", strings.Replace(want, `"one"`, `"two"`, 1)),
		converted("other-kind", "an object of another kind", strings.Replace(want, `"Conformance"`, `"Secret"`, 1)),
		converted("new-uid", "an object with a UID that it did not have", strings.Replace(want, `"name"`, `"uid":"1","name"`, 1)),
		converted("without-metadata", "an object without metadata", `{"apiVersion":"`+convertedVersion+`","kind":"Conformance"}`),
	}
}
