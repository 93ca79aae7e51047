package webhooks

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }
