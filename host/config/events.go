package config

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Events is how events from outside are received, which make objects run: POST /events.
type Events struct {
	// Audiences are those that the token of a caller may be for. Default: thole.dev.
	Audiences []string `json:"audiences,omitempty"`
}

const (
	defaultAudience = "thole.dev"
	maxAudiences    = 16
)

func (e *Events) setDefaults() {
	if len(e.Audiences) == 0 {
		e.Audiences = []string{defaultAudience}
	}
}

// problems returns what is wrong with the fields.
func (e *Events) problems() (problems []error) {
	at := field.NewPath("events", "audiences")
	if n := len(e.Audiences); n > maxAudiences {
		problems = append(problems, field.TooMany(at, n, maxAudiences))
	}
	for i, audience := range e.Audiences {
		if audience == "" {
			problems = append(problems, field.Required(at.Index(i), "name an audience, such as "+defaultAudience))
		}
	}
	return problems
}
