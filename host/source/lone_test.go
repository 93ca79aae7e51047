package source

import "testing"

func TestAPolicyWithoutAPluginIsToldOnce(t *testing.T) {
	s := newScene(t)
	s.write("greetings.yaml", "dryRun: true")
	s.write(".hidden.yaml", "")
	s.write("greeting.wasm", "code")
	s.write("greeting.yaml", "dryRun: true")
	s.settle()
	s.settle()
	expectTold(t, s.logs, "greetings.yaml")
	if n := len(s.logs); n != 0 {
		t.Errorf("%d more lines, the first: %s", n, <-s.logs)
	}
	s.write("greetings.wasm", "code")
	s.settle()
	s.remove("greetings.wasm")
	s.settle()
	expectTold(t, s.logs, "greetings.yaml")
}

func TestAFileWithTheWrongExtensionIsTold(t *testing.T) {
	s := newScene(t)
	s.write("greeting.wasm", "code")
	for _, passedOver := range []string{"compose.yml", "notes.txt", ".x.WASM", "x.tmp.WASM", "wasm"} {
		s.write(passedOver, "")
	}
	s.settle()
	if n := len(s.logs); n != 0 {
		t.Errorf("%d lines, the first: %s", n, <-s.logs)
	}
	for _, file := range []string{"greeting.yml", "greeting.YAML", "other.WASM"} {
		s.write(file, "")
		s.settle()
		s.settle()
		expectTold(t, s.logs, file)
	}
}
