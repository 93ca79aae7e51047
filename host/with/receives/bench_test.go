package receives

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	contract "github.com/thole-dev/thole/abi/receives"
)

// BenchmarkEvent measures one event of a caller that is known, without the network: small, and of the
// size that it may have at most.
func BenchmarkEvent(b *testing.B) {
	for name, body := range map[string]string{"small": ce("data", `{"code":137}`), "large": ce("data", `"`+strings.Repeat("x", contract.MaxEvent-200)+`"`)} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, func(_ *Config, w *world) {
				for i := range w.receivers {
					w.receivers[i].Rate = NewRate(1e9)
					w.receivers[i].Controller = goingController{w.labs}
				}
			})
			b.ReportAllocs()
			for b.Loop() {
				w.clock.SetTime(w.clock.Now().Add(time.Microsecond))
				r := httptest.NewRequest(http.MethodPost, "/events", strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer good-all")
				r.Header.Set("Content-Type", structured)
				answer := httptest.NewRecorder()
				if w.ServeHTTP(answer, r); answer.Code != http.StatusAccepted {
					b.Fatal(answer.Code, answer.Body)
				}
			}
		})
	}
}
