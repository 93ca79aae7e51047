package shapes

// Texts are decoded into every subject. Most are for one of them; the others reject the
// text or ignore its members.
var Texts = []string{
	`{}`, `null`, `[]`, `""`, `1`, `true`, ``, `{`, `{} x`, " { } \n", `[null]`, `[{}]`, `{"":1}`,

	// Scalars, at and beyond their limits.
	`{"bool":true,"string":"a","int":-1,"uint":1,"rune":65,"float32":1.5,"float64":-2.5e-10}`,
	`{"int8":127,"int16":32767,"int32":2147483647,"int64":9223372036854775807}`,
	`{"int8":-128,"int16":-32768,"int32":-2147483648,"int64":-9223372036854775808}`,
	`{"uint8":255,"uint16":65535,"uint32":4294967295,"uint64":18446744073709551615,"uintptr":7}`,
	`{"int8":128}`, `{"int8":-129}`, `{"int16":32768}`, `{"int32":2147483648}`, `{"int64":9223372036854775808}`,
	`{"int":1.0}`, `{"int":1e2}`, `{"int":-0}`, `{"uint":-0}`, `{"uint":-1}`, `{"uint8":256}`, `{"uint64":18446744073709551616}`,
	`{"int":01}`, `{"int":1 }`, `{"int":123456789}`, `{"int":1234567890}`, `{"int8":99}`, `{"int8":200}`, `{"int":"1"}`,
	`{"float32":3.5e38}`, `{"float32":3.4e38}`, `{"float64":1e309}`, `{"float64":1e308}`, `{"float64":0.1}`, `{"float64":1e-400}`,
	`{"float32":1e-7,"float64":1e21}`, `{"float32":1e-6,"float64":999999999999999999999}`, `{"float64":-0,"float32":-0.0}`, `{"float64":"1"}`,
	`{"bool":null,"string":null,"int":null,"uint":null,"float64":null}`, `{"bool":1}`, `{"bool":"true"}`, `{"bool":tru}`, `{"string":1}`,
	`{"string":"a\u00e9\ud83d\ude00\ud800\n\"\\\/\b\f\r\t<>&` + "\u2028" + `"}`, `{"string":"\x"}`, "{\"string\":\"\x01\"}", `{"\u0073tring":"b"}`,
	`{"int":1,"int":2}`, `{"string":"a","string":null}`, `{"unknown":{"a":[1,{"b":null}]},"string":"x"}`,

	// Optional and Zero.
	`{"pointer":1,"slice":[1,2],"map":{"b":1,"a":2},"array":[1],"bytes":"AQID","raw":{"a":[1, 2]},"strings":["a"],"texts":{"a":"b"}}`,
	`{"pointer":null,"slice":null,"map":null,"array":null,"bytes":null,"raw":null,"strings":null,"texts":null}`,
	`{"slice":[],"map":{},"array":[],"bytes":"","strings":[],"texts":{}}`, `{"array":[1,2,3]}`, `{"array":[null,4]}`, `{"array":{}}`,
	`{"slice":[1,2,3],"slice":[4]}`, `{"slice":[1],"slice":[null,null]}`, `{"map":{"a":1},"map":{"b":2}}`, `{"map":{"a":1,"a":null}}`,
	`{"bytes":[1,2,255]}`, `{"bytes":[256]}`, `{"bytes":"A"}`, `{"bytes":"AQ==\n"}`, `{"bytes":7}`, `{"bytes":[]}`, `{"bytes":[1,null]}`,
	`{"strings":["a",null,"b"]}`, `{"strings":[1]}`, `{"texts":{"a":null}}`, `{"texts":{"a":1}}`, `{"texts":["a"]}`, `{"empty":[1,2]}`,
	`{"plain":{"X":1,"Y":2},"mixed":{"names":["a"],"point":{"X":1}},"own":2,"own2":3,"own3":4,"both":[1]}`,
	`{"mixed":{"names":[]},"own":1,"own2":2,"own3":1,"both":[]}`, `{"struct":{"int":7},"time":"2026-01-01T00:00:00.5+01:00"}`, `{"plain":7}`,

	// Nested.
	`{"pointer":{"X":1},"twice":7,"slices":[["a"],null,[]],"pointers":[{"X":1},null],"maps":{"a":{"b":{"X":1}},"c":null}}`,
	`{"twice":null,"pointers":[null],"mapList":{"a":[{"Y":1}],"b":null,"c":[]},"listMap":[{"a":true,"b":null},null,{}]}`,
	`{"array":[{"X":1},{"Y":2}],"matrix":[[1,2],[3,4]],"unnamed":{"a":1,"b":[{"c":"x"},{}]}}`, `{"matrix":[[1,2,3],[4],[5]]}`, `{"matrix":[[128]]}`,
	`{"bytesList":["AQ==",null,""],"rawList":[1,null,{"a":1}],"rawMap":{"a":1,"b":null}}`, `{"pointer":{"X":1},"pointer":{"Y":2},"pointer":null}`,
	`{"pointers":[{"X":1},{"X":2}],"pointers":[{"Y":3}]}`, `{"maps":{"a":{"b":{"X":1}}},"maps":{"a":{"b":{"Y":1}}}}`, `{"rawList":[1,]}`,

	// Named.
	`{"phase":"a","phases":["b","c"],"labels":{"x":"y"},"keys":{"p":"q"},"points":[{"X":1}],"index":{"i":{"Y":2}},"blob":"AQ==","pair":["a","b"]}`,
	`{"flag":true,"count":7,"ratio":0.1,"alias":{"X":1},"aliases":[{"Y":1}],"box":{"content":{"X":1},"more":[{}]},"boxes":{"a":{"content":1,"more":[2]}}}`,
	`{"pair":["a"]}`, `{"points":null,"blob":null,"keys":null}`, `{"boxes":{"a":{"content":2147483648}}}`, `{"labels":{"x":{}}}`,

	// Embedding.
	`{"apiVersion":"v1","kind":"K","name":"n","count":1,"depth":2,"maybe":"m","sure":3,"twice":"t","inner":"i","Clash":"c","Ambiguous":5,"Kept":6,"tagged":{"a":1},"Phase":"p",` +
		`"metadata":{"name":"x","labels":{"a":"b"},"ownerReferences":[{"uid":"u","controller":true}],"finalizers":[]}}`,
	`{"maybe":null}`, `{"sure":1}`, `{"tagged":null,"metadata":null,"inner":null}`, `{"count":"1"}`,

	// Tags.
	`{"NoTag":1,"-":2,"größe":3,"a.b/c:d$%-":4,"Bad":5,"it's":6,"Options":7,"Other":8,"UPPER":9,"<&>":10,"noFields":{"x":1},"Skipped":11,"hidden":12}`,

	// Values.
	`{"time":"2026-01-01T00:00:00Z","micro":"2026-01-01T00:00:00.000001Z","duration":"1h30m","maybe":"0s","port":8080,"ports":["http",1,-5],"limit":"500m"}`,
	`{"limits":{"cpu":1.5,"memory":"2Gi"},"clock":"2026-01-01T00:00:00Z","clocks":{"a":"2026-01-01T00:00:00.123456789Z"},"wait":1000,"hex":"ff","hexList":["1",null]}`,
	`{"text":"bc","textList":"3","halfRead":[1,2],"halfShow":{"n":7},"own":"5s","owner":{"kind":"K"},"when":[{"type":"Ready","observedGeneration":3}],"level":-3}`,
	`{"foreign":{"name":"p","number":80,"hidden":[1]},"foreigns":[{"number":1}],"other":{"words":["a"],"load":{"p":{"number":2}},"extra":{"e":0.5}}}`,
	`{"duration":null,"port":null,"limit":null,"clock":null,"hex":null,"hexList":[null],"text":null,"textList":null,"halfRead":null,"halfShow":null,"own":null}`,
	`{"duration":"x"}`, `{"duration":5}`, `{"port":2147483648}`, `{"port":true}`, `{"port":1.5}`, `{"port":"\u0041"}`, `{"limit":"x"}`, `{"limit":[]}`, `{"limit":1e3}`,
	`{"clock":"x"}`, `{"clock":"2026-01-01T00:00:00\u005A"}`, `{"clock":1}`, `{"hex":"zz"}`, `{"hex":"d"}`, `{"hex":7}`, `{"text":"abc"}`, `{"text":7}`, `{"text":{}}`,
	`{"textList":"300"}`, `{"halfShow":7}`, `{"level":128}`, `{"number":70000}`, `{"words":["a",null],"extra":{"a":null,"b":1e39}}`, `{"own":{}}`,
	`{"selector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"In","values":["a","b"]},{"key":"x","operator":"Exists"},null]},"selected":{}}`,
	`{"selector":{"matchLabels":null,"matchExpressions":[{"key":"a","operator":"Is","values":null}]},"selected":null}`, `{"selected":{"matchLabels":{"a":1}}}`,

	// Tree.
	`{"name":"r","left":{"name":"l","left":null},"many":[{"many":[{}]}],"named":{"a":{"name":"n"},"b":null},"loop":[[],[[]],null]}`,

	// Slices and maps as the whole text.
	`[{"X":1},{"Y":2},null]`, `{"a":{"int":1},"b":null}`, `"word"`, `[1]`, `{"a":1}`,

	// Compact and Visiting.
	`{"name":"n","count":1,"bool":true,"int8":127,"words":["a",null],"texts":{"a":"b"},"part":{"count":7},"maybe":{"name":"m"},"list":[{"name":"l"},{}]}`,
	`{"words":null,"texts":null,"part":null,"maybe":null,"list":null,"index":null,"blobs":null,"port":null,"limits":null,"metadata":null,"other":null,"zero":null}`,
	`{"list":[{"name":"a"},{"name":"b"}],"list":[{"count":1}],"maybe":{"name":"a"},"maybe":{"count":1},"index":{"a":{"name":"x"}},"index":{"a":{"count":1}}}`,
	`{"words":[],"texts":{},"list":[],"index":{},"blobs":{},"limits":{},"empty":{"list":[],"words":[],"texts":{},"limits":{},"numbers":[]}}`,
	`{"blobs":{"a":"AQ==","b":null,"c":[1]},"limits":{"cpu":"500m","n":1},"port":"http","index":{"b":{"count":2},"a":{}}}`, `{"list":[null,1]}`,
	`{"zero":{"words":[],"part":{"time":""}}}`, `{"zero":{"part":{"count":1}}}`, `{"zero":{"index":{"a":1}}}`, `{"zero":{"list":[]}}`, `{"zero":{"texts":{}}}`,
	`{"zero":{"metadata":{"labels":{}},"other":{"words":[]}}}`, `{"zero":{"other":{"words":["a"]}},"metadata":{"ownerReferences":[{"uid":"u"}]}}`,
	`{"empty":{"flag":true,"phase":"p","int64":9223372036854775807,"maybe":2147483647,"perhaps":false,"selector":{"matchExpressions":[{"key":"k"}]},"other":{}}}`,
	`{"empty":{"int64":9223372036854775808}}`, `{"empty":{"maybe":2147483648}}`, `{"int8":128}`, `{"bool":"x"}`, `{"part":[]}`, `{"list":{}}`, `{"index":[]}`, `{"maybe":1}`,
	`{"compact":{"name":"a"},"part":{"count":1},"parts":[{"count":1},null],"others":{"a":{"name":"n"},"b":null},"zero":{"words":[]},"meta":{"name":"m"}}`,
	`{"visited":{"name":"n","words":["w"]},"parts":null,"part":null,"others":null}`,
}
