package webhooks

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
)

// HostSettings are how the host serves reviews and conversions of plugins to the API server, as the file of --config
// has it.
type HostSettings struct {
	// Listen is the address on which they are served over TLS, such as :9443; without it
	// none are. The flag --webhooks-listen wins over it.
	Listen string `json:"listen,omitempty"`
	// Service is the Service by which the API server reaches the host. Its default, and that
	// of its namespace, is what is written below.
	Service Service `json:"service,omitzero"`
	// URL is by what the API server reaches the host instead of a Service, such as
	// https://host.example:9443. It is for hosts outside of the cluster.
	URL string `json:"url,omitempty"`
	// Secret is where the certificates are kept, which the host makes and renews, and
	// which all replicas share.
	Secret Secret `json:"secret,omitzero"`
	// Validity is that of a certificate; it is replaced after two thirds of that time.
	// Default 2160h, 90 days.
	Validity config.Duration `json:"validity,omitzero"`
	// ClientCA is a file with certificates in PEM: a review must come over a connection
	// with a client certificate that one of them has signed. The API server needs such a
	// certificate then, by its --admission-control-config-file. It presents none for
	// conversions, for which none is needed.
	ClientCA string `json:"clientCA,omitempty"`
	// ClientNames are the common names that a client certificate may have; without the list
	// any that clientCA has signed is accepted.
	ClientNames []string `json:"clientNames,omitempty"`
}

// Service is a Service.
type Service struct {
	// Namespace is that of the Service; default that of the pod of the host.
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the Service; default thole-webhook.
	Name string `json:"name,omitempty"`
	// Port is that of the Service, default 443.
	Port int `json:"port,omitempty"`
}

// Secret is a Secret.
type Secret struct {
	// Namespace is that of the Secret; default that of the pod of the host.
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the Secret; default thole-webhook.
	Name string `json:"name,omitempty"`
}

const (
	defaultName = "thole-webhook" // of the Service, and of the Secret
	minValidity = 10 * time.Second
	maxValidity = 10 * 365 * 24 * time.Hour
	maxPort     = 65535
)

// NewHostSettings returns the defaults.
func NewHostSettings() *HostSettings {
	return &HostSettings{
		Service: Service{Name: defaultName, Port: 443}, Secret: Secret{Name: defaultName}, Validity: config.Duration{Duration: 90 * 24 * time.Hour},
	}
}

// Flags implements [config.Flagged].
func (s *HostSettings) Flags() []config.Flag {
	return []config.Flag{{
		Name: "webhooks-listen", Field: &s.Listen,
		Usage: "address of reviews and conversions of plugins, over TLS, such as :9443; default: they are not served",
	}}
}

// Address implements [config.Listening].
func (s *HostSettings) Address() string { return s.Listen }

// ListenLocally implements [config.Listening].
func (s *HostSettings) ListenLocally(address string) {
	s.Listen, s.URL, s.Secret.Namespace = address, "https://"+address, metav1.NamespaceDefault
}

// Problems implements [config.HostSection].
func (s *HostSettings) Problems(at *field.Path) (problems []error) {
	if err := config.AddressProblem(at.Child("listen"), s.Listen); err != nil {
		problems = append(problems, err)
	}
	for _, name := range []struct {
		at       *field.Path
		value    string
		problems func(string) []string
	}{
		{at.Child("service", "namespace"), s.Service.Namespace, validation.IsDNS1123Label},
		{at.Child("service", "name"), s.Service.Name, validation.IsDNS1035Label},
		{at.Child("secret", "namespace"), s.Secret.Namespace, validation.IsDNS1123Label},
		{at.Child("secret", "name"), s.Secret.Name, validation.IsDNS1123Subdomain},
	} {
		if wrong := name.problems(name.value); name.value != "" && len(wrong) > 0 {
			problems = append(problems, field.Invalid(name.at, name.value, wrong[0]))
		}
	}
	for i, name := range s.ClientNames {
		if name == "" {
			problems = append(problems, field.Required(at.Child("clientNames").Index(i), "name the common name of a certificate"))
		}
	}
	if len(s.ClientNames) > 0 && s.ClientCA == "" {
		problems = append(problems, field.Required(at.Child("clientCA"), "clientNames are the names of certificates that it has signed"))
	}
	if s.Service.Port < 1 || s.Service.Port > maxPort {
		problems = append(problems, field.Invalid(at.Child("service", "port"), s.Service.Port, fmt.Sprintf("must be between 1 and %d", maxPort)))
	}
	problems = append(problems, durationProblems(at.Child("validity"), s.Validity, minValidity, maxValidity)...)
	return append(problems, s.urlProblems(at.Child("url"))...)
}

func durationProblems(at *field.Path, d config.Duration, least, most time.Duration) []error {
	if d.Duration >= least && d.Duration <= most {
		return nil
	}
	return []error{field.Invalid(at, d.String(), fmt.Sprintf("must be between %s and %s", least, most))}
}

// urlProblems returns what is wrong with the URL. A Service with the default name may be the default.
func (s *HostSettings) urlProblems(at *field.Path) []error {
	if s.URL == "" {
		return nil
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return []error{field.Invalid(at, s.URL, "must be https://host:port and nothing behind it: the API server takes no other scheme, and the host adds the path")}
	case s.Service.Name != defaultName:
		return []error{field.Forbidden(at, "there are url and service: remove one of them")}
	}
	return nil
}

