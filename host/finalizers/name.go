package finalizers

import (
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
)

// Owner is the owner of finalizers: a plugin or one of its controllers.
type Owner struct {
	Plugin     string
	Controller string // "" for all controllers, including those of earlier revisions
}

// ParseOwner parses PLUGIN or PLUGIN/CONTROLLER. Both must be DNS labels.
func ParseOwner(s string) (Owner, error) {
	plugin, controller, one := strings.Cut(s, "/")
	if !abi.ValidName(plugin) {
		return Owner{}, fmt.Errorf("plugin %q: not a DNS label; use the name of the plugin's file without .wasm, or name/controller", plugin)
	}
	if one && !abi.ValidName(controller) {
		return Owner{}, fmt.Errorf("controller %q of plugin %q: not a DNS label", controller, plugin)
	}
	return Owner{plugin, controller}, nil
}

// String returns the owner in the form of [ParseOwner].
func (o Owner) String() string {
	if o.Controller == "" {
		return o.Plugin
	}
	return o.Plugin + "/" + o.Controller
}

// owns reports whether a finalizer belongs to the owner, and returns its
// controller.
func (o Owner) owns(finalizer string) (controller string, ok bool) {
	controller, ok = effect.FinalizerController(o.Plugin, finalizer)
	return controller, ok && (o.Controller == "" || o.Controller == controller)
}

// KindName formats a kind as kubectl does: PodManager.v1.example.thole.dev, or
// Pod.v1 for the core group.
func KindName(kind abi.Kind) string {
	group, version, grouped := strings.Cut(kind.APIVersion, "/")
	if !grouped {
		return kind.Kind + "." + kind.APIVersion
	}
	return kind.Kind + "." + version + "." + group
}

// Command returns the command that removes the finalizers of an owner from all
// objects of the kinds, in a namespace or, for "", in all namespaces.
func Command(o Owner, kinds []abi.Kind, namespace string) string {
	words := []string{"thole finalizers", o.String()}
	for _, kind := range kinds {
		words = append(words, KindName(kind))
	}
	if namespace == "" {
		words = append(words, "-A")
	} else {
		words = append(words, "-n", namespace)
	}
	return strings.Join(append(words, "--release"), " ")
}
