package webhooks

import (
	"runtime"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// fill returns a text of nearly 8 MiB with as many elements as fit between two texts.
func fill(before, element, after string) string {
	n := (maxBytes - len(before) - len(after)) / (len(element) + 1)
	return before + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + after
}

func TestDecodingTakesNoMoreThanAFewTimesTheText(t *testing.T) {
	const request = `{"apiVersion":"x","kind":"y","request":{"uid":"u",`
	for name, test := range map[string]struct {
		text    string
		into    any
		refused bool
	}{
		"extra":            {fill(request+`"userInfo":{"extra":{`, `"k":[]`, `}}}}`), &admissionv1.AdmissionReview{}, true},
		"groups":           {fill(request+`"userInfo":{"groups":[`, `""`, `]}}}`), &admissionv1.AdmissionReview{}, true},
		"extra of a name":  {fill(request+`"userInfo":{"extra":{"object":[`, `""`, `]}}}}`), &admissionv1.AdmissionReview{}, true},
		"after an object":  {fill(request+`"object":{"a":[1]},"userInfo":{"groups":[`, `""`, `]}}}`), &admissionv1.AdmissionReview{}, true},
		"after a quote":    {fill(request+`"name":"a\\\\\",\"object\":{","userInfo":{"groups":[`, `""`, `]}}}`), &admissionv1.AdmissionReview{}, true},
		"converted":        {fill(request+`"objects":[`, `{}`, `]}}`), &apiextensionsv1.ConversionReview{}, true},
		"object":           {fill(request+`"object":{"a":[`, `[]`, `]}}}`), &admissionv1.AdmissionReview{}, false},
		"old object":       {fill(request+`"object":{},"oldObject":{"a":[`, `[]`, `]}}}`), &admissionv1.AdmissionReview{}, false},
		"converted object": {fill(request+`"objects":[{"a":[`, `[]`, `]}]}}`), &apiextensionsv1.ConversionReview{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(test.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := decodeReview(text, test.into)
			runtime.ReadMemStats(&after)
			if refused := err != nil && strings.Contains(err.Error(), "more than 65536 values"); refused != test.refused || !refused && err != nil {
				t.Errorf("got %v", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 4*maxBytes {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}
