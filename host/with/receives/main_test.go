package receives

import (
	"testing"

	"github.com/thole-dev/thole/host/internal/devcluster"
)

func TestMain(m *testing.M) { devcluster.Main(m) }
