package storagetest

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"strconv"
	"testing"
	"time"

	"example.com/canvasback/exports"
)

var linkChecks = []check{
	{"a link is found as stored", linkFound},
	{"FindLink omits the plan", linkWithoutPlan},
	{"ReplacePlan replaces the plan of a version once", linkReplacePlan},
	{"AddServed adds up", linkServed},
	{"links are bounded per owner and client", linkLimits},
	{"used-up links give way", linkUsedUp},
	{"expired links are deleted", linkExpiry},
	{"links are not shared with the caller", linkValues},
	{"links persist", linkPersists},
}

// manyLinks exceed the links in a test.
var manyLinks = linksUpTo(1000, 1<<40)

// linksUpTo returns limits of an owner, which are also those of a client.
func linksUpTo(links int, bytes int64) exports.LinkLimits {
	limit := exports.LinkLimit{Links: links, Bytes: bytes}
	return exports.LinkLimits{PerOwner: limit, PerClient: limit, Served: 1 << 60}
}

func digestOf(text string) exports.Digest { return sha256.Sum256([]byte(text)) }

// newLink returns a link of an owner as it is stored.
func newLink(token, owner string) exports.StoredLink {
	plan := []byte("plan of " + token + "\x00\xff")
	return exports.StoredLink{
		Digest:    digestOf(token),
		Owner:     digestOf(owner),
		Client:    digestOf("client"),
		Version:   1,
		CreatedAt: testTime,
		ExpiresAt: testTime.Add(time.Hour),
		Plan:      plan,
		PlanSize:  len(plan),
	}
}

func insertLink(t testing.TB, s Storage, link exports.StoredLink, limits exports.LinkLimits) exports.StoredLink {
	t.Helper()
	given := link
	given.Version, given.Served = 7, 7 // ignored
	must(t, linkStore(t, s).InsertLink(t.Context(), given, limits))
	return link
}

func wantLink(t testing.TB, s Storage, want exports.StoredLink) {
	t.Helper()
	got, err := linkStore(t, s).FindLink(t.Context(), want.Digest, true)
	must(t, err)
	if !equalLinks(got, want) {
		t.Errorf("FindLink returns %s, want %s", summary(got), summary(want))
	}
}

func equalLinks(a, b exports.StoredLink) bool {
	samePlan := bytes.Equal(a.Plan, b.Plan)
	a.Plan, b.Plan = nil, nil
	return samePlan && reflect.DeepEqual(a, b)
}

func wantNoLink(t testing.TB, s Storage, link exports.StoredLink) {
	t.Helper()
	_, err := linkStore(t, s).FindLink(t.Context(), link.Digest, true)
	wantError(t, err, exports.ErrLinkNotFound)
}

func linkFound(t *testing.T, s Harness) {
	a := insertLink(t, s, newLink("a", "x"), manyLinks)
	b := newLink("b", "x")
	b.Owner, b.Client, b.Plan, b.PlanSize = exports.Digest{}, exports.Digest{}, []byte{}, 0
	b.CreatedAt, b.ExpiresAt = times[1], times[3]
	insertLink(t, s, b, manyLinks)
	large := newLink("large", "y")
	large.Plan, large.PlanSize = bytes.Repeat([]byte("plan"), 1<<20), 4<<20
	insertLink(t, s, large, manyLinks)
	for _, link := range []exports.StoredLink{a, b, large} {
		wantLink(t, s, link)
	}
	wantNoLink(t, s, newLink("c", "x"))
}

func linkWithoutPlan(t *testing.T, s Harness) {
	link := insertLink(t, s, newLink("a", "x"), manyLinks)
	link.Plan = nil
	got, err := linkStore(t, s).FindLink(t.Context(), link.Digest, false)
	must(t, err)
	if got.Plan != nil || !equalLinks(got, link) {
		t.Errorf("FindLink without plan returns %s, want %s", summary(got), summary(link))
	}
	_, err = linkStore(t, s).FindLink(t.Context(), digestOf("b"), false)
	wantError(t, err, exports.ErrLinkNotFound)
}

