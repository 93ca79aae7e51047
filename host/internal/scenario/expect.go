package scenario

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// expect observes that an object exists and has values.
func expect(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	o, args, err := s.objectArgs(flags, args, 0, anyNumber)
	if err != nil {
		return nil, err
	}
	wanted, err := parseValues(args)
	if err != nil {
		return nil, err
	}
	return func() error {
		got, err := o.client.Get(s.tb.Context(), o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return hasValues(got, wanted)
	}, nil
}

func hasValues(o *unstructured.Unstructured, wanted []value) error {
	for _, w := range wanted {
		if err := w(o); err != nil {
			return fmt.Errorf("%s %s: %w\nthe object:\n%s", o.GetKind(), o.GetName(), err, show(o))
		}
	}
	return nil
}

// A value returns nil if an object has it.
type value func(*unstructured.Unstructured) error

func parseValues(args []string) (all []value, err error) {
	for _, a := range args {
		if a == "observed" {
			all = append(all, observed)
			continue
		}
		v, err := parseValue(a)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func observed(o *unstructured.Unstructured) error {
	got, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if got != o.GetGeneration() {
		return fmt.Errorf("status.observedGeneration is %d, expected metadata.generation, %d", got, o.GetGeneration())
	}
	return nil
}

// parseValue reads PATH=VALUE, PATH!=VALUE or PATH~=PART.
func parseValue(arg string) (value, error) {
	i := equalsSign(arg)
	if i < 1 {
		return nil, wrongUse("%q is none of PATH=VALUE, PATH!=VALUE, PATH~=PART, condition:TYPE[.FIELD]=VALUE, observed", arg)
	}
	path, unequal := strings.CutSuffix(arg[:i], "!")
	path, part := strings.CutSuffix(path, "~")
	get, err := reader(path)
	if err != nil {
		return nil, wrongUse("%q: %v", arg, err)
	}
	return func(o *unstructured.Unstructured) error {
		got, err := get(o)
		holds := got == arg[i+1:] || part && strings.Contains(got, arg[i+1:])
		if err == nil && holds == unequal {
			err = fmt.Errorf("%s is %q, expected %s", path, got, arg)
		}
		return err
	}, nil
}

// equalsSign returns the index of the first = outside brackets, where JSONPath has
// filters; -1 if there is none.
func equalsSign(arg string) int {
	depth := 0
	for i, r := range arg {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == '=' && depth == 0:
			return i
		}
	}
	return -1
}

// reader returns how to read a path of an object as a text, "" if it has none.
func reader(path string) (func(*unstructured.Unstructured) (string, error), error) {
	if condition, ok := strings.CutPrefix(path, "condition:"); ok {
		name, field, ok := strings.Cut(condition, ".")
		if !ok {
			field = "status"
		}
		path = fmt.Sprintf("status.conditions[?(@.type==%q)].%s", name, field)
	}
	j := jsonpath.New("").AllowMissingKeys(true)
	if err := j.Parse("{." + strings.TrimPrefix(path, ".") + "}"); err != nil {
		return nil, err
	}
	return func(o *unstructured.Unstructured) (string, error) {
		var text bytes.Buffer
		err := j.Execute(&text, o.Object)
		return text.String(), err
	}, nil
}

// absent observes that an object does not exist.
func absent(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	o, _, err := s.objectArgs(flags, args, 0, 0)
	if meta.IsNoMatchError(err) {
		return func() error { return nil }, nil // there is no such kind
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		got, err := o.client.Get(s.tb.Context(), o.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("%s %s exists, expected none\nthe object:\n%s", got.GetKind(), got.GetName(), show(got))
	}, nil
}

// count observes how many objects of a kind there are.
func count(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	namespace, selector := s.namespaceFlag(flags), flags.String("l", "", "")
	args, err := parse(flags, args, 2, 2)
	if err != nil {
		return nil, err
	}
	wanted, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, wrongUse("%q is not a number", args[1])
	}
	client, err := s.api.in(args[0], *namespace)
	if err != nil {
		return nil, err
	}
	return func() error {
		list, err := client.List(s.tb.Context(), metav1.ListOptions{LabelSelector: *selector})
		if err == nil && len(list.Items) != wanted {
			err = fmt.Errorf("there are %d %s, expected %d: %s", len(list.Items), args[0], wanted, names(list))
		}
		return err
	}, nil
}

func names(list *unstructured.UnstructuredList) string {
	var all []string
	for _, o := range list.Items {
		all = append(all, o.GetName())
	}
	return strings.Join(all, " ")
}

// event observes an Event about an object.
func event(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	o, args, err := s.objectArgs(flags, args, 2, 3)
	if err != nil {
		return nil, err
	}
	args = append(args, "")
	return func() error {
		events, err := s.eventsAbout(o)
		if err != nil {
			return err
		}
		var seen strings.Builder
		for _, e := range events {
			if e.Type == args[0] && e.Reason == args[1] && strings.Contains(e.Message, args[2]) {
				return nil
			}
			fmt.Fprintf(&seen, "\n  %s %s %s", e.Type, e.Reason, e.Message)
		}
		return errors.New("there is no such Event; Events about " + o.name + ":" + seen.String())
	}, nil
}

func (s *script) eventsAbout(o object) ([]corev1.Event, error) {
	kind, err := s.api.mapper.KindFor(o.resource)
	if err != nil {
		return nil, err
	}
	about := metav1.ListOptions{FieldSelector: "involvedObject.name=" + o.name + ",involvedObject.kind=" + kind.Kind}
	events, err := s.api.clients.CoreV1().Events(o.eventNamespace()).List(s.tb.Context(), about)
	if err != nil {
		return nil, err
	}
	return events.Items, nil
}

// eventNamespace returns where Events about an object are.
func (o object) eventNamespace() string {
	if o.namespace == "" {
		return metav1.NamespaceDefault
	}
	return o.namespace
}
