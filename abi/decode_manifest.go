package abi

import "github.com/thole-dev/thole/abi/rawjson"

// DecodeManifest reads what describe wrote and checks it against the rules of
// this package. It is strict: a field that this version does not know, or that
// is given twice, is an error which names it.
func DecodeManifest(data []byte) (*Manifest, error) {
	m, err := readManifest(data)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// readManifest reads a manifest without judging its values.
func readManifest(data []byte) (*Manifest, error) {
	r, err := strict(data)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	r.Object(func(field string) {
		switch field {
		case "name":
			m.Name = r.String()
		case "version":
			m.Version = r.String()
		case "memoVersion":
			m.MemoVersion = r.String()
		case "features":
			m.Features = readList(r, MaxFeatures, readString)
		case "controllers":
			m.Controllers = readList(r, MaxControllers, readController)
		default:
			r.Unknown(field, "name", "version", "memoVersion", "features", "controllers")
		}
	})
	return m, r.End()
}

func readController(r *rawjson.Reader) (c Controller) {
	r.Object(func(field string) {
		switch field {
		case "name":
			c.Name = r.String()
		case "for":
			c.For = readKind(r)
		case "owns":
			c.Owns = readList(r, MaxKinds, readKind)
		case "reads":
			c.Reads = readList(r, MaxKinds, readKind)
		case "writes":
			c.Writes = readList(r, MaxKinds, readKind)
		case "finalizer":
			c.Finalizer = r.Bool()
		case "interval":
			c.Interval = readDuration(r)
		case "timeout":
			c.Timeout = readDuration(r)
		case "concurrency":
			c.Concurrency = readCount(r)
		case "conditions":
			c.Conditions = readConditions(r)
		default:
			r.Unknown(field, "name", "for", "owns", "reads", "writes", "finalizer",
				"interval", "timeout", "concurrency", "conditions")
		}
	})
	return c
}

func readKind(r *rawjson.Reader) (k Kind) {
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			k.APIVersion = r.String()
		case "kind":
			k.Kind = r.String()
		default:
			r.Unknown(field, "apiVersion", "kind")
		}
	})
	return k
}

func readConditions(r *rawjson.Reader) (c Conditions) {
	r.Object(func(field string) {
		switch field {
		case "target":
			c.Target = r.String()
		case "owned":
			c.Owned = readList(r, MaxConditions, readString)
		case "summarized":
			c.Summarized = readList(r, MaxConditions, readString)
		case "negativePolarity":
			c.NegativePolarity = readList(r, MaxConditions, readString)
		default:
			r.Unknown(field, "target", "owned", "summarized", "negativePolarity")
		}
	})
	return c
}
