package objects

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/object"
)

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// randomText returns n characters that depend on i.
func randomText(i, n int) string {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}

func keyOf(i int) object.Key { return object.Key{Namespace: fmt.Sprint(i % 10), Name: fmt.Sprint(i)} }

// ofSpecs has n objects with specs, which are JSON.
func ofSpecs(t fatal, n int, spec func(i int) string) *Set {
	s := New()
	for i := range n {
		o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"%d","name":"%d","uid":"%08x-0000-4000-8000-%012x",
			"resourceVersion":"%d","labels":{"n":"%d","all":"x"},"annotations":{"example.dev/a":"b"}},"spec":%s}`, i%10, i, i, i, 100_000+i, i, spec(i)), widget)
		if err != nil {
			t.Fatal(err)
		}
		s.Put(o)
	}
	return s
}

// halfRandom is a spec of 2 KB, of which half is of the object alone.
func halfRandom(i int) string {
	return fmt.Sprintf(`{"random":%q,"same":%q}`, randomText(i, 1000), randomText(-1, 1000))
}

func (s *Set) sweeps(n int) (packed int) {
	for range n {
		packed = s.sweep()
	}
	return packed
}

func TestWhatIsNotReadIsPacked(t *testing.T) {
	s := ofSpecs(t, 100, halfRandom)
	read, once, twice := s.Find(keyOf(1)), s.Find(keyOf(2)), s.Find(keyOf(3))
	if n := s.sweeps(packAfter - 1); n != 0 {
		t.Fatalf("%d are packed too early", n)
	}
	was := read.Object()
	if n := s.sweep(); n != 99 {
		t.Fatalf("%d of the 99 that were not read are packed", n)
	}
	if read.Object() != was {
		t.Error("an object that was read was packed")
	}
	once.Object()
	once.Object()
	twice.Object()
	if n := s.sweep(); n != 99 {
		t.Errorf("%d are packed after some were read at one time", n)
	}
	twice.Object()
	if s.sweep(); twice.packed != nil || once.packed == nil {
		t.Error("what is read again and again is to be kept parsed, and nothing else")
	}
	if n := s.sweeps(2 * packAfter); n != 100 {
		t.Errorf("%d are packed in the end", n)
	}
}

// A set may be changed between two slices, but what stays is looked at once.
func TestASweepInSlicesLooksAtEachObjectOnce(t *testing.T) {
	s := ofSpecs(t, 1000, func(i int) string { return fmt.Sprint(i) })
	w := s.beginSweep()
	w.slice = 0
	slices := 1
	for ; s.nextSlice(w); slices++ {
		s.Remove(w.after)
	}
	if w.visited != 1000 || slices < 1000/checkEvery || len(w.samples) != maxSamples {
		t.Errorf("%d objects in %d slices, %d samples", w.visited, slices, len(w.samples))
	}
	s.All(func(e *Entry) bool {
		if e.idle != 1 {
			t.Errorf("%s was looked at %d times", e.key, e.idle)
		}
		return true
	})
}

func TestAnObjectThatChangesIsNotPacked(t *testing.T) {
	s := ofSpecs(t, 100, halfRandom)
	s.sweeps(packAfter)
	s.Put(parseSpec(t, keyOf(7), nil, "1"))
	if n := s.sweeps(packAfter - 1); n != 99 {
		t.Errorf("%d are packed", n)
	}
	if o := s.Find(keyOf(7)).Object(); !bytes.Contains(o.Raw, []byte(`"spec":1`)) {
		t.Errorf("it is %s", o.Raw)
	}
}

func TestASmallSetIsNotPacked(t *testing.T) {
	s := ofSpecs(t, 100, halfRandom)
	if s.BeginSweep() != nil {
		t.Error("a set of 100 objects is swept")
	}
	if s = ofSpecs(t, 1000, halfRandom); s.BeginSweep() == nil {
		t.Error("a set of 1000 objects is not")
	}
}

// heap returns the bytes in use after a collection.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// allocated returns the bytes that were allocated until now.
func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}

// The heap shows whether anything keeps parsed objects in memory: an index, or a sample.
func TestMemoryIsAboutWhatTheHeapHas(t *testing.T) {
	const count = 2000
	ofSpecs(t, 100, halfRandom).sweeps(packAfter) // makes the encoder, which all kinds share
	for name, c := range map[string]struct {
		spec func(i int) string
		most int // bytes of a packed object
	}{
		"half random": {halfRandom, 1350},
		"random":      {randomSpec, 22_000},
		"regular":     {func(i int) string { return fmt.Sprintf(`{"n":%d,"same":%q}`, i, randomText(-1, 2000)) }, 500},
		"small":       {func(i int) string { return fmt.Sprint(i) }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			empty := heap()
			s := ofSpecs(t, count, c.spec)
			s.build(Attribute{Label: "n"})
			check := func(state string) (taken int) {
				taken = (heap() - empty) / count
				objects, indexes := s.Memory()
				if estimated := int(objects+indexes) / count; estimated < taken*3/4 || estimated > taken*5/4 {
					t.Errorf("%s: an object takes %d bytes, and is estimated to take %d", state, taken, estimated)
				}
				return taken
			}
			check("parsed")
			if n := s.sweeps(2 * packAfter); n != count {
				t.Fatalf("%d are packed", n)
			}
			if taken := check("packed"); taken > c.most {
				t.Errorf("a packed object takes %d bytes", taken)
			}
			for i := range count {
				s.Remove(keyOf(i))
			}
			if objects, _ := s.Memory(); objects != 0 {
				t.Errorf("%d bytes without objects", objects)
			}
		})
	}
}

// randomSpec is a spec that to compress does not pay.
func randomSpec(i int) string {
	r := rand.New(rand.NewPCG(2, uint64(i)))
	text := make([]byte, 20_000)
	for i := range text {
		if text[i] = byte('#' + r.IntN('~'-'#')); text[i] == '\\' {
			text[i] = '~'
		}
	}
	return `"` + string(text) + `"`
}

func TestAKindThatDoesNotCompressIsJudgedAgainWhenItHasGrown(t *testing.T) {
	s := ofSpecs(t, 100, randomSpec)
	s.sweeps(packAfter)
	first := s.codec
	if first.dictionary != nil || s.Find(keyOf(1)).packed == nil {
		t.Fatal("random texts are compressed")
	}
	for i := range 197 { // two of the others stay
		s.Put(parseSpec(t, keyOf(2+i), nil, halfRandom(i)))
	}
	if s.sweep(); s.codec != first {
		t.Error("it is judged again although it has not twice as many objects")
	}
	s.Put(parseSpec(t, keyOf(1000), nil, "1"))
	if s.sweep(); s.codec.dictionary == nil {
		t.Error("it is not judged again")
	}
	if got := s.Find(keyOf(1)).Object(); !bytes.Contains(got.Raw, []byte(randomSpec(1))) {
		t.Error("what was packed before cannot be read")
	}
}

func TestAPackedObjectKeepsWhatTheTextDoesNotShow(t *testing.T) {
	const fields = `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}`
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a","ownerReferences":[{"uid":"u","controller":true}],
		"managedFields":[{"manager":"thole/a/b","operation":"Apply","apiVersion":"v1","fieldsV1":%s}]}}`, fields), widget)
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	s.Put(o.Metadata())
	if n := s.sweeps(2 * packAfter); n != 1 {
		t.Fatal("it is not packed")
	}
	if !s.Find(o.Key()).Object().MetadataOnly {
		t.Error("it is not known that it has only metadata")
	}
	if got, known := s.Find(o.Key()).Object().AppliedBy("thole/a/b", "v1"); string(got) != fields || !known {
		t.Errorf("got %s, %v", got, known)
	}
}

