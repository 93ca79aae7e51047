package tck

import (
	"bytes"

	"github.com/thole-dev/thole/abi"
)

func manifestCases() []Case {
	return []Case{
		{
			Name: "describe-traps", Stage: StageLoad, Mentions: []string{abi.ExportDescribe},
			Explain: "describe traps",
			Wasm:    trapping("describe-traps", abi.ExportDescribe, noTypes, i32Only),
		},
		{
			Name: "describe-fails", Stage: StageLoad, Mentions: []string{abi.ExportDescribe},
			Explain: "describe answers a code other than 0",
			Wasm:    describing("describe-fails", I32Const(1)),
		},
		{
			Name: "describe-silent", Stage: StageLoad, Mentions: []string{abi.ExportDescribe},
			Explain: "describe succeeds without a manifest",
			Wasm:    describing("describe-silent", I32Const(0)),
		},
		{
			Name: "manifest-garbage", Stage: StageLoad, Mentions: []string{"manifest"},
			Explain: "the manifest is not JSON",
			Wasm:    withManifest("manifest-garbage", []byte("\xff\xfe{")),
		},
		{
			Name: "manifest-unknown-field", Stage: StageLoad, Mentions: []string{"manifest", "controlers"},
			Explain: "a misspelt field would silently do nothing",
			Wasm:    withManifest("manifest-unknown-field", misspelt()),
		},
		{
			Name: "manifest-other-name", Stage: StageLoad, Mentions: []string{"manifest", "somebody-else"},
			Explain: "the manifest's name is not the plugin's",
			Wasm:    withManifest("manifest-other-name", manifest("somebody-else")),
		},
		{
			Name: "manifest-without-controllers", Stage: StageLoad, Mentions: []string{"manifest", "controller"},
			Explain: "a plugin that does nothing",
			Wasm:    withManifest("manifest-without-controllers", controllers("manifest-without-controllers")),
		},
		{
			Name: "manifest-same-controller-twice", Stage: StageLoad, Mentions: []string{"manifest", "twin"},
			Explain: "two controllers share a name, and so their finalizer and metrics",
			Wasm: withManifest("manifest-same-controller-twice",
				controllers("manifest-same-controller-twice", conformance("twin"), conformance("twin"))),
		},
		{
			Name: "manifest-without-kind", Stage: StageLoad, Mentions: []string{"manifest", "kind"},
			Explain: "a controller for no kind",
			Wasm: withManifest("manifest-without-kind",
				controllers("manifest-without-kind", abi.Controller{Name: controller, For: abi.Kind{APIVersion: "v1"}})),
		},
	}
}

func describing(name string, body ...[]byte) func() []byte {
	return func() []byte {
		g := newGuest(name)
		g.export(abi.ExportDescribe, g.Func(noTypes, i32Only, nil, body...))
		return g.finish(nil, g.ok())
	}
}

func withManifest(name string, manifest []byte) func() []byte {
	return func() []byte {
		g := newGuest(name)
		g.manifest = manifest
		return g.finish(nil, g.ok())
	}
}

func misspelt() []byte {
	return bytes.Replace(manifest("manifest-unknown-field"), []byte(`"controllers"`), []byte(`"controlers"`), 1)
}

func controllers(name string, list ...abi.Controller) []byte {
	return abi.EncodeManifest(&abi.Manifest{Name: name, Version: "1", Controllers: list})
}
