package scenario

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// requests observes how many requests the host has sent, or begins to count anew.
func requests(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	args, err := parse(flags, args, 1, 5)
	if err != nil {
		return nil, err
	}
	if slices.Equal(args, []string{"reset"}) {
		s.proxy.ForgetRequests()
		return nil, nil
	}
	if len(args) < 2 {
		return nil, wrongUse("%q", args)
	}
	words, operator, number := args[:len(args)-2], args[len(args)-2], args[len(args)-1]
	filter, err := parseFilter(words)
	if err != nil {
		return nil, err
	}
	compare, err := parseComparison(operator, number)
	if err != nil {
		return nil, err
	}
	return func() error {
		sent := s.proxy.Requests()
		n := filter.count(sent)
		err := compare("the number of requests", float64(n))
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%w; the requests were:%s", err, summary(sent))
		if n > 0 && compare("", float64(n-1)) == nil {
			return permanentError{err} // it has become too high, and does not decrease
		}
		return err
	}, nil
}

// filter selects requests as a rule of the proxy does.
type filter struct {
	verbs, resources []string // none: all
	code             string   // "": all; 409, or 4xx for a class
}

func parseFilter(words []string) (f filter, err error) {
	for _, w := range words {
		switch code, isCode := strings.CutPrefix(w, "code="); {
		case isCode:
			f.code = code
		case f.verbs == nil:
			f.verbs, err = parseVerbs(w)
		case f.resources == nil:
			f.resources = strings.Split(w, ",")
		default:
			err = wrongUse("%q is neither VERBS, RESOURCES nor code=CODE", w)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

var verbGroups = map[string][]string{
	"*":     {"get", "list", "watch", "create", "update", "patch", "apply", "delete", "deletecollection"},
	"write": {"create", "update", "patch", "apply", "delete", "deletecollection"},
	"read":  {"get", "list"},
}

func parseVerbs(list string) (verbs []string, err error) {
	for v := range strings.SplitSeq(list, ",") {
		switch {
		case verbGroups[v] != nil:
			verbs = append(verbs, verbGroups[v]...)
		case slices.Contains(verbGroups["*"], v):
			verbs = append(verbs, v)
		default:
			return nil, wrongUse("%q is none of the verbs %s, write, read", v, strings.Join(verbGroups["*"], ", "))
		}
	}
	return verbs, nil
}

func (f filter) count(all []tholetest.Request) (n int) {
	for _, r := range all {
		if f.has(r) {
			n++
		}
	}
	return n
}

func (f filter) has(r tholetest.Request) bool {
	code := strconv.Itoa(r.Code)
	return (f.verbs == nil || slices.Contains(f.verbs, r.Verb)) &&
		(f.resources == nil || slices.ContainsFunc(f.resources, func(name string) bool { return isOf(name, r) })) &&
		(f.code == "" || f.code == code || f.code == code[:1]+"xx")
}

// isOf reports whether a request is about a resource as rules name it:
// RESOURCE[.GROUP][/SUBRESOURCE], or * in the place of resource or subresource.
func isOf(name string, r tholetest.Request) bool {
	wanted, wantedSub, _ := strings.Cut(name, "/")
	wanted, group, grouped := strings.Cut(wanted, ".")
	resource, sub, _ := strings.Cut(r.Resource, "/")
	switch {
	case name == "*":
		return r.Resource != ""
	case wanted != resource || grouped && group != r.Group:
		return false
	}
	return wantedSub == sub || wantedSub == "*"
}

// summary returns numbers of requests by verb, resource and code, for people.
func summary(all []tholetest.Request) string {
	counts := map[string]int{}
	for _, r := range all {
		counts[fmt.Sprintf("%s %s code=%d", r.Verb, r.Resource, r.Code)]++
	}
	var lines []string
	for line, n := range counts {
		lines = append(lines, fmt.Sprintf("\n  %s = %d", line, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
