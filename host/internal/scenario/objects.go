package scenario

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// An object is what RESOURCE/NAME names.
type object struct {
	client    dynamic.ResourceInterface
	resource  schema.GroupVersionResource
	name      string
	namespace string // "" for an object that is in none
}

// object returns the object that an argument names.
func (s *script) object(argument, namespace string) (object, error) {
	resource, name, ok := strings.Cut(argument, "/")
	if !ok || resource == "" || name == "" {
		return object{}, wrongUse("%q is not RESOURCE/NAME", argument)
	}
	gvr, namespaced, err := s.api.resource(resource)
	if err != nil {
		return object{}, err
	}
	if !namespaced {
		return object{s.api.objects.Resource(gvr), gvr, name, ""}, nil
	}
	return object{s.api.objects.Resource(gvr).Namespace(namespace), gvr, name, namespace}, nil
}

// namespaceFlag defines the flag -n.
func (s *script) namespaceFlag(flags *flag.FlagSet) *string {
	return flags.String("n", s.namespace, "")
}

// objectArgs reads the arguments of a command about one object: -n and other flags,
// RESOURCE/NAME, and so many further arguments.
func (s *script) objectArgs(flags *flag.FlagSet, args []string, least, most int) (object, []string, error) {
	namespace := s.namespaceFlag(flags)
	args, err := parse(flags, args, least+1, most+1)
	if err != nil {
		return object{}, nil, err
	}
	o, err := s.object(args[0], *namespace)
	return o, args[1:], err
}

const anyNumber = math.MaxInt - 1

func newFlags() *flag.FlagSet { return flag.NewFlagSet("", flag.ContinueOnError) }

// apply writes the objects of files by server-side apply.
func apply(s *script, args []string) error {
	return s.eachObject(args, func(o *unstructured.Unstructured) error { return s.api.apply(s.tb.Context(), o, s.namespace) })
}

// create creates the objects of files.
func create(s *script, args []string) error {
	return s.eachObject(args, func(o *unstructured.Unstructured) error {
		_, err := s.create(o)
		return err
	})
}

// create creates an object; dryRun is metav1.DryRunAll or nothing.
func (s *script) create(o *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	client, err := s.api.forObject(o, s.namespace)
	if err != nil {
		return nil, err
	}
	return client.Create(s.tb.Context(), o, metav1.CreateOptions{FieldManager: fieldManager, DryRun: dryRun})
}

// refused checks that the API server refuses to create the object of a file, with a text. It asks
// by dry runs: the API server calls a webhook some time after it was told of it.
func refused(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	rest, err := parse(flags, args, 2, 2)
	if err != nil {
		return nil, err
	}
	return func() error {
		return s.eachObject(rest[:1], func(o *unstructured.Unstructured) error {
			switch _, err := s.create(o, metav1.DryRunAll); {
			case err == nil:
				return fmt.Errorf("%s is not refused", rest[0])
			case !strings.Contains(err.Error(), rest[1]):
				return err
			}
			return nil
		})
	}, nil
}

// reviewed checks that the API server makes an object of a file that has values: it calls the
// webhooks that set them. It asks by dry runs, as refused does.
func reviewed(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	rest, err := parse(flags, args, 2, anyNumber)
	if err != nil {
		return nil, err
	}
	wanted, err := parseValues(rest[1:])
	if err != nil {
		return nil, err
	}
	return func() error {
		return s.eachObject(rest[:1], func(o *unstructured.Unstructured) error {
			got, err := s.create(o, metav1.DryRunAll)
			if err != nil {
				return err
			}
			return hasValues(got, wanted)
		})
	}, nil
}

