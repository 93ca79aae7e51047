package cache

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/objects"
)

// indexedStore has n packed objects, with an index by a label and one by a field.
func indexedStore(t testing.TB, n int) *store {
	t.Helper()
	s := packedStore(t, n)
	path, err := fieldpath.ParsePath("status.endpoints[*]")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []objects.Query{
		{Selector: selector(t, "app.kubernetes.io/name=none")},
		{Fields: fieldpath.Selector{{Path: path, Value: "none"}}},
	} {
		s.list(q, time.Now())
		if n := s.open(); len(n.Unindexed(q, time.Now())) != 0 {
			t.Fatal("there is no index")
		}
	}
	return s
}

// changedVersions returns the objects of [indexedStore] as they may be in a later list.
func changedVersions(n int) (list []any) {
	for i := range n {
		list = append(list, parsed(bytes.Replace(halfRandom(i).Raw, []byte(`"resourceVersion":"1`), []byte(`"resourceVersion":"2`), 1), widget))
	}
	return list
}

// readMeanwhile opens snapshots while replace runs. It returns the longest time that one has
// waited, and how many there were.
func (s *store) readMeanwhile(replace func()) (longest time.Duration, reads int) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		replace()
	}()
	for {
		select {
		case <-ended:
			return longest, reads
		default:
		}
		start := time.Now()
		s.close(s.open())
		longest = max(longest, time.Since(start))
		reads++
		runtime.Gosched()
	}
}

// A list that changes every object unpacks those that are indexed, which takes long.
func TestReadsDoNotWaitForAList(t *testing.T) {
	const count = 5000
	for name, list := range map[string][]any{"all have changed": changedVersions(count), "none is left": nil} {
		t.Run(name, func(t *testing.T) {
			most := 0
			for range 5 { // a busy machine may run the list alone once
				s := indexedStore(t, count)
				_, reads := s.readMeanwhile(func() {
					if err := s.Replace(list, "200000"); err != nil {
						t.Error(err)
					}
				})
				if most = max(most, reads); most >= 100 {
					return
				}
			}
			t.Errorf("%d reads at most while a list replaced %d objects", most, count)
		})
	}
}

// BenchmarkWaitForAList measures how long a read waits at most while a list replaces 100,000
// packed objects that are indexed.
func BenchmarkWaitForAList(b *testing.B) {
	const count = 100_000
	for name, replaced := range map[string]func(*store) []any{
		"unchanged": func(s *store) (list []any) {
			for o := range s.each {
				list = append(list, o)
			}
			return list
		},
		"changed": func(*store) []any { return changedVersions(count) },
		"gone":    func(*store) []any { return nil },
	} {
		b.Run(name, func(b *testing.B) {
			s := indexedStore(b, count)
			list := replaced(s)
			for range 5 {
				s.sweep(b.Context())
			}
			for b.Loop() {
				wait, _ := s.readMeanwhile(func() {
					if err := s.Replace(list, "300000"); err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(wait.Seconds()*1000, "longest-ms")
			}
		})
	}
}