func linkReplacePlan(t *testing.T, s Harness) {
	link, other := insertLink(t, s, newLink("a", "x"), manyLinks), insertLink(t, s, newLink("b", "x"), manyLinks)
	for _, version := range []int64{2, 1, 1, 0, 2} {
		plan := []byte("replaced " + strconv.FormatInt(version, 10))
		if version == link.Version {
			link.Version, link.Plan, link.PlanSize = link.Version+1, plan, len(plan)
		}
		got, err := linkStore(t, s).ReplacePlan(t.Context(), link.Digest, version, plan)
		must(t, err)
		if !equalLinks(got, link) {
			t.Errorf("ReplacePlan of version %d returns %s, want %s", version, summary(got), summary(link))
		}
		wantLink(t, s, link)
	}
	wantLink(t, s, other)
	for _, version := range []int64{0, 1} {
		_, err := linkStore(t, s).ReplacePlan(t.Context(), digestOf("c"), version, nil)
		wantError(t, err, exports.ErrLinkNotFound)
	}
}

func linkServed(t *testing.T, s Harness) {
	link, other := insertLink(t, s, newLink("a", "x"), manyLinks), insertLink(t, s, newLink("b", "x"), manyLinks)
	for _, amount := range []int64{5, 0, 1 << 50} {
		must(t, linkStore(t, s).AddServed(t.Context(), link.Digest, amount))
		link.Served += amount
		wantLink(t, s, link)
	}
	must(t, linkStore(t, s).AddServed(t.Context(), digestOf("c"), 1))
	wantNoLink(t, s, newLink("c", "x"))
	replaced, err := linkStore(t, s).ReplacePlan(t.Context(), link.Digest, 1, nil)
	must(t, err)
	wantEqual(t, "ReplacePlan returns Served", replaced.Served, link.Served)
	wantLink(t, s, other)
}

func linkLimits(t *testing.T, s Harness) {
	limits := linksUpTo(4, 1000)
	limits.PerClient = exports.LinkLimit{Links: 3, Bytes: 600}
	sized := func(token, owner, client string, size int) exports.StoredLink {
		link := newLink(token, owner)
		link.Client, link.Plan, link.PlanSize = digestOf(client), bytes.Repeat([]byte("x"), size), size
		return link
	}
	tooMany := func(link exports.StoredLink) {
		t.Helper()
		wantError(t, linkStore(t, s).InsertLink(t.Context(), link, limits), exports.ErrTooManyLinks)
		wantNoLink(t, s, link)
	}
	kept := []exports.StoredLink{
		insertLink(t, s, sized("a", "x", "one", 200), limits),
		insertLink(t, s, sized("b", "x", "one", 400), limits),
	}
	tooMany(sized("c", "x", "one", 1))
	kept = append(kept, insertLink(t, s, sized("c", "x", "two", 400), limits))
	tooMany(sized("d", "x", "three", 1))
	kept = append(kept, insertLink(t, s, sized("d", "x", "three", 0), limits))
	tooMany(sized("e", "x", "four", 0))

	for _, token := range []string{"f", "g", "h"} {
		kept = append(kept, insertLink(t, s, sized(token, "y", "one", 1), limits))
	}
	tooMany(sized("i", "y", "one", 1))
	kept = append(kept, insertLink(t, s, sized("i", "y", "two", 599), limits))
	for _, link := range kept {
		wantLink(t, s, link)
	}
	large := bytes.Repeat([]byte("x"), 601) // a replaced plan counts
	insertLink(t, s, sized("j", "z", "one", 1), limits)
	_, err := linkStore(t, s).ReplacePlan(t.Context(), digestOf("j"), 1, large)
	must(t, err)
	tooMany(sized("k", "z", "one", 0))
}

func linkUsedUp(t *testing.T, s Harness) {
	limits := linksUpTo(2, 1000)
	limits.Served = 10
	a := newLink("a", "x")
	a.Client = digestOf("another client")
	a, b := insertLink(t, s, a, limits), insertLink(t, s, newLink("b", "x"), limits)
	other := insertLink(t, s, newLink("other", "y"), limits)
	must(t, linkStore(t, s).AddServed(t.Context(), a.Digest, 9))
	wantError(t, linkStore(t, s).InsertLink(t.Context(), newLink("c", "x"), limits), exports.ErrTooManyLinks)
	must(t, linkStore(t, s).AddServed(t.Context(), a.Digest, 1))
	must(t, linkStore(t, s).AddServed(t.Context(), other.Digest, 10))
	other.Served = 10
	large := newLink("large", "x")
	large.Plan = make([]byte, limits.PerOwner.Bytes+1)
	wantError(t, linkStore(t, s).InsertLink(t.Context(), large, limits), exports.ErrTooManyLinks)
	a.Served = 10
	wantLink(t, s, a)
	c := insertLink(t, s, newLink("c", "x"), limits)
	wantNoLink(t, s, a)
	for _, link := range []exports.StoredLink{b, c, other} {
		wantLink(t, s, link)
	}
}

