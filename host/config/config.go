// Package config reads the host's configuration file and the policy files of
// plugins. Both are read once, where they enter the host, and strictly: an
// unknown field, a value of the wrong type and a number out of its range are
// errors, all of them reported at once by their paths. The rest of the host
// works with the values of this package and never with the files.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

// Config is the configuration of a host. Its JSON form is the file of
// --config, in which a number must not be 0. In Go the zero value of a field
// stands for its default.
type Config struct {
	// APIVersion is that of this schema, thole.dev/v1alpha1, which is the default.
	APIVersion string `json:"apiVersion,omitempty"`
	// Plugins is the directory of the plugins; required.
	Plugins string `json:"plugins,omitempty"`
	// Namespace restricts every informer of a namespaced kind to one
	// namespace; "" is all of them.
	Namespace string `json:"namespace,omitempty"`
	// Listen is the address on which probes, metrics and the plugins' states
	// are served; default 127.0.0.1:8080.
	Listen string `json:"listen,omitempty"`
	// Metrics is how the last two are served, and profiles.
	Metrics Metrics `json:"metrics,omitzero"`
	// Profiling serves profiles of the process at /debug/pprof/, as net/http/pprof does.
	Profiling bool `json:"profiling,omitempty"`
	// HostIdentity lets plugins whose policy names no service account act with the rights
	// of the host.
	HostIdentity bool `json:"hostIdentity,omitempty"`
	// DryRun sends every write of every plugin to the API server as a dry run:
	// it is checked and not stored. What would have changed is logged.
	DryRun bool `json:"dryRun,omitempty"`
	// CacheDir keeps compiled plugins. The default is the directory "thole" in
	// the user's cache directory, or a temporary directory if the user has
	// none. It must not be inside Plugins, nor in a directory that other users may
	// write to: its content is executed.
	CacheDir string `json:"cacheDir,omitempty"`
	// CacheMiB is how much of the disk CacheDir may take. Beyond it, the least
	// recently used code is removed. Default 1024.
	CacheMiB int `json:"cacheMiB,omitempty"`
	// Resync is the period after which every object is reconciled even if
	// nothing has changed; up to 5 % is added as jitter. Default 10h.
	Resync Duration `json:"resync,omitzero"`
	// Probation is for how long the previous revision of a plugin is kept after
	// a swap to new code. The host rolls back to it if objects fail under the
	// new code that did not fail before. Default 10m; 0 turns it off: new code
	// stays, however it behaves.
	Probation *Duration `json:"probation,omitempty"`
	// GuestMemoryMiB bounds the linear memory of all instances of all plugins
	// together, including the memory images that instances start from. The
	// default is half of what the process may use: of the limit of its control
	// groups, else of the machine's memory. Beyond it idle instances are
	// dropped, then calls of plugins with more than an even share are ended for
	// those with less, and plugins get no more memory.
	GuestMemoryMiB int `json:"guestMemoryMiB,omitempty"`
	// Limits bound every plugin.
	Limits Limits `json:"limits,omitzero"`
	// Allow is what policy files may allow beyond the default.
	Allow Ceiling `json:"allow,omitzero"`
	// Policies are those of plugins, by name, that have none in the directory: where the directory
	// comes from an image, for example. Each is what the file would have. Of a plugin that is here no
	// file is taken. They are bounded by the rest of the configuration, as a file is.
	Policies map[string]json.RawMessage `json:"policies,omitempty"`

	// Sections are the fields that capabilities have here and in policies. Values are what the fields have here that
	// [Section].Config declares, by their names: of each one, once the defaults are filled in.
	Sections []Section              `json:"-"`
	Values   map[string]HostSection `json:"-"`
}

const (
	defaultProbation = 10 * time.Minute
	// maxMiB bounds sizes of memory and disk: 1 TiB.
	maxMiB = 1 << 20
	// maxResync keeps a time to which it is added within what time.Time holds.
	maxResync = 100 * 365 * 24 * time.Hour
)

// checkVersion refuses a configuration of another version, whose fields may mean something else.
// Files from before there were versions have none.
func (c *Config) checkVersion(written map[string]any) error {
	if version, ok := written["apiVersion"]; ok && version != rights.APIVersion {
		return field.NotSupported(field.NewPath("apiVersion"), version, []string{rights.APIVersion})
	}
	return nil
}

func (c *Config) schema() schema {
	return schema{configFields(c.Sections), policyFields(c.Sections), "the policy of a plugin"}
}

