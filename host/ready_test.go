package host

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/catalog"
)

// TestReadinessTellsADirectoryThatWasNotRead from plugins that are being
// loaded: what to look at is another thing.
func TestReadinessTellsADirectoryThatWasNotRead(t *testing.T) {
	h := &Host{catalog: catalog.New(catalog.Config{Logger: hclog.NewNullLogger()})}
	directory := func() error { return h.checks()[1].Ready() }
	if err := directory(); err == nil || !strings.Contains(err.Error(), "not read") {
		t.Errorf("before the first scan: %v", err)
	}
	h.catalog.Update(context.Background(), nil)
	if err := directory(); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}
