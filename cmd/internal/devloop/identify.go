package devloop

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/thole-dev/thole/abi"

	"github.com/thole-dev/thole/cmd/internal/words"
	"github.com/thole-dev/thole/host"
	"github.com/thole-dev/thole/host/inspect"
)

// identifier finds out which plugin a module is. The file must be called so:
// a host refuses any other name.
type identifier struct {
	wanted   string      // the user's word; "": the module's own
	known    string      // of the last module that can be loaded; before that a guess
	host     host.Config // with its defaults: its CacheDir counts
	compiler []string
}

// inspect loads the module as the host will; what is compiled on the way is in
// the host's cache then. That the module would be refused is noted, and no
// error: it is a module.
func (i *identifier) inspect(ctx context.Context, b *build) error {
	name := i.known
	if i.wanted != "" {
		name = i.wanted
	}
	own, err := i.as(ctx, name, b)
	if err == nil && i.wanted == "" && own != name {
		_, err = i.as(ctx, own, b)
	}
	if err == nil && b.refused == "" {
		i.known = b.name
	}
	return err
}

// as looks at the module as a plugin of that name, and returns the module's
// own.
func (i *identifier) as(ctx context.Context, name string, b *build) (own string, err error) {
	file := filepath.Join(filepath.Dir(b.file), name+".wasm")
	if err := os.Rename(b.file, file); err != nil {
		return "", err
	}
	b.file, b.name, b.refused = file, name, ""
	report, err := inspect.File(ctx, file, inspect.Options{Host: i.host, Compiler: i.compiler})
	if err != nil {
		return "", err
	}
	b.digest = report.Digest
	if err := report.Refused(); err != nil {
		b.refused = report.Load.Step + ": " + words.OneLine(err.Error())
	}
	return manifestName(report.Manifest, name), nil
}

func manifestName(manifest []byte, fallback string) string {
	var m struct{ Name string }
	if err := json.Unmarshal(manifest, &m); err != nil || !abi.ValidName(m.Name) {
		return fallback
	}
	return m.Name
}
