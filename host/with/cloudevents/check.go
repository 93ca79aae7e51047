package cloudevents

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with/http"
)

const (
	maxSinks  = 8
	maxURL    = 2048
	maxPrefix = 128
)

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Problems implements [config.PolicySection].
func (s Settings) Problems(at *field.Path, plugin string, ceiling config.Ceiling) []error {
	if problems := s.problems(at); problems != nil {
		return problems
	}
	return http.HostProblems(at.Child("sinks"), plugin, ceiling, s.Sinks.Entries())
}

// problems returns what is wrong with the settings, by their paths.
func (s Settings) problems(at *field.Path) (problems []error) {
	if s.TypePrefix != "" && (len(s.TypePrefix) > maxPrefix || !prefixPattern.MatchString(s.TypePrefix)) {
		problems = append(problems, field.Invalid(at.Child("typePrefix"), field.OmitValueType{},
			"must be letters, digits, '.', '-' and '_', up to 128, such as com.example, without the dot at its end"))
	}
	at = at.Child("sinks")
	if len(s.Sinks) > maxSinks {
		return append(problems, field.TooMany(at, len(s.Sinks), maxSinks))
	}
	names := map[string]bool{}
	for i, sink := range s.Sinks {
		found := sink.problems(at.Index(i))
		if name := sink.name(); found == nil && names[name] {
			found = []error{field.Duplicate(at.Index(i).Child("name"), name)}
		} else {
			names[name] = true
		}
		problems = append(problems, found...)
	}
	return problems
}

func (s Sink) problems(at *field.Path) (problems []error) {
	if s.Name != "" && !abi.ValidName(s.Name) {
		problems = append(problems, field.Invalid(at.Child("name"), field.OmitValueType{}, "must be a DNS label (lower case letters, digits, '-')"))
	}
	switch s.mode() {
	case ModeStructured, ModeBinary, ModeBatch:
	default:
		problems = append(problems, field.NotSupported(at.Child("mode"), s.Mode, []Mode{ModeStructured, ModeBinary, ModeBatch}))
	}
	e, err := s.Entry()
	switch {
	case s.URL == "":
		return append(problems, field.Required(at.Child("url"), "write the URL that takes the events, such as https://events.example.com/in"))
	case len(s.URL) > maxURL:
		return append(problems, field.TooLong(at.Child("url"), "", maxURL))
	case err != nil:
		return append(problems, field.Invalid(at.Child("url"), field.OmitValueType{}, err.Error())) // it may have a password
	}
	if e.SecretRef != nil && e.SendsCredentialInTheClear() {
		problems = append(problems, field.Forbidden(at.Child("secretRef"),
			"a credential is sent by https only, except without a proxy to this machine: write https:// in the url, or addresses: [loopback]"))
		e.SecretRef, e.Header = nil, "" // of which nothing else is to be said
	}
	if h := strings.ToLower(s.Header); h == "content-type" || strings.HasPrefix(h, "ce-") {
		problems = append(problems, field.Invalid(at.Child("header"), s.Header, "is a header of the event itself: name another one, such as X-Api-Key"))
	}
	return append(problems, e.Problems(at)...)
}
