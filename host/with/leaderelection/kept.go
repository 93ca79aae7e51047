package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with/leaderelection/lastgood"
)

// kept has the last good modules of this replica: in its cache directory, and those of the plugins
// that it leads in Secrets.
type kept struct {
	directory lastgood.Directory
	private   bool // it is removed with the host
	secrets   lastgood.Secrets
	logger    hclog.Logger

	mu      sync.Mutex           // guards the following fields, which are by plugin
	unsaved map[string]error     // why the last module is not in the directory
	shared  map[string]sharing   // of those that this replica leads
	gone    map[string]time.Time // since when a plugin with modules in the directory is not known
}

// sharing is the last attempt to write the Secret of a plugin.
type sharing struct {
	digest string
	err    error
	at     time.Time
}

func newKept(env runner.Environment, s *HostSettings, namespace string, logger hclog.Logger) (*kept, error) {
	k := &kept{
		directory: lastgood.Directory{ // of these replicas: other hosts may have the same cache, and plugins of the same names
			Path: filepath.Join(env.CacheDir, "thole-modules", namespace+"."+s.ResourceName), MaxModule: env.MaxModule,
		},
		secrets: lastgood.Secrets{Client: env.Clients.Secrets(namespace), Namespace: namespace, Prefix: s.lastGoodSecrets(), MaxModule: env.MaxModule},
		logger:  logger, unsaved: map[string]error{}, shared: map[string]sharing{}, gone: map[string]time.Time{},
	}
	if env.CacheDir != "" {
		return k, nil
	}
	var err error
	k.private = true
	k.directory.Path, err = os.MkdirTemp("", "thole-modules-")
	return k, err
}

func (k *kept) close() {
	if k != nil && k.private {
		_ = os.RemoveAll(k.directory.Path)
	}
}

// save writes a module that was loaded into the directory, and removes those of the plugin that are
// none of the others.
func (k *kept) save(m *catalog.Module, others ...string) {
	var err error
	if !k.directory.Has(m.Name, m.Digest) {
		var module []byte
		if module, err = m.Read(); err == nil {
			err = k.directory.Write(m.Name, m.Digest, lastgood.Pack(module))
		}
	}
	if err == nil {
		err = k.directory.Retain(m.Name, append(others, m.Digest)...)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsaved[m.Name] = err
	if err != nil {
		k.logger.Warn("the module cannot be kept in the cache directory", "plugin", m.Name, "digest", m.Digest, "error", err)
	}
}

// read returns a module. The error is a [catalog.WaitError] if it may be there.
func (k *kept) read(ctx context.Context, plugin, digest string) ([]byte, error) {
	module, err := k.directory.Read(plugin, digest)
	if err == nil {
		return module, nil
	}
	module, missing := k.secrets.Read(ctx, plugin, digest)
	if missing == nil {
		return module, nil
	}
	text := fmt.Sprintf("in the cache directory: %s; in the Secret %s/%s: %s", err, k.secrets.Namespace, k.secrets.Name(plugin), explain.Forbidden(missing))
	if !errors.Is(missing, lastgood.ErrNotKept) {
		return nil, &catalog.WaitError{Reason: text}
	}
	return nil, errors.New(text)
}

const (
	// shareAgain is how long a Secret that could not be written is left alone.
	shareAgain = 10 * time.Second
	// longestShare bounds a write: the records of other plugins wait for it.
	longestShare = 3 * time.Second
)

// share writes a module into the Secret of its plugin, which this replica leads. before is the one
// that was recorded. It reports whether the module is anywhere.
func (k *kept) share(ctx context.Context, plugin, digest, before string) (anywhere bool) {
	k.mu.Lock()
	last, tried := k.shared[plugin]
	k.mu.Unlock()
	inDirectory := k.directory.Has(plugin, digest)
	if tried && last.digest == digest && (last.err == nil && before == digest || last.err != nil && time.Since(last.at) < shareAgain) {
		return inDirectory || last.err == nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestShare)
	defer cancel()
	packed, err := k.directory.Packed(plugin, digest)
	if err == nil {
		err = k.secrets.Write(ctx, plugin, packed)
	}
	if err != nil && (last.err == nil || last.err.Error() != err.Error()) && ctx.Err() == nil {
		k.logger.Warn("the last good module is in no Secret", "plugin", plugin, "digest", digest, "error", explain.Forbidden(err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shared[plugin] = sharing{digest, err, time.Now()}
	return inDirectory || err == nil
}

// prune removes what the directory has of plugins that are gone for long.
func (k *kept) prune(known func(plugin string) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, plugin := range k.directory.Plugins() {
		since, missed := k.gone[plugin]
		switch {
		case known(plugin):
			delete(k.gone, plugin)
		case !missed:
			k.gone[plugin] = time.Now()
		case time.Since(since) > goneAfter:
			delete(k.gone, plugin)
			delete(k.unsaved, plugin)
			if err := k.directory.Remove(plugin); err != nil {
				k.logger.Warn("the modules of a plugin that is gone cannot be removed", "plugin", plugin, "error", err)
			}
		}
	}
}

// problem returns why the last good module of a plugin that this replica leads may be lost with its pod;
// "" if it is not, or if that is not known here.
func (k *kept) problem(plugin string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	shared, unsaved := k.shared[plugin], k.unsaved[plugin]
	switch {
	case shared.err == nil:
		return ""
	case unsaved != nil:
		return fmt.Sprintf("the last good module is not kept: in the cache directory: %s; in a Secret: %s", unsaved, explain.Forbidden(shared.err))
	}
	return fmt.Sprintf("the last good module is in the cache directory alone, which ends with the pod if it is an emptyDir: %s", explain.Forbidden(shared.err))
}