// numbers returns the numbers of the configuration with their defaults and
// ranges. GuestMemoryMiB has no fixed default: 0 lets the sandbox measure.
func (c *Config) numbers() []number {
	return slices.Concat([]number{
		numberOf("resync", &c.Resync.Duration, 10*time.Hour, time.Second, maxResync),
		numberOf("cacheMiB", &c.CacheMiB, 1024, 1, maxMiB),
		numberOf("guestMemoryMiB", &c.GuestMemoryMiB, 0, 1, maxMiB),
	}, c.Limits.numbers(), sectionNumbers(c.bounds()))
}

// Read reads and validates a configuration file in YAML or JSON. The file need
// not name the directory of the plugins. YAML aliases are not supported. The sections are those that
// it and policies may have.
func Read(path string, sections ...Section) (c Config, err error) {
	file, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	c.Sections = sections
	if err = decode(text, &c); err == nil {
		err = joined(c.WithDefaults().problems())
	}
	if err != nil {
		return Config{Sections: sections}, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return c, nil
}

// WithDefaults returns the configuration with its zero fields replaced by
// their defaults.
func (c Config) WithDefaults() Config {
	c.APIVersion = rights.APIVersion
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8080"
	}
	if c.CacheDir == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			c.CacheDir = filepath.Join(dir, "thole")
		}
	}
	if c.Probation == nil {
		c.Probation = &Duration{defaultProbation}
	}
	c.Metrics.setDefaults(c.Listen)
	c.setSections()
	for _, n := range c.numbers() {
		if n.value == 0 {
			n.set(n.standard)
		}
	}
	return c
}

// Validate reports everything that is wrong with a configuration whose defaults
// are filled in, one problem a line.
func (c Config) Validate() error {
	problems := c.problems()
	if c.Plugins == "" {
		problems = append(problems, field.Required(field.NewPath("plugins"), "name the directory of the plugins (--plugins)"))
	}
	return errors.Join(problems...)
}

// problems returns what is wrong with the fields that are set.
func (c Config) problems() (problems []error) {
	if c.CacheDir != "" && c.Plugins != "" && inside(c.CacheDir, c.Plugins) {
		problems = append(problems, field.Invalid(field.NewPath("cacheDir"), c.CacheDir,
			"must not be inside the plugin directory, where whoever can write plugins could write compiled code: "+
				"name another directory in the file of --config"))
	}
	if p := c.Probation; p != nil && p.Duration != 0 && p.Duration < time.Second {
		problems = append(problems, field.Invalid(field.NewPath("probation"), p.String(),
			"must be at least 1s, or 0s to turn it off"))
	}
	if c.Namespace != "" {
		problems = append(problems, ValidateNamespace(c.Namespace))
	}
	if err := AddressProblem(field.NewPath("listen"), c.Listen); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, c.Metrics.problems()...)
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		problems = append(problems, c.Values[name].Problems(field.NewPath(name))...)
	}
	problems = append(problems, c.Allow.problems()...)
	for _, plugin := range slices.Sorted(maps.Keys(c.Policies)) {
		if !abi.ValidName(plugin) {
			problems = append(problems, field.Invalid(field.NewPath("policies"), plugin, "must be the name of a plugin"))
		}
		if _, err := c.ReadPolicy(plugin, nil); err != nil {
			problems = append(problems, err)
		}
	}
	for _, n := range c.numbers() {
		if err := n.Validate(); n.value != 0 && err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// AddressProblem returns an error if address, "" for none, is not one to listen on.
func AddressProblem(at *field.Path, address string) error {
	if _, _, err := net.SplitHostPort(address); address == "" || err == nil {
		return nil
	}
	return field.Invalid(at, address, "must be host:port, such as 127.0.0.1:8080, or :8080 for every interface")
}

// ValidateNamespace returns an error if name cannot be the name of a namespace.
func ValidateNamespace(name string) error {
	if abi.ValidName(name) {
		return nil
	}
	return field.Invalid(field.NewPath("namespace"), name, dnsLabel)
}

const dnsLabel = "must be a DNS label (at most 63 lower case letters, digits and '-')"

// inside reports whether path is dir or lies below it, symbolic links resolved.
func inside(path, dir string) bool {
	relative, err := filepath.Rel(realPath(dir), realPath(path))
	return err == nil && filepath.IsLocal(relative)
}

// realPath resolves the symbolic links in path. The end of path need not exist:
// CacheDir is usually made later.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	real, err := filepath.EvalSymlinks(path)
	parent := filepath.Dir(path)
	switch {
	case err == nil:
		return real
	case parent == path:
		return path
	}
	return filepath.Join(realPath(parent), filepath.Base(path))
}
