// Package fieldpath selects fields of objects that are JSON: [Set] is what the
// fields of a get or list name, [Path] is the field of an index, and [Selector] is
// the fieldSelector of a list. Host and sdktest share it, so that a read means the
// same in both.
//
// Objects stay bytes: values are found in the text and copied from it, and are never
// decoded and encoded again. Of a name that occurs twice in one object the last one
// counts, as in package rawjson. Every function takes time linear in the length of
// the object, for a given set, path or selector. What may be long in a call is
// limited by package abi, which checks it.
package fieldpath