// Settings are what a policy has of the webhooks of a plugin: fields of the webhook
// configurations that the host writes for it, which Kubernetes describes under
// "Dynamic Admission Control".
type Settings struct {
	// FailurePolicy is the answer of a review that fails, or of a plugin that does not run:
	// Fail refuses the request of the user, Ignore allows it, with a warning. Default Fail.
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
	// Timeout is how long one review, or the conversion of one object, may execute, within
	// limits.timeout; 1s to 30s, default 2s.
	Timeout config.Duration `json:"timeout,omitzero"`
	// NamespaceSelector is a label selector, such as "team in (a, b)": only requests for objects in
	// namespaces with such labels are reviewed.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// ObjectSelector is a label selector: only requests for objects are reviewed that have
	// such labels before or after it.
	ObjectSelector string `json:"objectSelector,omitempty"`
	// MatchConditions are expressions in CEL that must all be true of a request that is
	// reviewed. The API server checks them.
	MatchConditions MatchConditions `json:"matchConditions,omitempty"`
}

// FailurePolicy is Fail or Ignore.
type FailurePolicy string

const (
	// FailReview refuses a request whose review fails.
	FailReview FailurePolicy = "Fail"
	// IgnoreFailure allows it.
	IgnoreFailure FailurePolicy = "Ignore"
)

// MatchConditions are the matchConditions of webhooks.
type MatchConditions []MatchCondition

// EntryExample implements [config.EntryExampler].
func (MatchConditions) EntryExample() string {
	return "such as {name: replicas, expression: object.spec.replicas > 3}"
}

// MatchCondition is one of them.
type MatchCondition struct {
	Name       string `json:"name"`       // a name as in a label key
	Expression string `json:"expression"` // CEL, which results in a boolean
}

// Bounds of the API server, k8s.io/kubernetes/pkg/apis/admissionregistration/validation.
const maxMatchConditions = 64

const (
	minTimeout = time.Second
	maxTimeout = 30 * time.Second
)

// NewSettings returns the settings of a policy with webhooks: {}.
func NewSettings() *Settings {
	return &Settings{FailurePolicy: FailReview, Timeout: config.Duration{Duration: 2 * time.Second}}
}

// SettingsOf returns the settings of a policy, nil if it allows no webhooks.
func SettingsOf(p config.Policy) *Settings {
	s, _ := p.Sections[contract.Name].(*Settings)
	return s
}

// missing returns the settings that a manifest needs.
func missing(_ config.PolicySection, written bool, m *abi.Manifest) config.MissingSection {
	if written || len(offersOf(m)) == 0 {
		return config.MissingSection{}
	}
	return config.MissingSection{Value: NewSettings(), Text: "{}", Allow: config.Named{}}
}

// Problems implements [config.PolicySection].
func (s *Settings) Problems(at *field.Path, plugin string, ceiling config.Ceiling) (problems []error) {
	if s.FailurePolicy != FailReview && s.FailurePolicy != IgnoreFailure {
		problems = append(problems, field.NotSupported(at.Child("failurePolicy"), s.FailurePolicy, []FailurePolicy{FailReview, IgnoreFailure}))
	}
	problems = append(problems, durationProblems(at.Child("timeout"), s.Timeout, minTimeout, maxTimeout)...)
	for _, selector := range []struct{ name, text string }{{"namespaceSelector", s.NamespaceSelector}, {"objectSelector", s.ObjectSelector}} {
		if _, err := metav1.ParseToLabelSelector(selector.text); err != nil {
			problems = append(problems, field.Invalid(at.Child(selector.name), selector.text, "must be a label selector without < and >, such as team in (a, b): "+err.Error()))
		}
	}
	problems = append(problems, s.MatchConditions.problems(at.Child("matchConditions"))...)
	if allowed, all := ceiling.SectionOf(contract.Name, plugin); allowed == nil && !all {
		problems = append(problems, config.NotAllowed(at, plugin, contract.Name, config.Named{}))
	}
	return problems
}

// Secrets implements [config.PolicySection].
func (*Settings) Secrets() []rights.SecretRef { return nil }

func (all MatchConditions) problems(at *field.Path) (problems []error) {
	if len(all) > maxMatchConditions {
		return []error{field.TooMany(at, len(all), maxMatchConditions)}
	}
	names := map[string]bool{}
	for i, c := range all {
		switch wrong := validation.IsQualifiedName(c.Name); {
		case len(wrong) > 0:
			problems = append(problems, field.Invalid(at.Index(i).Child("name"), c.Name, wrong[0]))
		case names[c.Name]:
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		names[c.Name] = true
		if strings.TrimSpace(c.Expression) == "" {
			problems = append(problems, field.Required(at.Index(i).Child("expression"), "write an expression in CEL, such as object.spec.replicas > 3"))
		}
	}
	return problems
}

// Selectors returns the selectors as webhook configurations have them, nil for everything.
func (s *Settings) Selectors() (namespaces, objects *metav1.LabelSelector) {
	return labelSelector(s.NamespaceSelector), labelSelector(s.ObjectSelector)
}

// labelSelector returns a selector that was checked, nil if it selects everything.
func labelSelector(text string) *metav1.LabelSelector {
	if s, err := labels.Parse(text); err != nil || s.Empty() {
		return nil
	}
	s, _ := metav1.ParseToLabelSelector(text)
	return s
}
