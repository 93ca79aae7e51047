package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
)

// This file has what the host serves to the API server, admission reviews and conversions, and
// what a policy allows a plugin of it.

// Webhook is how the host serves reviews and conversions of plugins to the API server.
type Webhook struct {
	// Listen is the address on which they are served over TLS, such as :9443; without it
	// none are. The flag --webhooks-listen wins over it.
	Listen string `json:"listen,omitempty"`
	// Service is the Service by which the API server reaches the host. Its default, and that
	// of its namespace, is what is written below.
	Service WebhookService `json:"service,omitzero"`
	// URL is by what the API server reaches the host instead of a Service, such as
	// https://host.example:9443. It is for hosts outside of the cluster.
	URL string `json:"url,omitempty"`
	// Secret is where the certificates are kept, which the host makes and renews, and
	// which all replicas share.
	Secret WebhookSecret `json:"secret,omitzero"`
	// Validity is that of a certificate; it is replaced after two thirds of that time.
	// Default 2160h, 90 days.
	Validity Duration `json:"validity,omitzero"`
	// ClientCA is a file with certificates in PEM: a review must come over a connection
	// with a client certificate that one of them has signed. The API server needs such a
	// certificate then, by its --admission-control-config-file. It presents none for
	// conversions, for which none is needed.
	ClientCA string `json:"clientCA,omitempty"`
	// ClientNames are the common names that a client certificate may have; without the list
	// any that clientCA has signed is accepted.
	ClientNames []string `json:"clientNames,omitempty"`
}

// WebhookService is a Service.
type WebhookService struct {
	// Namespace is that of the Service; default that of the pod of the host.
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the Service; default thole-webhook.
	Name string `json:"name,omitempty"`
	// Port is that of the Service, default 443.
	Port int `json:"port,omitempty"`
}

// WebhookSecret is a Secret.
type WebhookSecret struct {
	// Namespace is that of the Secret; default that of the pod of the host.
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the Secret; default thole-webhook.
	Name string `json:"name,omitempty"`
}

const webhookName = "thole-webhook"

// numbers also has the port, although a URL has none of its own: nobody then uses it.
func (w *Webhook) numbers() []number {
	return []number{
		numberOf("webhooks.validity", &w.Validity.Duration, 90*24*time.Hour, 10*time.Second, 10*365*24*time.Hour),
		numberOf("webhooks.service.port", &w.Service.Port, 443, 1, 65535),
	}
}

func (w *Webhook) setDefaults() {
	if w.Service.Name == "" && w.URL == "" {
		w.Service.Name = webhookName
	}
	if w.Secret.Name == "" {
		w.Secret.Name = webhookName
	}
}

// problems returns what is wrong with the fields, whose defaults are filled in.
func (w *Webhook) problems() (problems []error) {
	at := field.NewPath("webhooks")
	problems = append(problems, addressProblem(at.Child("listen"), w.Listen))
	for _, name := range []struct {
		at       *field.Path
		value    string
		problems func(string) []string
	}{
		{at.Child("service", "namespace"), w.Service.Namespace, validation.IsDNS1123Label},
		{at.Child("service", "name"), w.Service.Name, validation.IsDNS1035Label},
		{at.Child("secret", "namespace"), w.Secret.Namespace, validation.IsDNS1123Label},
		{at.Child("secret", "name"), w.Secret.Name, validation.IsDNS1123Subdomain},
	} {
		if wrong := name.problems(name.value); name.value != "" && len(wrong) > 0 {
			problems = append(problems, field.Invalid(name.at, name.value, wrong[0]))
		}
	}
	for i, name := range w.ClientNames {
		if name == "" {
			problems = append(problems, field.Required(at.Child("clientNames").Index(i), "name the common name of a certificate"))
		}
	}
	if len(w.ClientNames) > 0 && w.ClientCA == "" {
		problems = append(problems, field.Required(at.Child("clientCA"), "clientNames are the names of certificates that it has signed"))
	}
	return append(problems, w.urlProblem(at.Child("url")))
}

func (w *Webhook) urlProblem(at *field.Path) error {
	if w.URL == "" {
		return nil
	}
	u, err := url.Parse(w.URL)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return field.Invalid(at, w.URL, "must be https://host:port and nothing behind it: the API server takes no other scheme, and the host adds the path")
	case w.Service.Name != "":
		return field.Forbidden(at, "there are url and service: remove one of them")
	}
	return nil
}

