package drivertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/storagetest"
)

// keyCall is a call of a key method. An update sets a name and digest that no
// other call sets.
type keyCall struct {
	method string
	id     int64
	name   string
	digest keys.Digest
}

type keyResult struct {
	id    int64
	name  string
	saw   string // name in the argument of the update function
	epoch int64
	err   error // a documented error
}

// key is a client key of the model.
type key struct {
	id     int64
	name   string
	digest keys.Digest
}

// allKeys is the state of the model: the keys, ids ascending, and the epoch that
// was read last. The epoch has increased since if changed is true.
type allKeys struct {
	all     []key
	epoch   int64
	changed bool
}

// keyModel defines the correct results.
var keyModel = porcupine.Model{
	Init: func() any { return allKeys{changed: true} },
	Equal: func(a, b any) bool {
		x, y := a.(allKeys), b.(allKeys)
		return x.epoch == y.epoch && x.changed == y.changed && slices.Equal(x.all, y.all)
	},
	Step: func(before, call, result any) (bool, any) {
		return before.(allKeys).step(call.(keyCall), result.(keyResult))
	},
}

func (k allKeys) step(call keyCall, result keyResult) (ok bool, after allKeys) {
	at := slices.IndexFunc(k.all, func(key key) bool { return key.id == call.id })
	changed := func(all []key) allKeys { return allKeys{all, k.epoch, true} }
	switch call.method {
	case "epoch":
		if k.changed {
			return result.epoch > k.epoch, allKeys{all: k.all, epoch: result.epoch}
		}
		return result.epoch == k.epoch, k
	case "find":
		at := slices.IndexFunc(k.all, func(key key) bool { return key.digest == call.digest })
		if at < 0 {
			return result.err == keys.ErrNotFound, k
		}
		return result.err == nil && result.id == k.all[at].id && result.name == k.all[at].name, k
	case "insert":
		taken := slices.ContainsFunc(k.all, func(key key) bool { return key.id == result.id })
		return result.err == nil && !taken, changed(append(slices.Clone(k.all), key{result.id, call.name, call.digest}))
	}
	if at < 0 {
		return result.err == keys.ErrNotFound, k
	}
	switch call.method {
	case "get":
		return result.err == nil && result.name == k.all[at].name, k
	case "update":
		all := slices.Clone(k.all)
		all[at] = key{call.id, call.name, call.digest}
		return result.err == nil && result.saw == k.all[at].name && result.name == call.name, changed(all)
	case "delete":
		return result.err == nil, changed(slices.Delete(slices.Clone(k.all), at, at+1))
	}
	panic(call.method)
}

// randomKeyCall makes and records a random call. A find uses the digest of one of
// the calls that some client makes at about the same time.
func randomKeyCall(t testing.TB, h *history, client, n int, store keys.Store) {
	ctx := context.WithoutCancel(t.Context())
	call := keyCall{
		method: []string{"epoch", "find", "find", "get", "insert", "update", "update", "delete"}[rand.N(8)],
		id:     h.randomID(),
		name:   nameOf(h, client, n),
	}
	if call.method == "find" {
		call.name = nameOf(h, rand.N(clients), max(0, n-rand.N(3)))
	}
	call.digest = sha256.Sum256([]byte(call.name))
	h.record(client, call, func() any {
		var result keyResult
		var got keys.Key
		switch call.method {
		case "epoch":
			var changes keys.Changes
			changes, result.err = store.Changes(ctx, 0)
			result.epoch = changes.Epoch
		case "find":
			got, result.err = store.Find(ctx, call.digest)
		case "get":
			got, result.err = store.Get(ctx, call.id)
		case "insert":
			got, result.err = store.Insert(ctx, keys.Key{
				Name: call.name, Digest: call.digest, CreatedAt: time.Now(), UpdatedAt: time.Now(),
			})
		case "update":
			got, result.err = storagetest.UpdateKey(ctx, store, call.id, func(key *keys.Key) error {
				result.saw = key.Name
				key.Name, key.Digest = call.name, call.digest
				return nil
			})
		case "delete":
			_, result.err = storagetest.DeleteKey(ctx, store, call.id)
		}
		result.id, result.name = got.ID, got.Name
		switch {
		case errors.Is(result.err, keys.ErrNotFound):
			result.err = keys.ErrNotFound
		case result.err != nil:
			t.Errorf("%+v: %v", call, result.err)
		case call.method == "insert":
			h.addID(got.ID)
		}
		return result
	})
}

// nameOf returns the name that a client's n-th call sets.
func nameOf(h *history, client, n int) string {
	return fmt.Sprint(h.start.UnixNano(), " ", client, " ", n)
}

func deleteKeys(t testing.TB, store keys.Store) {
	t.Helper()
	for _, key := range must(store.List(t.Context(), keys.Filter{}, keys.Range{}))(t).Keys {
		must(storagetest.DeleteKey(t.Context(), store, key.ID))(t)
	}
}
