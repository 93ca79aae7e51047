package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	kyaml "sigs.k8s.io/yaml"
)

// fill sets everything in v that has a JSON form to other values than the zero one.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Hour))
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.String:
		v.SetString("text")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":[1]}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i))
			}
		}
	default:
		panic("fill " + v.Type().String())
	}
}

// What `thole config` prints can be given to a host again.
func TestNothingIsLostInPrint(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Policy]()} {
		given, got := reflect.New(typ), reflect.New(typ)
		fill(given.Elem())
		text, err := kyaml.Marshal(given.Interface())
		if err != nil {
			t.Fatal(err)
		}
		if err := kyaml.UnmarshalStrict(text, got.Interface()); err != nil {
			t.Fatalf("%s: %v\n%s", typ, err, text)
		}
		if !reflect.DeepEqual(given.Interface(), got.Interface()) {
			t.Errorf("%s:\n%+v\nwant\n%+v", typ, got, given)
		}
	}
}

func TestPrintedDefaultsAreRead(t *testing.T) {
	want := Config{}.WithDefaults()
	text, err := kyaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	policy, err := want.ReadPolicy("p", nil)
	if err != nil {
		t.Fatal(err)
	}
	policy.APIVersion = want.APIVersion
	if text, err = kyaml.Marshal(policy); err != nil {
		t.Fatal(err)
	}
	again, err := want.ReadPolicy("p", text)
	if err != nil || !again.Equal(policy) {
		t.Errorf("%v: %+v\nwant\n%+v", err, again, policy)
	}
}

func TestAConfigurationOfAnotherVersionIsRefused(t *testing.T) {
	for text, refused := range map[string]bool{
		"apiVersion: thole.dev/v1alpha1": false,
		"listen: :8080":                  false,
		"apiVersion: thole.dev/v1":       true,
		"apiVersion: v1":                 true,
		"apiVersion: 1":                  true,
		"apiVersion:":                    true,
		"apiVersion: ''":                 true,
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(file)
		if (err != nil) != refused || err != nil && !(strings.Contains(err.Error(), "thole.dev/v1alpha1") && strings.Contains(err.Error(), "apiVersion")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
