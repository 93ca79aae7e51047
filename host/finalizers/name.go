package finalizers

import (
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
)

// Owner is whose finalizers are meant.
type Owner struct {
	Plugin     string
	Controller string // "" for every controller that the plugin ever had
}

// ParseOwner reads PLUGIN or PLUGIN/CONTROLLER. Both are DNS labels.
func ParseOwner(s string) (Owner, error) {
	plugin, controller, one := strings.Cut(s, "/")
	if !abi.ValidName(plugin) {
		return Owner{}, fmt.Errorf("%q is no plugin: want its name as its file has it without .wasm, a DNS label, or name/controller", plugin)
	}
	if one && !abi.ValidName(controller) {
		return Owner{}, fmt.Errorf("%q is no controller of plugin %q: want a DNS label", controller, plugin)
	}
	return Owner{plugin, controller}, nil
}

// String is what [ParseOwner] reads.
func (o Owner) String() string {
	if o.Controller == "" {
		return o.Plugin
	}
	return o.Plugin + "/" + o.Controller
}

// holds says whether a finalizer is the owner's, and of which controller.
func (o Owner) holds(finalizer string) (controller string, ok bool) {
	controller, ok = effect.FinalizerController(o.Plugin, finalizer)
	return controller, ok && (o.Controller == "" || o.Controller == controller)
}

// KindName writes a kind as kubectl does: PodManager.v1.example.thole.dev,
// Pod.v1 for the core group.
func KindName(kind abi.Kind) string {
	group, version, grouped := strings.Cut(kind.APIVersion, "/")
	if !grouped {
		return kind.Kind + "." + kind.APIVersion
	}
	return kind.Kind + "." + version + "." + group
}

// Command is what an administrator types to take the owner's finalizers off
// all objects of the kinds, in one namespace or, for "", in all.
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