func linkExpiry(t *testing.T, s Harness) {
	early, late := newLink("early", "x"), newLink("late", "y")
	late.ExpiresAt = late.ExpiresAt.Add(time.Millisecond)
	insertLink(t, s, early, manyLinks)
	insertLink(t, s, late, manyLinks)
	next := newLink("next", "z")
	next.CreatedAt = early.ExpiresAt.Add(-time.Millisecond)
	insertLink(t, s, next, manyLinks)
	wantLink(t, s, early)
	last := newLink("last", "z")
	last.CreatedAt, last.ExpiresAt = early.ExpiresAt, early.ExpiresAt.Add(time.Hour)
	insertLink(t, s, last, manyLinks)
	wantNoLink(t, s, early)
	wantNoLink(t, s, next)
	wantLink(t, s, late)
	wantLink(t, s, last)
	next.CreatedAt, next.ExpiresAt = last.ExpiresAt, last.ExpiresAt.Add(time.Hour)
	insertLink(t, s, next, linksUpTo(1, 1000)) // an expired link of the owner does not count
	wantNoLink(t, s, last)
	wantLink(t, s, next)
}

func linkValues(t *testing.T, s Harness) {
	link := newLink("a", "x")
	plan := bytes.Clone(link.Plan)
	given := link
	given.Plan = plan
	insertLink(t, s, given, manyLinks)
	plan[0]++
	wantLink(t, s, link)
	got, err := linkStore(t, s).FindLink(t.Context(), link.Digest, true)
	must(t, err)
	got.Plan[0]++
	wantLink(t, s, link)
	got, err = linkStore(t, s).ReplacePlan(t.Context(), link.Digest, 1, plan)
	must(t, err)
	link = got
	link.Plan = bytes.Clone(plan)
	plan[0]++
	got.Plan[0]--
	wantLink(t, s, link)
}

func linkPersists(t *testing.T, s Harness) {
	second := s.reopen(t)
	link := insertLink(t, s, newLink("a", "x"), manyLinks)
	wantLink(t, second, link)
	must(t, linkStore(t, second).AddServed(t.Context(), link.Digest, 3))
	replaced, err := linkStore(t, second).ReplacePlan(t.Context(), link.Digest, 1, []byte("new"))
	must(t, err)
	wantLink(t, s, replaced)
}

// concurrentPlans checks that of many plans in place of one version, one is
// stored and all calls return it.
func concurrentPlans(t *testing.T, handles []Storage) {
	const workers = 16
	link := insertLink(t, handles[0], newLink("a", "x"), manyLinks)
	got := make([]exports.StoredLink, workers)
	for _, err := range parallel(handles, workers, func(s Storage, i int) (err error) {
		if err := linkStore(t, s).AddServed(t.Context(), link.Digest, 1); err != nil {
			return err
		}
		got[i], err = linkStore(t, s).ReplacePlan(t.Context(), link.Digest, 1, []byte(strconv.Itoa(i)))
		return err
	}) {
		must(t, err)
	}
	for _, stored := range got {
		if stored.Version != 2 || !bytes.Equal(stored.Plan, got[0].Plan) {
			t.Errorf("ReplacePlan returns plan %q of version %d, another call %q", stored.Plan, stored.Version, got[0].Plan)
		}
	}
	link.Version, link.Served, link.Plan, link.PlanSize = 2, workers, got[0].Plan, len(got[0].Plan)
	wantLink(t, handles[1], link)
}

// concurrentLinks checks that concurrent insertions do not disturb each other.
func concurrentLinks(t *testing.T, handles []Storage) {
	linkStore(t, handles[0])
	const workers, each = 8, 10
	for _, err := range parallel(handles, workers, func(s Storage, i int) error {
		for n := range each {
			if err := linkStore(t, s).InsertLink(t.Context(), newLink(strconv.Itoa(i*each+n), "x"), manyLinks); err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	for i := range workers * each {
		wantLink(t, handles[1], newLink(strconv.Itoa(i), "x"))
	}
	err := linkStore(t, handles[0]).InsertLink(t.Context(), newLink("last", "x"), linksUpTo(workers*each, 1<<40))
	wantError(t, err, exports.ErrTooManyLinks)
}