func TestAnObjectThatIsReadMeanwhileIsNotPacked(t *testing.T) {
	s := ofSpecs(t, 100, halfRandom)
	s.sweep()
	e := s.Find(keyOf(1))
	for e.age() == nil {
	}
	packed := s.codec.pack(e.Peek())
	was := e.Object()
	if e.pack(packed); e.Object() != was {
		t.Error("it is packed although it was read since")
	}
}

// Whoever lists packed objects pays for what it takes to read them, and to index them.
func TestAListOfPackedObjectsCostsMore(t *testing.T) {
	const count = 500
	s := ofSpecs(t, count, halfRandom)
	costs := func() (list, build int) {
		n := s.Open()
		defer s.Close(n)
		found, err := n.List(Query{Look: func(cost int) { list += cost }})
		if err != nil {
			t.Fatal(err)
		}
		for range found {
		}
		b, _ := s.BeginIndex(Attribute{Label: "n"}, "p", time.Now())
		defer func() {
			b.index = nil // only the cost counts
			s.EndIndex(b, time.Now())
		}()
		b.Run(func(cost int) { build += cost })
		return list, build
	}
	list, build := costs()
	s.sweeps(2 * packAfter)
	packedList, packedBuild := costs()
	more := count * unpackingCost * ReadingCost(s.Find(keyOf(1)).Object())
	if packedList < list+more*9/10 || packedBuild < build+more*9/10 {
		t.Errorf("a list costs %d, packed %d; an index %d, packed %d", list, packedList, build, packedBuild)
	}
}