// Webhooks is what a policy has of the webhooks of a plugin: fields of the webhook
// configurations that the host writes for it, which Kubernetes describes under
// "Dynamic Admission Control".
type Webhooks struct {
	// FailurePolicy is the answer of a review that fails, or of a plugin that does not run:
	// Fail refuses the request of the user, Ignore allows it, with a warning. Default Fail.
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
	// Timeout is how long one review, or the conversion of one object, may execute, within
	// limits.timeout; 1s to 30s, default 2s.
	Timeout Duration `json:"timeout,omitzero"`
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

// MatchCondition is one of them.
type MatchCondition struct {
	Name       string `json:"name"`       // a name as in a label key
	Expression string `json:"expression"` // CEL, which results in a boolean
}

// Bounds of the API server, k8s.io/kubernetes/pkg/apis/admissionregistration/validation.
const maxMatchConditions = 64

const (
	defaultWebhookTimeout = 2 * time.Second
	minWebhookTimeout     = time.Second
	maxWebhookTimeout     = 30 * time.Second
)

// DefaultWebhooks returns the webhooks of a policy with webhooks: {}.
func DefaultWebhooks() *Webhooks {
	w := &Webhooks{}
	w.setDefaults()
	return w
}

func (w *Webhooks) setDefaults() {
	if w.FailurePolicy == "" {
		w.FailurePolicy = FailReview
	}
	if w.Timeout.Duration == 0 {
		w.Timeout.Duration = defaultWebhookTimeout
	}
}

// problems returns what is wrong with the fields, whose defaults are filled in.
func (w *Webhooks) problems() (problems []error) {
	at := field.NewPath("webhooks")
	if w.FailurePolicy != FailReview && w.FailurePolicy != IgnoreFailure {
		problems = append(problems, field.NotSupported(at.Child("failurePolicy"), w.FailurePolicy, []FailurePolicy{FailReview, IgnoreFailure}))
	}
	if w.Timeout.Duration < minWebhookTimeout || w.Timeout.Duration > maxWebhookTimeout {
		problems = append(problems, field.Invalid(at.Child("timeout"), w.Timeout.String(), fmt.Sprintf("must be between %s and %s", minWebhookTimeout, maxWebhookTimeout)))
	}
	for _, s := range []struct{ name, text string }{{"namespaceSelector", w.NamespaceSelector}, {"objectSelector", w.ObjectSelector}} {
		if _, err := metav1.ParseToLabelSelector(s.text); err != nil {
			problems = append(problems, field.Invalid(at.Child(s.name), s.text, "must be a label selector without < and >, such as team in (a, b): "+err.Error()))
		}
	}
	return append(problems, w.MatchConditions.problems(at.Child("matchConditions"))...)
}

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
func (w *Webhooks) Selectors() (namespaces, objects *metav1.LabelSelector) {
	return LabelSelector(w.NamespaceSelector), LabelSelector(w.ObjectSelector)
}

// LabelSelector returns a selector that was checked, nil if it selects everything.
func LabelSelector(text string) *metav1.LabelSelector {
	if s, err := labels.Parse(text); err != nil || s.Empty() {
		return nil
	}
	s, _ := metav1.ParseToLabelSelector(text)
	return s
}

// Offers reports whether a plugin validates, mutates or converts objects.
func Offers(m *abi.Manifest) bool {
	return slices.ContainsFunc(m.Controllers, func(c abi.Controller) bool { return c.Section(webhooks.Name) != nil })
}

// AllowsWebhooks reports whether the policy of a plugin may have webhooks.
func (a Allow) AllowsWebhooks(plugin string) bool {
	return slices.Contains(a.Webhooks, plugin) || slices.Contains(a.Webhooks, EveryPlugin)
}

// checkWebhooks fills the defaults of the webhooks of a policy, and returns what is wrong with them.
func (c Config) checkWebhooks(plugin string, p *Policy) (problems []error) {
	if p.Webhooks == nil {
		return nil
	}
	p.Webhooks.setDefaults()
	problems = p.Webhooks.problems()
	if !c.Allow.AllowsWebhooks(plugin) {
		problems = append(problems, field.Forbidden(field.NewPath("webhooks"),
			"the host's configuration does not allow it to the plugin: remove it, or have it allowed in the file of --config: "+Needs{Webhooks: true}.configText(plugin)))
	}
	return problems
}

const aCondition = "such as {name: replicas, expression: object.spec.replicas > 3}"

// conditionsShape returns what is not written as matchConditions are, nil for none.
func conditionsShape(at *field.Path, value any) (problems []error) {
	list, ok := value.([]any)
	if value != nil && !ok {
		return []error{field.TypeInvalid(at, shown(value), "must be a list of conditions, "+aCondition)}
	}
	for i, entry := range list {
		fields, ok := entry.(map[string]any)
		if !ok {
			problems = append(problems, field.TypeInvalid(at.Index(i), shown(entry), "must be a condition, "+aCondition))
		}
		for _, name := range sortedNames(fields) {
			if _, isText := fields[name].(string); name != "name" && name != "expression" {
				problems = append(problems, unknownIn(at.Index(i), name, []string{"name", "expression"}))
			} else if !isText {
				problems = append(problems, field.TypeInvalid(at.Index(i).Child(name), shown(fields[name]), "must be text: write it in quotes"))
			}
		}
	}
	return problems
}
