package timers

import (
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	all := []Timer{{Name: "probe", Interval: 60_000, InitialDelay: 5_000, Idle: 30_000, Sharp: true}, {Name: "a", Interval: 1}}
	text := Encode(all)
	if want := `[{"name":"probe","interval":60000,"initialDelay":5000,"idle":30000,"sharp":true},{"name":"a","interval":1}]`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := Decode(text); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
	due := []string{"probe", `a"`}
	if got, err := DecodeDue(EncodeDue(due)); err != nil || !reflect.DeepEqual(got, due) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := DecodeDue(nil); got != nil || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTimersThatAreNotValidAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "expected an array",
		`[1]`:                         "[0]: expected an object",
		`[{"name":"a"}]`:              "[0].interval: is required: the time between two runs",
		`[{"name":"a","interval":0}]`: "[0].interval: is required",
		`[{"interval":1000}]`:         `[0].name: "" is not a DNS label`,
		`[{"name":"A","interval":1}]`: `[0].name: "A" is not a DNS label`,
		`[{"name":"a","interval":1},{"name":"a","interval":2}]`:        `[1].name: "a" is given twice`,
		`[{"name":"a","interval":1,"initialDelay":-1}]`:                "[0].initialDelay: must not be negative, is -1",
		`[{"name":"a","interval":4000000000000}]`:                      "[0].interval: must be at most 100 years",
		`[{"name":"a","interval":1,"cron":"@daily"}]`:                  `unknown field "cron"`,
		`[{"name":"a","interval":1,"idles":1}]`:                        `unknown field "idles", did you mean "idle"?`,
		`[` + strings.Repeat(`{"name":"a","interval":1},`, 64) + `{}]`: "more than 64 entries",
		`[] []`: "after the value",
	} {
		if got, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", text, got, err, want)
		}
	}
}
