package rule

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// verbs are the words of the first part, with what each stands for.
var verbs = func() map[string][]string {
	groups := map[string][]string{
		"read":  {"get", "list"},
		"write": {"create", "update", "patch", "apply", "delete", "deletecollection"},
	}
	groups["*"] = slices.Concat(groups["read"], []string{"watch"}, groups["write"])
	for _, verb := range groups["*"] {
		groups[verb] = []string{verb}
	}
	return groups
}()

// ParseAll parses one rule per line. Empty lines and comments, which begin with
// '#', are ignored. An error names the line.
func ParseAll(text string) ([]Rule, error) {
	var all []Rule
	for i, line := range strings.Split(text, "\n") {
		words, err := split(line)
		if err == nil && len(words) == 0 {
			continue
		}
		var r Rule
		if err == nil {
			r, err = parse(words)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		r.Text = strings.TrimSpace(line)
		all = append(all, r)
	}
	return all, nil
}

// parse reads the words of one rule:
//
//   - verbs, a comma list: those of RBAC, apply, read, write, or * for all
//   - resources, a comma list of NAME[.GROUP][/SUBRESOURCE]. Without a group it is
//     every group; without a subresource only the main resource; with /* both. A *
//     alone is everything that is a resource
//   - the fault, see [faultForms]
//   - keys, see [keys]
func parse(words []string) (Rule, error) {
	if len(words) < 3 {
		return Rule{}, fmt.Errorf("%q is not a rule: want VERBS RESOURCES FAULT [key=value ...]", strings.Join(words, " "))
	}
	var r Rule
	if err := r.setVerbs(words[0]); err != nil {
		return r, err
	}
	if err := r.setResources(words[1]); err != nil {
		return r, err
	}
	if err := r.setFault(words[2]); err != nil {
		return r, err
	}
	if err := r.setKeys(words[3:]); err != nil {
		return r, err
	}
	return r, r.check()
}

func (r *Rule) setVerbs(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		of, ok := verbs[word]
		if !ok {
			return fmt.Errorf("unknown verb %q: want a list of %s", word, strings.Join(slices.Sorted(maps.Keys(verbs)), ", "))
		}
		r.Verbs = append(r.Verbs, of...)
	}
	return nil
}

var resourceForm = regexp.MustCompile(`^(\*|[a-z0-9][a-z0-9-]*)(?:\.([a-z0-9][a-z0-9.-]*))?(?:/(\*|[a-z0-9][a-z0-9-]*))?$`)

func (r *Rule) setResources(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		m := resourceForm.FindStringSubmatch(word)
		if m == nil {
			return fmt.Errorf("%q does not name a resource: want RESOURCE[.GROUP][/SUBRESOURCE] such as pods, deployments.apps/status, pods/* or *", word)
		}
		selector := Resource{Name: m[1], Group: m[2], Subresource: m[3]}
		if word == "*" {
			selector.Subresource = "*"
		}
		r.Resources = append(r.Resources, selector)
	}
	return nil
}

func (r *Rule) setFault(word string) error {
	name, value, hasValue := strings.Cut(word, "=")
	fault := Fault(name)
	known, ok := faults[fault]
	switch {
	case !ok:
		return fmt.Errorf("unknown fault %q: want one of %s", word, strings.Join(faultForms(), ", "))
	case known.value == "" && hasValue:
		return fmt.Errorf("fault %q has no value: want %s", word, name)
	case known.value != "" && !hasValue:
		return fmt.Errorf("fault %q needs a value: want %s=%s", word, name, known.value)
	}
	r.Fault = fault
	switch fault {
	case Reply:
		return r.setCode(value)
	case Delay:
		return setDuration(&r.Delay, value)
	default:
		return nil
	}
}

func (r *Rule) setKeys(words []string) error {
	seen := map[string]bool{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		set := keys[name]
		if set == nil && r.Fault == Reply {
			set = statusKeys[name]
		}
		switch {
		case set == nil:
			return fmt.Errorf("unknown key %q of the fault %s: want %s", name, r.Fault, strings.Join(r.allowedKeys(), ", "))
		case !ok:
			return fmt.Errorf("key %q has no value: want %s=VALUE", name, name)
		case seen[name]:
			return fmt.Errorf("key %q is given twice", name)
		}
		seen[name] = true
		if err := set(r, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (r *Rule) allowedKeys() []string {
	allowed := slices.Collect(maps.Keys(keys))
	if r.Fault == Reply {
		allowed = slices.AppendSeq(allowed, maps.Keys(statusKeys))
	}
	slices.Sort(allowed)
	return allowed
}

// check finds rules that could never apply, and replies that are none.
func (r *Rule) check() error {
	if !slices.ContainsFunc(r.Verbs, r.Fault.appliesTo) {
		only := faults[r.Fault].verbs[0]
		return fmt.Errorf("the fault %s applies to the verb %s only: add it to the verbs", r.Fault, only)
	}
	if r.Status.Code == 200 && r.Status.Body == nil {
		return errors.New("status=200 needs body=TEXT: a Status would not be what was asked for")
	}
	return nil
}