// eachObject calls do for each object of files. In these, $NS is the namespace of
// the script.
func (s *script) eachObject(files []string, do func(*unstructured.Unstructured) error) error {
	if len(files) == 0 {
		return wrongUse("name a file")
	}
	for _, file := range files {
		text, err := os.ReadFile(s.path(file))
		if err != nil {
			return err
		}
		all, err := decode(strings.ReplaceAll(string(text), "$NS", s.namespace))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, o := range all {
			if err := do(o); err != nil {
				return fmt.Errorf("%s: %s %s: %w", file, o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// path returns the path of a file that a script names.
func (s *script) path(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(s.work, file)
}

// patch changes an object, or all that a selector selects, by a merge patch.
func patch(s *script, args []string) error {
	flags := newFlags()
	namespace, selector, subresource := s.namespaceFlag(flags), flags.String("l", "", ""), new(string)
	for _, name := range []string{"status", "scale"} {
		flags.BoolFunc(name, "", func(string) error { *subresource = name; return nil })
	}
	args, err := parse(flags, args, 2, 2)
	if err != nil {
		return err
	}
	body := []byte(strings.ReplaceAll(args[1], "<now>", time.Now().UTC().Format(time.RFC3339)))
	if !json.Valid(body) {
		return wrongUse("%s is not JSON", args[1])
	}
	var subresources []string
	if *subresource != "" {
		subresources = append(subresources, *subresource)
	}
	objects, err := s.selected(args[0], *namespace, *selector)
	if err != nil {
		return err
	}
	for _, o := range objects {
		err = errors.Join(err, s.mergePatch(o, body, subresources...))
	}
	return err
}

// selected returns the object that RESOURCE/NAME names or, with a selector, those of RESOURCE that
// match it.
func (s *script) selected(argument, namespace, selector string) (all []object, err error) {
	if selector == "" {
		o, err := s.object(argument, namespace)
		return []object{o}, err
	}
	client, err := s.api.in(argument, namespace)
	if err != nil {
		return nil, err
	}
	list, err := client.List(s.tb.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		all = append(all, object{client: client, name: o.GetName(), namespace: o.GetNamespace()})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no %s match %s", argument, selector)
	}
	return all, nil
}

func (s *script) mergePatch(o object, text []byte, subresources ...string) error {
	options := metav1.PatchOptions{FieldManager: fieldManager}
	_, err := o.client.Patch(s.tb.Context(), o.name, types.MergePatchType, text, options, subresources...)
	return err
}

// remove deletes an object.
func remove(s *script, args []string) error {
	flags := newFlags()
	orphan := flags.Bool("orphan", false, "")
	o, _, err := s.objectArgs(flags, args, 0, 0)
	if err != nil {
		return err
	}
	if s.own == nil && o.resource.Resource == "customresourcedefinitions" {
		return errors.New("other scripts need this kind: begin the script with `cluster own`")
	}
	policy := metav1.DeletePropagationBackground
	if *orphan {
		policy = metav1.DeletePropagationOrphan
	}
	return o.client.Delete(s.tb.Context(), o.name, metav1.DeleteOptions{PropagationPolicy: &policy})
}

// own makes an object an owner of another one.
func own(s *script, args []string) error {
	flags := newFlags()
	controller := flags.Bool("controller", false, "")
	o, args, err := s.objectArgs(flags, args, 1, 1)
	if err != nil {
		return err
	}
	named, err := s.object(args[0], o.namespace)
	if err != nil {
		return err
	}
	owner, err := named.client.Get(s.tb.Context(), named.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ref := metav1.NewControllerRef(owner, owner.GroupVersionKind())
	ref.Controller = controller
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []any{ref}}})
	if err != nil {
		return err
	}
	return s.mergePatch(o, text)
}

func annotate(s *script, args []string) error { return s.setMetadata("annotations", args) }

func label(s *script, args []string) error { return s.setMetadata("labels", args) }

// setMetadata sets and removes entries of a map in metadata.
func (s *script) setMetadata(field string, args []string) error {
	o, args, err := s.objectArgs(newFlags(), args, 1, anyNumber)
	if err != nil {
		return err
	}
	entries := map[string]any{}
	for _, a := range args {
		key, value, set := strings.Cut(a, "=")
		removed, remove := strings.CutSuffix(a, "-")
		switch {
		case set:
			entries[key] = value
		case remove:
			entries[removed] = nil
		default:
			return wrongUse("%q is neither KEY=VALUE nor KEY-", a)
		}
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{field: entries}})
	if err != nil {
		return err
	}
	return s.mergePatch(o, text)
}
