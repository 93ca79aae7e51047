// Package config reads the host's configuration file and the policy files of
// the plugins: once, at the edge, strictly.
package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
)

// Config is how a host runs. Its JSON form is what --config reads, where a
// zero number is an error; here the zero value of a field means its default.
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
	// not fail before. Default 10m; 0 turns it off: new code stays, whatever
	// it does.
	Probation *metav1.Duration `json:"probation,omitempty"`
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

const defaultProbation = 10 * time.Minute

// mostMiB bounds what is asked for of memory and disk: a TiB.
const mostMiB = 1 << 20

// longest is no bound but that of what can be added to a time.
const longest = 100 * 365 * 24 * time.Hour

// numbers lists those of the configuration, with their defaults and what they
// may be.
func (c *Config) numbers() []number {
	return append([]number{
		numeric("resync", &c.Resync.Duration, 10*time.Hour, time.Second, longest),
		numeric("cacheMiB", &c.CacheMiB, 1024, 1, mostMiB),
		numeric("guestMemoryMiB", &c.GuestMemoryMiB, 0, 1, mostMiB), // the default is found out
	}, c.Limits.all()...)
}

// maxConfig is the largest configuration that is read, in bytes.
const maxConfig = 1 << 20

// Read reads a file in YAML or JSON. Its error names every field that is
// not known or has another form.
func Read(path string) (Config, error) {
	text, err := readFile(path)
	var c Config
	if err == nil {
		c, err = parseConfig(text)
	}
	if err != nil {
		return Config{}, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return c, nil
}

// readFile reads a file that ought to be a configuration. Its error does not
// name it.
func readFile(path string) ([]byte, error) {
	var text []byte
	file, err := os.Open(path)
	if err == nil {
		defer file.Close()
		text, err = io.ReadAll(io.LimitReader(file, maxConfig+1))
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	if len(text) > maxConfig {
		err = fmt.Errorf("is larger than %d KiB: name the file of a configuration", maxConfig>>10)
	}
	return text, err
}

func parseConfig(text []byte) (c Config, err error) {
	zeros, err := decodeStrict(text, &c)
	if err != nil {
		return c, err
	}
	return c, written(zeros, c.numbers())
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
	if c.Probation == nil {
		c.Probation = &metav1.Duration{Duration: defaultProbation}
	}
	for _, n := range c.numbers() {
		if n.value == 0 {
			n.set(n.standard)
		}
	}
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
		problems = append(problems, fmt.Errorf("cacheDir: %s lies in the plugin directory, and who can write plugins could write compiled code there: name another directory in the file of --config", c.CacheDir))
	}
	if p := c.Probation; p != nil && p.Duration != 0 && p.Duration < time.Second {
		problems = append(problems, fmt.Errorf("probation: %s is shorter than 1s; 0s turns it off", p.Duration))
	}
	if c.Namespace != "" {
		problems = append(problems, ValidateNamespace(c.Namespace))
	}
	problems = append(problems, checkAddress(c.Listen))
	for _, n := range c.numbers() {
		if n.value != n.standard {
			problems = append(problems, n.fits(n.value))
		}
	}
	return errors.Join(problems...)
}

// ValidateNamespace says what is wrong with the name of a namespace.
func ValidateNamespace(name string) error {
	if !abi.ValidName(name) {
		return fmt.Errorf("namespace: %q is the name of none: write at most 63 lower-case letters, digits and '-'", name)
	}
	return nil
}

func checkAddress(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("listen: %q is no address: write host:port, such as 127.0.0.1:8080, or :8080 for every interface", address)
	}
	return nil
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
