package object_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/object"
)

func TestStatesWithoutVersionsAreComparedByTheirText(t *testing.T) {
	of := func(uid, version, text string) *object.Object {
		return &object.Object{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}, Raw: []byte(text)}
	}
	for _, test := range []struct {
		a, b *object.Object
		want bool
	}{
		{of("u", "1", "a"), of("u", "1", "b"), true},
		{of("u", "1", "a"), of("u", "2", "a"), false},
		{of("u", "1", "a"), of("u", "", "a"), false},
		{of("u", "1", "a"), of("v", "1", "a"), false},
		{of("u", "", "a"), of("u", "", "a"), true},
		{of("u", "", "a"), of("u", "", "b"), false},
		{of("", "", "a"), of("", "", "a"), true},
		{of("", "", "a"), of("", "", "b"), false},
	} {
		if got, turned := test.a.IsStateOf(test.b), test.b.IsStateOf(test.a); got != test.want || turned != test.want {
			t.Errorf("%+v and %+v: %v, %v", test.a, test.b, got, turned)
		}
	}
}

func TestObjectsWithoutUIDAreToldApartByTheirNames(t *testing.T) {
	of := func(uid, namespace, name string) object.Hash {
		return (&object.Object{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: namespace, Name: name}}).Identity()
	}
	for _, test := range []struct {
		a, b object.Hash
		want bool
	}{
		{of("u", "ns", "a"), of("u", "ns", "a"), true},
		{of("u", "ns", "a"), of("v", "ns", "a"), false},
		{of("", "ns", "a"), of("", "ns", "a"), true},
		{of("", "ns", "a"), of("", "ns", "b"), false},
		{of("", "ns", "a"), of("", "ns2", "a"), false},
		{of("", "", "a"), of("a", "", ""), false},
	} {
		if (test.a == test.b) != test.want {
			t.Errorf("%v and %v: want the same %v", test.a, test.b, test.want)
		}
	}
}
