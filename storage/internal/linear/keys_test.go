package linear

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
)

// keyCall is a call of a method for keys. An update leaves the name and the
// digest given; both are new each time.
type keyCall struct {
	method string
	id     int64
	name   string
	digest keys.Digest
}

// keyAnswer is what it was answered with.
type keyAnswer struct {
	id    int64
	name  string
	saw   string // name, by the function of an update
	epoch int64
	err   error // one that the contract names
}

// key is a client key as the model knows it.
type key struct {
	id     int64
	name   string
	digest keys.Digest
}

// allKeys are the keys, ids ascending, and the epoch when somebody has asked
// for it last. It has risen since if there was a change.
type allKeys struct {
	all     []key
	epoch   int64
	changed bool
}

// keyModel says which answers are right.
var keyModel = porcupine.Model{
	Init: func() any { return allKeys{changed: true} },
	Equal: func(a, b any) bool {
		x, y := a.(allKeys), b.(allKeys)
		return x.epoch == y.epoch && x.changed == y.changed && slices.Equal(x.all, y.all)
	},
	Step: func(before, call, answer any) (bool, any) {
		return before.(allKeys).step(call.(keyCall), answer.(keyAnswer))
	},
}

func (k allKeys) step(call keyCall, answer keyAnswer) (ok bool, after allKeys) {
	at := slices.IndexFunc(k.all, func(key key) bool { return key.id == call.id })
	changed := func(all []key) allKeys { return allKeys{all, k.epoch, true} }
	switch call.method {
	case "epoch":
		if k.changed {
			return answer.epoch > k.epoch, allKeys{all: k.all, epoch: answer.epoch}
		}
		return answer.epoch == k.epoch, k
	case "find":
		at := slices.IndexFunc(k.all, func(key key) bool { return key.digest == call.digest })
		if at < 0 {
			return answer.err == keys.ErrNotFound, k
		}
		return answer.err == nil && answer.id == k.all[at].id && answer.name == k.all[at].name, k
	case "insert":
		taken := slices.ContainsFunc(k.all, func(key key) bool { return key.id == answer.id })
		return answer.err == nil && !taken, changed(append(slices.Clone(k.all), key{answer.id, call.name, call.digest}))
	}
	if at < 0 {
		return answer.err == keys.ErrNotFound, k
	}
	switch call.method {
	case "get":
		return answer.err == nil && answer.name == k.all[at].name, k
	case "update":
		all := slices.Clone(k.all)
		all[at] = key{call.id, call.name, call.digest}
		return answer.err == nil && answer.saw == k.all[at].name && answer.name == call.name, changed(all)
	case "delete":
		return answer.err == nil, changed(slices.Delete(slices.Clone(k.all), at, at+1))
	}
	panic(call.method)
}

// digestOf makes names and digests go together.
func digestOf(name string) keys.Digest { return sha256.Sum256([]byte(name)) }

// disturbKeys makes a call at random. Digests that are looked for belong to
// calls of the same number by some client, be it earlier or later.
func disturbKeys(t testing.TB, h *history, client, n int, store keys.Store) {
	ctx := context.WithoutCancel(t.Context())
	call := keyCall{
		method: []string{"epoch", "find", "find", "get", "insert", "update", "update", "delete"}[rand.N(8)],
		id:     h.anyID(),
		name:   nameOf(h, client, n),
	}
	if call.method == "find" {
		call.name = nameOf(h, rand.N(clients), max(0, n-rand.N(3)))
	}
	call.digest = digestOf(call.name)
	h.record(client, call, func() any {
		var answer keyAnswer
		var got keys.Key
		switch call.method {
		case "epoch":
			answer.epoch, answer.err = store.Epoch(ctx)
		case "find":
			got, answer.err = store.Find(ctx, call.digest)
		case "get":
			got, answer.err = store.Get(ctx, call.id)
		case "insert":
			got, answer.err = store.Insert(ctx, keys.Key{
				Name: call.name, Digest: call.digest, CreatedAt: time.Now(), UpdatedAt: time.Now(),
			})
		case "update":
			got, answer.err = store.Update(ctx, call.id, func(key *keys.Key) error {
				answer.saw = key.Name
				key.Name, key.Digest = call.name, call.digest
				return nil
			})
		case "delete":
			answer.err = store.Delete(ctx, call.id)
		}
		answer.id, answer.name = got.ID, got.Name
		switch {
		case errors.Is(answer.err, keys.ErrNotFound):
			answer.err = keys.ErrNotFound
		case answer.err != nil:
			t.Errorf("%+v: %v", call, answer.err)
		case call.method == "insert":
			h.given(got.ID)
		}
		return answer
	})
}

// nameOf is what a client's n-th call writes.
func nameOf(h *history, client, n int) string {
	return fmt.Sprint(h.start.UnixNano(), " ", client, " ", n)
}

// dropKeys leaves a store without keys.
func dropKeys(t testing.TB, store keys.Store) {
	t.Helper()
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range list {
		if err := store.Delete(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
	}
}
