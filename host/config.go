package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/catalog"
)

// Config is how a host runs. Its JSON form is what --config reads; the zero
// value of a field means its default.
type Config struct {
	// Plugins is the directory of the plugins; required.
	Plugins string `json:"plugins,omitempty"`
	// Namespace restricts every informer of a namespaced kind; "" is all.
	Namespace string `json:"namespace,omitempty"`
	// Listen is where probes, metrics and plugin states are served; default
	// 127.0.0.1:8080.
	Listen string `json:"listen,omitempty"`
	// HostIdentity lets plugins act with the rights of the host.
	HostIdentity bool `json:"hostIdentity,omitempty"`
	// DryRun lets the API server check every write of every plugin and store
	// none; what would have changed is logged.
	DryRun bool `json:"dryRun,omitempty"`
	// CacheDir keeps compiled plugins; default thole in the user's cache
	// directory, and a temporary one where there is none. It must not be in
	// Plugins.
	CacheDir string `json:"cacheDir,omitempty"`
	// CacheMiB is how much of the disk CacheDir may take; what was used least
	// lately goes. Default 1024.
	CacheMiB int `json:"cacheMiB,omitempty"`
	// Resync is how often every object is reconciled without a reason; a
	// tenth of jitter is added. Default 10h.
	Resync metav1.Duration `json:"resync,omitzero"`
	// Probation is for how long the generation before is kept after a swap to
	// new code, to be put back if its objects fail under the new one that did
	// not fail before. Default 10m.
	Probation metav1.Duration `json:"probation,omitzero"`
	// GuestMemoryMiB is the linear memory of all instances of all plugins
	// together, with the images that they start from; default half of what
	// the process may use: of its control groups' limit, else of the
	// machine's memory. Beyond it idle instances are dropped, then plugins
	// get no more.
	GuestMemoryMiB int `json:"guestMemoryMiB,omitempty"`
	// Limits bound every plugin.
	Limits Limits `json:"limits,omitzero"`
	// Allow is what policy files may let plugins do beyond the default.
	Allow Allow `json:"allow,omitzero"`
}

// Allow is the ceiling of the policy files: who writes the plugin directory
// must not gain rights by it.
type Allow struct {
	// CrossNamespace names the plugins whose namespaced primaries may read
	// and write in other namespaces, if their policy says so too; "*" is all.
	CrossNamespace []string `json:"crossNamespace,omitempty"`
}

// EveryPlugin stands for all in a list of plugins.
const EveryPlugin = "*"

func (a Allow) crossesNamespaces(plugin string) bool {
	return slices.Contains(a.CrossNamespace, plugin) || slices.Contains(a.CrossNamespace, EveryPlugin)
}

const (
	mostGuestMemoryMiB = 1 << 20 // a TiB
	mostCacheMiB       = 1 << 20
)

// ReadConfig reads a file in YAML or JSON. An unknown field is an error that
// names the nearest known one.
func ReadConfig(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := parseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return c, nil
}

func parseConfig(text []byte) (c Config, err error) { return c, decodeStrict(text, &c) }

// decodeStrict decodes YAML or JSON; an unknown field is an error that names
// the nearest known one.
func decodeStrict(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return nearest(err, fields(reflect.TypeOf(into).Elem()))
	}
	return nil
}

// nearest adds to the error about an unknown field what may have been meant.
func nearest(err error, known []string) error {
	_, rest, ok := strings.Cut(err.Error(), `unknown field "`)
	if !ok {
		return err
	}
	name, _, _ := strings.Cut(rest, `"`)
	if near, ok := rawjson.Nearest(name, known); ok {
		return fmt.Errorf("unknown field %q, did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown field %q; known are %s", name, strings.Join(known, ", "))
}

// fields lists the names of a struct's fields and of those of the structs in
// it.
func fields(t reflect.Type) (names []string) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		if field.Type.Kind() == reflect.Struct && field.Type.PkgPath() == t.PkgPath() {
			names = append(names, fields(field.Type)...)
		}
	}
	return names
}

// WithDefaults fills in the zero fields.
func (c Config) WithDefaults() Config {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8080"
	}
	if c.CacheDir == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			c.CacheDir = filepath.Join(dir, "thole")
		}
	}
	if c.Resync.Duration == 0 {
		c.Resync.Duration = 10 * time.Hour
	}
	if c.Probation.Duration == 0 {
		c.Probation.Duration = catalog.DefaultProbation
	}
	c.Limits = c.Limits.withDefaults()
	return c
}

// Validate says everything that is wrong with a configuration whose defaults
// are filled in.
func (c Config) Validate() error {
	var problems []error
	if c.Plugins == "" {
		problems = append(problems, errors.New("plugins: name the directory of the plugins (--plugins)"))
	}
	if c.CacheDir != "" && c.Plugins != "" && within(c.CacheDir, c.Plugins) {
		problems = append(problems, fmt.Errorf("cacheDir: %s lies in the plugin directory; who can write plugins could write compiled code there", c.CacheDir))
	}
	if c.Resync.Duration < time.Second {
		problems = append(problems, fmt.Errorf("resync: %s is shorter than 1s", c.Resync.Duration))
	}
	if c.Probation.Duration < time.Second {
		problems = append(problems, fmt.Errorf("probation: %s is shorter than 1s", c.Probation.Duration))
	}
	if c.CacheMiB < 0 || c.CacheMiB > mostCacheMiB {
		problems = append(problems, fmt.Errorf("cacheMiB: %d is not between 1 and %d; leave it out for 1024", c.CacheMiB, mostCacheMiB))
	}
	if c.GuestMemoryMiB < 0 || c.GuestMemoryMiB > mostGuestMemoryMiB {
		problems = append(problems, fmt.Errorf("guestMemoryMiB: %d is not between 1 and %d; leave it out for half of what the process may use", c.GuestMemoryMiB, mostGuestMemoryMiB))
	}
	problems = append(problems, c.Limits.validate())
	return errors.Join(problems...)
}

// within says whether path lies in dir, after links are resolved.
func within(path, dir string) bool {
	relative, err := filepath.Rel(resolve(dir), resolve(path))
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// resolve follows the links of the part of path that exists.
func resolve(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for rest := ""; ; {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return filepath.Join(path, rest)
		}
		rest, path = filepath.Join(filepath.Base(path), rest), parent
	}
}

// slots is how many guest calls run at once in the whole host.
func slots() int { return runtime.GOMAXPROCS(0) }
