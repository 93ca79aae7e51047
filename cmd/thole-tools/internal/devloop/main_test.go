package devloop

import (
	"testing"

	"github.com/thole-dev/thole/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