// A packed object is compared with one of a list without being unpacked.
func TestAPackedObjectIsComparedWithAnotherCopy(t *testing.T) {
	parse := func(uid, version, spec string) *object.Object {
		o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"name":"a","uid":%q,"resourceVersion":%q},"spec":%q}`, uid, version, spec), widget)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	isBefore := func(a, b string) bool { return a < b }
	s := New()
	s.Put(parse("u", "5", "x"))
	for _, state := range []string{"parsed", "packed"} {
		e := s.Find(object.Key{Name: "a"})
		for _, c := range []struct {
			o              *object.Object
			version, after bool
			text           bool
		}{
			{parse("u", "5", "x"), true, false, true},
			{parse("u", "5", "y"), true, false, false},
			{parse("u", "4", "x"), false, true, false},
			{parse("u", "6", "x"), false, false, false},
			{parse("v", "4", "x"), false, false, false},
			{parse("v", "5", "x"), false, false, false},
		} {
			if version, after, text := e.IsVersionOf(c.o), e.IsAfter(c.o, isBefore), e.HasTextOf(c.o); version != c.version || after != c.after || text != c.text {
				t.Errorf("%s: %s: %v, %v, %v", state, c.o.Raw, version, after, text)
			}
		}
		s.sweeps(2 * packAfter)
		if e.packed == nil {
			t.Fatal("it is not packed")
		}
	}
}

// What reads, changes and packs the objects of a set at the same time leaves each as it was.
func TestObjectsAreReadWhileTheyArePacked(t *testing.T) {
	const count = 300
	s := ofSpecs(t, count, halfRandom)
	var mu sync.Mutex // of the set
	open := func() *Snapshot {
		mu.Lock()
		defer mu.Unlock()
		return s.Open()
	}
	var readers sync.WaitGroup
	for reader := range 3 {
		readers.Go(func() {
			for round := range 100 {
				n := open()
				for i := (reader + round) % 7; i < count; i += 7 {
					if o, err := n.Get(keyOf(i)); err != nil || !bytes.Contains(o.Raw, []byte(halfRandom(i))) || o.Labels["n"] != fmt.Sprint(i) {
						t.Errorf("object %d is %s, %v", i, o.Raw, err)
						return
					}
				}
				mu.Lock()
				s.Close(n)
				s.Put(parseSpec(t, keyOf(round), map[string]string{"n": fmt.Sprint(round)}, halfRandom(round)))
				mu.Unlock()
			}
		})
	}
	for range 100 {
		mu.Lock()
		w := s.beginSweep()
		mu.Unlock()
		for more := true; more; {
			more = w.Next(open())
		}
		w.Judge()
		mu.Lock()
		s.EndSweep(w)
		mu.Unlock()
	}
	readers.Wait()
}

// FuzzPack packs an object with a text that the dictionary was made for, or was not.
func FuzzPack(f *testing.F) {
	for _, spec := range []string{`{}`, halfRandom(1), `"` + strings.Repeat("x", 1<<20) + `"`, `"` + randomText(1, 300<<10) + `"`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000)} {
		f.Add(spec, true)
		f.Add(spec, false)
	}
	var texts [][]byte
	for i := range maxSamples {
		texts = append(texts, parseSpec(f, keyOf(i), nil, halfRandom(i)).Raw)
	}
	known := newCodec(widget, texts)
	f.Fuzz(func(t *testing.T, spec string, isKnown bool) {
		o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"name":"a","labels":{"a":"b"}},"spec":%s}`, spec), widget)
		if err != nil {
			t.Skip(err)
		}
		c := known
		if !isKnown {
			c = newCodec(widget, slices.Repeat([][]byte{o.Raw}, maxSamples))
		}
		p := c.pack(o)
		if len(p.data) > len(o.Raw) || cap(p.data) > len(o.Raw) {
			t.Errorf("%d bytes of %d, capacity %d", len(p.data), len(o.Raw), cap(p.data))
		}
		if !isSame(p.object(), o) {
			t.Errorf("%q is unpacked as %q", o.Raw, p.object().Raw)
		}
	})
}

// BenchmarkRead measures reads of objects in a snapshot.
func BenchmarkRead(b *testing.B) {
	const count = 20_000
	for name, spec := range map[string]func(int) string{"half-random": halfRandom, "small": func(i int) string { return fmt.Sprint(i) }} {
		for _, state := range []string{"parsed", "packed"} {
			b.Run(name+"/"+state, func(b *testing.B) {
				s := ofSpecs(b, count, spec)
				if state == "packed" {
					s.sweeps(2 * packAfter)
				}
				n := s.Open()
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if i = (i + 7919) % count; i >= 0 {
						if o, err := n.Get(keyOf(i)); o == nil || err != nil {
							b.Fatal(i)
						}
					}
				}
			})
		}
	}
}

// BenchmarkSweep measures how long it takes to look at an object, and to pack one.
func BenchmarkSweep(b *testing.B) {
	const count = 20_000
	s := ofSpecs(b, count, halfRandom)
	s.sweep() // makes the dictionary
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			s.All(func(e *Entry) bool { e.idle = 0; return true })
			s.sweep()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/object")
	})
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s.All(func(e *Entry) bool { e.Unpacked(); e.idle = packAfter; return true })
			b.StartTimer()
			s.sweep()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/object")
	})
}
