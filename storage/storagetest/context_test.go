package storagetest

import (
	"reflect"
	"testing"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// The checks of contexts, faults and unconfirmed writes make these calls only.
func TestAllCalls_HaveEveryMethod(t *testing.T) {
	t.Parallel()
	called := map[string]bool{"keys.Shared": true, "symbols.Tenant": true} // cannot fail
	for _, c := range allCalls(memory.New(), keys.Key{}, symbols.Symbol{}, exports.Export{}) {
		called[c.method] = true
	}
	for domain, stores := range map[string][]reflect.Type{
		"keys":    {reflect.TypeFor[keys.Store]()},
		"symbols": {reflect.TypeFor[symbols.Store]()},
		"exports": {reflect.TypeFor[exports.Store](), reflect.TypeFor[exports.LinkStore]()},
	} {
		for _, store := range stores {
			for method := range store.Methods() {
				if name := domain + "." + method.Name; !called[name] {
					t.Errorf("%s is not among all calls", name)
				}
			}
		}
	}
}
