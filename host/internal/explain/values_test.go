package explain

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
)

// Whatever value the API server refuses, and whyever: the fields and the reasons are in the message,
// and a long value is not.
func TestValuesAreShortenedAndReasonsAreNot(t *testing.T) {
	const secret = "the-value-of-an-environment-variable"
	text := rapid.StringOf(rapid.RuneFrom([]rune("a\"\\`{}[]():, \n'é")))
	rapid.Check(t, func(t *rapid.T) {
		long := rapid.Bool().Draw(t, "long")
		env := []corev1.EnvVar{}
		if long {
			for range rapid.IntRange(2, 60).Draw(t, "variables") {
				env = append(env, corev1.EnvVar{Name: text.Draw(t, "name"), Value: text.Draw(t, "before") + secret + text.Draw(t, "after")})
			}
		}
		values := []any{
			env,
			corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: env}}}},
			map[string]any{"env": env},
			internal{env},
			[]internal{{env}, {env}},
			map[string]internal{"a": {env}},
			&internal{env}, text.Draw(t, "text") + strings.Repeat("x", maxValue), 5, true, "short",
		}
		var list field.ErrorList
		var details []string
		for range rapid.IntRange(1, 3).Draw(t, "errors") {
			value := rapid.SampledFrom(values).Draw(t, "value")
			detail := rapid.SampledFrom([]string{"field is immutable", `must be "a": or {b}`, ""}).Draw(t, "detail")
			at := field.NewPath("spec").Child(rapid.SampledFrom([]string{"template", "env"}).Draw(t, "field"))
			list = append(list, rapid.SampledFrom([]*field.Error{
				field.Invalid(at, value, detail), field.TypeInvalid(at, value, detail), field.Duplicate(at, value), field.NotFound(at, value), field.Forbidden(at, detail),
				field.TooLong(at, "", 63), field.TooMany(at, 5, 3), field.NotSupported(at, value, []string{"a", "b"}), field.Required(at, detail),
			}).Draw(t, "error"))
			last := list[len(list)-1]
			details = append(details, at.String()+": "+last.Type.String(), last.Detail)
		}
		err := apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "j", list)
		got := ShortenValues(err.Error(), err.Status())
		for _, detail := range details {
			if !strings.Contains(got, detail) {
				t.Fatalf("%q is missing in %q, which was %q", detail, got, err)
			}
		}
		if long && strings.Contains(got, secret) {
			t.Fatalf("a value is in %q, which was %q", got, err)
		}
		if most := 3 * (maxValue + 200); len(got) > most {
			t.Fatalf("%d bytes: %q, which was %q", len(got), got, err)
		}
	})
}

// internal is a value that has no JSON.
type internal struct{ env []corev1.EnvVar }

func (internal) MarshalJSON() ([]byte, error) { return nil, errors.New("internal type") }
